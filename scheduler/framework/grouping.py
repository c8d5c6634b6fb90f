"""The interface of a plugin whose pods are scheduled in groups: all of them together, or none.

The scheduler tries the pending members of a group in one cycle, and binds them only after PreBind
of all of them has ended. Not upstream, where GangScheduling waits at Permit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from scheduler.api.pod import Pod
from scheduler.framework.node_status import NodeToStatus
from scheduler.framework.nodes import Int64Column, NodeTableView, Rows
from scheduler.framework.plugin import ColumnarFilterPlugin, DryRunPostFilterPlugin, Plugin
from scheduler.framework.preemption import Candidate, Harm, PreemptionRules
from scheduler.framework.state import CycleState
from scheduler.framework.status import Status
from scheduler.pages import GroupAttempt, GroupMembers, GroupRules, GroupView


@dataclass(frozen=True, slots=True)
class GroupTopology:
    """The topology domains in which the members of a group belong together."""

    #: Node label of which all members must be in one domain; empty: anywhere.
    required: str = ""
    #: Node labels of which they should be in as few domains as possible, narrowest first.
    preferred: tuple[str, ...] = ()
    #: UIDs of the members that are placed already.
    placed: Sequence[str] = ()


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
    #: Priority of the group for preemption, if it is below that of its members; None: theirs.
    priority: int | None = None
    #: Whether pods may be evicted for it, if its members allow that.
    may_preempt: bool = True
    #: None: its members may be anywhere.
    topology: GroupTopology | None = None
    #: Whether the group has its minimum, so that its one pod is tried for itself.
    alone: bool = False
    #: Seconds of failing attempts after which nodes are kept for it, and for how long at most; 0 of
    #: the first: never.
    reserve_after: float = 0.0
    reserve_for: float = 0.0
    #: The part of the time that cycles of groups take at most while other pods can be tried.
    share: float = 1.0
    #: Whether members without preferences go to the nodes with the least room for them.
    packs: bool = False


@dataclass(frozen=True, slots=True)
class GroupReservation:
    """Room that is kept for a group that waits, until it fits there."""

    nodes: tuple[str, ...]
    #: Members that have room on them by plan.
    members: int
    #: Pods of this priority and of lower ones may use what the plan leaves.
    priority: int
    #: When it ends at the latest, as monotonic time.
    until: float


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
    #: The topology domain of the members, for people; empty if they may be anywhere.
    place: str = ""
    #: Why members are in several domains of a label of which one is required; empty: they are not.
    split: str = ""
    #: Whether the bound showed that it cannot fit before any member was tried.
    untried: bool = False
    #: Whether the cycle ended with an error.
    error: bool = False
    #: The plugin whose limit for the group as a whole (`GroupLimitPlugin`) is the one reason why it
    #: failed; empty: there are others.
    refused_by: str = ""
    #: Time slices that it took, orders of members that were tried, and topology domains.
    slices: int = 1
    orders: int = 0
    placements: int = 0
    #: UIDs of the victims of a plan that is carried out; None: no plan was searched for.
    victims: Sequence[str] | None = None


@dataclass(frozen=True, slots=True)
class GroupDetails:
    """The knowledge of a plugin about one group, for people."""

    #: As `GroupToSchedule.name`.
    name: str
    view: GroupView
    #: Members that must be placed at once; 0: each by itself.
    need: int
    rules: GroupRules | None
    attempt: GroupAttempt | None
    #: By state, with UIDs in place of names.
    members: tuple[GroupMembers, ...]
    #: UIDs of the members that wait for a node and have no scheduling gates.
    pending: Sequence[str]
    #: Why they may not be tried; empty if they may.
    held: str
    topology: GroupTopology | None
    reservation: GroupReservation | None


class GroupingPlugin(Plugin, Protocol):
    """A plugin that puts pods into groups. A profile has one at most."""

    def group_to_schedule(self, pod: Pod) -> GroupToSchedule | None:
        """Return the group to try together with a popped pod; None: the pod is tried alone."""
        ...

    def group_name(self, pod: Pod) -> str | None:
        """Return `GroupToSchedule.name` of the pod's group, also where the pod is tried alone."""
        ...

    def evicted_with(self, pod: Pod, victims: AbstractSet[str]) -> Iterable[str]:
        """Return the UIDs of the pods that must be evicted if a placed pod is. Optional.

        `victims` are all that are to be evicted so far, by UID; the pod is among them.
        """

    def group_reserved(self, pod: Pod, reservation: GroupReservation | None) -> None:
        """Take note that room is kept for the group of a pod, or (None) not any more. Optional.

        Called again whenever the plan was renewed.
        """

    def group_views(self, namespace: str, limit: int) -> tuple[Sequence[GroupView], int]:
        """Return what people see of the groups of a namespace (empty: all), and their number."""
        ...

    def group_details(self, namespace: str, name: str) -> Sequence[GroupDetails]:
        """Return what is known of the groups of a name: none, one, or one of each API."""
        ...

    def group_of(self, pod: Pod) -> GroupDetails | None:
        """Return what is known of the group of a pod."""
        ...

    def report_groups(self, kept_waiting: int) -> None:
        """Set the metrics of all groups, before they are read.

        `kept_waiting` is how often the bound has kept a group waiting after an event.
        """
        ...

    def group_decided(self, pod: Pod, group: GroupToSchedule, outcome: GroupOutcome) -> None:
        """Take note of the result of a cycle that `group_to_schedule` of this pod began."""
        ...


class GroupPreemptionPlugin(DryRunPostFilterPlugin, Protocol):
    """Evicts pods for whole groups. PostFilter of a single member never runs. Not upstream."""

    #: Which pods may be victims.
    rules: PreemptionRules

    def find_victims(
        self, state: CycleState, pod: Pod, statuses: NodeToStatus, harm: Harm | None = None
    ) -> Candidate | None:
        """Return the victims for one member, on a node where the `harm` is least."""
        ...

    def evict_for_group(self, members: Sequence[Pod], group: str, victims: Sequence[Pod]) -> None:
        """Start the evictions of all victims, after which these members fit together.

        `group` is its name in texts. Those victims that are terminating already are left alone.
        """
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

    def limits_by_rows(
        self, pod: Pod, table: NodeTableView, rows: Rows
    ) -> Sequence[tuple[str, int]]:
        """Return what limits them, in words, and on how many rows; the most rows first. Optional.

        Called once for a group that does not fit.
        """
        ...


class GroupLimitPlugin(Plugin, Protocol):
    """A PreFilter plugin that limits what all pods of a group take together. Not upstream."""

    def reject_group(self, pods: Sequence[Pod], need: int) -> Status | None:
        """Return why fewer than `need` of these pods may be placed, whatever the nodes have.

        None if they may be tried. After a rejection the plugin wakes the first one once they may.
        """
        ...

    def group_failed(self, pods: Sequence[Pod]) -> None:
        """Take note that these pods were tried, that this plugin rejected some, and all was undone.

        What their attempts took is free again, which is no reason to wake those that it rejected.
        """
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
