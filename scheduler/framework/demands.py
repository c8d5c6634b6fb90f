"""Demands: what a plugin that rejects a pod would have to see changed, for remedies.

A plugin whose rejection does not depend on nodes, such as that of a quota, knows best what would
end it. Its demands are listed as remedies once the rest of the profile has placed the pod in a
trial in which they count as met (`CycleState.granted`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from scheduler.api.pod import Pod
from scheduler.framework.plugin import Plugin


@dataclass(frozen=True, slots=True)
class Demand:
    """A field of an object that must have another value."""

    kind: str
    """As in a manifest."""
    name: str
    """`namespace/name`, or the name."""
    keys: tuple[str, ...]
    """The path to the field: `("spec", "hard", "requests.cpu")`."""
    value: str
    text: str
    """In plain words: "quota team-a +2 requests.cpu"."""


class DemandingPlugin(Plugin, Protocol):
    """A plugin that knows what would end its rejection."""

    def demands(self, pod: Pod) -> Sequence[Demand]:
        """Return all that must change for the plugin to let the pod pass; empty: nothing would do.

        Leaves no trace. In a trial with its name in `CycleState.granted` the plugin must let the
        pod pass.
        """
        ...
