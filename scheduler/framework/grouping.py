"""The interface of a plugin whose pods are scheduled in groups: all of them together, or none.

The scheduler tries the pending members of a group in one cycle, and binds them only after PreBind
of all of them has ended. Not upstream, where GangScheduling waits at Permit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from scheduler.api.pod import Pod
from scheduler.framework.nodes import Int64Column, NodeTableView, Rows
from scheduler.framework.plugin import ColumnarFilterPlugin, Plugin


@dataclass(frozen=True, slots=True)
class GroupToSchedule:
    """Pending pods to try in one cycle."""

    #: The plugin that groups the pods, which counts among their rejectors.
    plugin: str
    #: In messages, as `pod group team-a/train`.
    name: str
    #: Members that the whole group needs, for messages.
    minimum: int
    #: Members that must be placed in this cycle; if fewer fit, none is.
    need: int
    #: UIDs of the pending members; those that the queue does not have are left out.
    members: Sequence[str]


@dataclass(frozen=True, slots=True)
class GroupOutcome:
    """The result of one cycle of a group."""

    #: Whether members were assumed on nodes; their binding cycles are next.
    scheduled: bool
    #: For people; empty if all members were placed.
    message: str
    #: Members that were placed, or would have been.
    fit: int
    #: Members for which there was no node, or an error.
    failed: int
    #: Seconds that the cycle took.
    seconds: float


class GroupingPlugin(Plugin, Protocol):
    """A plugin that puts pods into groups. A profile has one at most."""

    def group_to_schedule(self, pod: Pod) -> GroupToSchedule | None:
        """Return the group to try together with a popped pod; None: the pod is tried alone."""
        ...

    def group_decided(self, pod: Pod, group: GroupToSchedule, outcome: GroupOutcome) -> None:
        """Take note of the result of a cycle that `group_to_schedule` of this pod began."""
        ...


class CapacityFilterPlugin(ColumnarFilterPlugin, Protocol):
    """Knows how many equal pods a row can take at most. Not upstream.

    A group of pods that cannot fit is then rejected without trying each. The number must never be
    too low, and must not grow when a pod is added to any node.
    """

    def capacity_rows(self, pod: Pod, table: NodeTableView, rows: Rows) -> Int64Column:
        """Return (len(rows),): how many pods with the signature of `pod` still pass at most."""
        ...

    def capacity_matrix(
        self, pods: Sequence[Pod], table: NodeTableView, rows: Rows
    ) -> NDArray[np.int64]:
        """Return (len(pods), len(rows)): for each pod `capacity_rows` or more. Optional.

        Called with the same `pods` object whenever rows have changed while groups wait.
        """
        ...

    def scarcest(self, pod: Pod, table: NodeTableView, rows: Rows) -> str:
        """Return what limits them most, in words; empty for nothing in particular. Optional."""
        ...


class AlikePlugin(Plugin, Protocol):
    """A PreFilter or PreScore plugin that tells when it skips all pods of a kind. Not upstream.

    For members of a group that differ in their names only PreFilter and PreScore then run once.
    """

    def skips_alike(self, pod: Pod) -> bool:
        """Whether what is true of this pod is true of each that differs in name and UID only.

        That is: if PreFilter or PreScore skip the pod, they skip the others as well, as long as
        nothing changes but that such pods are placed.
        """
        ...
