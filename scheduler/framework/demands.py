"""Demands: the changes of objects after which a plugin would no longer reject a pod.

Only the plugin itself knows what would lift a rejection that does not depend on nodes, such as that
of a quota. `kubestow` proposes its demands as remedies if the other plugins of the profile place
the pod in a trial in which the demands count as met (`CycleState.granted`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from scheduler.api.pod import Pod
from scheduler.framework.plugin import Plugin


@dataclass(frozen=True, slots=True)
class Demand:
    """A field of an object, and the value that it must have."""

    kind: str
    """The object's kind, as in a manifest."""
    name: str
    """The object's `namespace/name`, or its name if it is cluster-scoped."""
    keys: tuple[str, ...]
    """The path to the field: `("spec", "hard", "requests.cpu")`."""
    value: str
    text: str
    """A summary for people: "quota team-a +2 requests.cpu"."""


class DemandingPlugin(Plugin, Protocol):
    """A plugin that knows which changes would lift its rejection."""

    def demands(self, pod: Pod) -> Sequence[Demand]:
        """Return all changes that the plugin needs to admit the pod; empty: none would suffice.

        It must have no side effects. In a trial that has the plugin's name in `CycleState.granted`
        the plugin must admit the pod.
        """
        ...
