"""Interfaces of plugins that schedule pods in groups: either enough members at once, or none.

The scheduler tries the pending members of a group in one cycle, and binds them only after PreBind
has ended for all of them. Not upstream, where GangScheduling waits at Permit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from scheduler.api.pod import Pod
from scheduler.explain.records import GroupAttempt, GroupMembers, GroupRules, GroupView
from scheduler.framework.node_status import NodeToStatus
from scheduler.framework.nodes import Int64Column, NodeTableView, Rows
from scheduler.framework.plugin import ColumnarFilterPlugin, DryRunPostFilterPlugin, Plugin
from scheduler.framework.preemption import Candidate, Harm, PreemptionRules
from scheduler.framework.queued import QueuedPodInfo
from scheduler.framework.state import CycleState
from scheduler.framework.status import Status

MAX_MEMBERS: Final = 10_000
"""Maximum number of members of a group, since other pods wait during its cycle."""


@dataclass(frozen=True, slots=True)
class GroupTopology:
    """The topology constraints of a group; a domain is the set of nodes with one label value."""

    #: Node label: all members must be in the same domain of it; empty: no such constraint.
    required: str = ""
    #: Node labels: members should be in as few domains of each as possible; narrowest first.
    preferred: tuple[str, ...] = ()
    #: UIDs of the members that have a node already.
    placed: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class GroupToSchedule:
    """The pending members of a group, to be tried in one cycle."""

    #: The plugin that groups the pods; it counts as a rejector of members that fail.
    plugin: str
    #: Name of the group in messages: `pod group team-a/train`.
    name: str
    #: Number of members that the whole group needs, for messages.
    minimum: int
    #: Number of members that must be placed in this cycle; if fewer fit, none is placed.
    need: int
    #: UIDs of the pending members; the scheduler ignores those that are not in the queue.
    members: Sequence[str]
    #: Priority of the group for preemption if it is lower than its members'; None: the members'.
    priority: int | None = None
    #: Whether pods may be evicted for the group, if its members allow preemption as well.
    may_preempt: bool = True
    #: Where `priority` or `may_preempt` is stated, in messages: `PriorityClass batch`.
    priority_source: str = ""
    #: Topology constraints; None: members may be on any node.
    topology: GroupTopology | None = None
    #: Whether the group already has its minimum, so that this one further pod is tried on its own.
    alone: bool = False
    #: Whether members have nodes already, but fewer than the minimum: the group is of no use yet,
    #: and what it holds is of no use to others.
    holds_nodes: bool = False
    #: Seconds of failed attempts after which nodes are reserved for the group; 0: never.
    reserve_after: float = 0.0
    #: Maximum duration of such a reservation, in seconds.
    reserve_for: float = 0.0
    #: Maximum fraction of the time that cycles of groups may take while other pods can be tried.
    share: float = 1.0
    #: Whether members without preferences are packed: placed on nodes with the least room for them.
    packs: bool = False


@dataclass(frozen=True, slots=True)
class GroupReservation:
    """Nodes that are reserved for a waiting group, until the group fits there."""

    nodes: tuple[str, ...]
    #: Number of members that the plan places on these nodes.
    members: int
    #: Pods of at most this priority may only use what the plan leaves free on these nodes.
    priority: int
    #: Time at which the reservation ends at the latest, in seconds since the epoch.
    until: float


@dataclass(frozen=True, slots=True)
class GroupOutcome:
    """The result of one cycle of a group."""

    #: Whether members were assumed on nodes; their binding cycles are next.
    scheduled: bool
    #: Why members were not placed, for people; empty if all were.
    message: str
    #: Number of members that were placed, or would have been if enough had fitted.
    fit: int
    #: Number of members that fitted on no node, or whose attempt ended with an error.
    failed: int
    #: Duration of the cycle in seconds.
    seconds: float
    #: The topology domain of the members, for people; empty without topology constraints.
    place: str = ""
    #: Why members are in several domains of the required label; empty if they are not.
    split: str = ""
    #: Whether an upper bound ruled the group out before any member was tried.
    ruled_out: bool = False
    #: Whether the cycle ended with an error.
    error: bool = False
    #: The plugin whose limit for the whole group (`GroupLimitPlugin`) is the only reason for the
    #: failure; empty if there are other reasons.
    refused_by: str = ""
    #: Number of time slices that the cycle took.
    slices: int = 1
    #: Number of orders of the members, and of topology domains, that were tried.
    orders: int = 0
    placements: int = 0
    #: UIDs of the victims of the eviction plan; None: no plan was searched for.
    victims: Sequence[str] | None = None


@dataclass(frozen=True, slots=True)
class GroupDetails:
    """Details of one group from its plugin, for people."""

    #: The same as `GroupToSchedule.name`.
    name: str
    view: GroupView
    #: Number of members that must be placed at once; 0: each is tried on its own.
    need: int
    rules: GroupRules | None
    attempt: GroupAttempt | None
    #: Members by state, given by UID instead of name.
    members: tuple[GroupMembers, ...]
    #: UIDs of the members that wait for a node and have no scheduling gates.
    pending: Sequence[str]
    #: Why the pending members may not be tried; empty if they may.
    held: str
    topology: GroupTopology | None
    reservation: GroupReservation | None


class GroupingPlugin(Plugin, Protocol):
    """A plugin that puts pods into groups. A profile has at most one."""

    def group_to_schedule(self, pod: Pod) -> GroupToSchedule | None:
        """Return the group to schedule with a popped pod; None: the pod is scheduled alone."""
        ...

    def group_name(self, pod: Pod) -> str | None:
        """Return `GroupToSchedule.name` of the pod's group, even if the pod is scheduled alone."""
        ...

    def tried_before(self, pod: Pod) -> Iterable[str]:
        """Return a pending member of each group to be tried before the group of `pod`. Optional.

        Groups that hold nodes and cannot run yet are, until it is decided whether they fit. The
        number is limited, and empty for a pod without a group.
        """
        ...

    def evicted_with(self, pod: Pod, victims: AbstractSet[str]) -> Iterable[str]:
        """Return the UIDs of the pods that must be evicted together with `pod`. Optional.

        `victims` holds the UIDs of all pods chosen for eviction so far, including that of `pod`.
        """

    def pods_evicted(self, pod: Pod, victims: Sequence[Pod]) -> None:
        """Handle that PostFilter evicts `victims` for a single pod. Optional."""

    def group_reserved(self, pod: Pod, reservation: GroupReservation | None) -> None:
        """Handle a new reservation for the group of `pod`, or (None) the end of one. Optional.

        Called again whenever the plan of the reservation is renewed.
        """

    def reservations(self, pod: Pod) -> Iterable[tuple[str, GroupReservation]]:
        """Yield the name and reservation of each group whose reserved room `pod` may not use.

        Optional.
        """
        ...

    def group_views(self, namespace: str, limit: int) -> tuple[Sequence[GroupView], int]:
        """Return at most `limit` groups of a namespace (empty: all), and how many there are."""
        ...

    def group_details(self, namespace: str, name: str) -> Sequence[GroupDetails]:
        """Return the details of all groups of a name: none, one, or one per group API."""
        ...

    def group_of(self, pod: Pod) -> GroupDetails | None:
        """Return the details of the group of a pod; None if it is in no group."""
        ...

    def report_groups(self, kept_waiting: int) -> None:
        """Set the metrics of all groups; called before metrics are read.

        `kept_waiting` counts the events after which an upper bound kept a group waiting.
        """
        ...

    def group_decided(self, pod: Pod, group: GroupToSchedule, outcome: GroupOutcome) -> None:
        """Handle the result of the cycle of `group`, which `group_to_schedule(pod)` returned."""
        ...

    def group_not_bound(self, pod: Pod, message: str, *, undone: bool) -> None:
        """Handle that `pod` was not bound after the decision about its group. Optional.

        With `undone` this keeps all of its members from being bound. Otherwise others are bound.
        """


class GroupPreemptionPlugin(DryRunPostFilterPlugin, Protocol):
    """Evicts pods for whole groups; PostFilter does not run for members. Not upstream."""

    #: Eligible victims, and the extent of the search.
    rules: PreemptionRules

    def find_victims(
        self, state: CycleState, pod: Pod, statuses: NodeToStatus, harm: Harm | None = None
    ) -> Candidate | None:
        """Return a node and its victims for one member; candidates with the least `harm` win."""
        ...

    def evict_for_group(
        self,
        members: Sequence[QueuedPodInfo],
        group: str,
        victims: Sequence[Pod],
        needed: Callable[[], bool] = lambda: True,
    ) -> None:
        """Start the eviction of all `victims`, after which `members` fit together.

        `group` is the group's name in messages. Victims that are already terminating are skipped.
        Once `needed` returns False, pods that are not deleted yet stay.
        """
        ...

    def missing_permission(self) -> str:
        """Return which permission for evictions is missing, for people; empty if none is. Optional.

        Nothing is evicted then.
        """
        ...

    def stopped(self, members: Sequence[QueuedPodInfo]) -> str:
        """Return why `find_victims` finds none at present, for people; empty if it may. Optional.

        Otherwise than by a permission, such as for a while after a loop with another scheduler.
        """
        ...


class CapacityFilterPlugin(ColumnarFilterPlugin, Protocol):
    """A filter that knows an upper bound of the equal pods that each row takes. Not upstream.

    A group that cannot fit is then rejected without trying its members. The bound must never be
    too low, and must not grow when a pod is added to any node.
    """

    def capacity_rows(self, pod: Pod, table: NodeTableView, rows: Rows) -> Int64Column:
        """Return (len(rows),): the most further pods with the signature of `pod` that pass."""
        ...

    def capacity_matrix(
        self, pods: Sequence[Pod], table: NodeTableView, rows: Rows
    ) -> NDArray[np.int64]:
        """Return (len(pods), len(rows)): `capacity_rows` of each pod, or a higher bound. Optional.

        While groups wait, it is called with the same `pods` object whenever rows have changed.
        """
        ...

    def limits_by_rows(
        self, pod: Pod, table: NodeTableView, rows: Rows
    ) -> Sequence[tuple[str, int]]:
        """Return each limiting factor for `pod`, in words, with its number of rows. Optional.

        The factor that limits the most rows comes first. Called once for a group that does not fit.
        """
        ...


class GroupLimitPlugin(Plugin, Protocol):
    """A PreFilter plugin that limits what the pods of a group take together. Not upstream."""

    def reject_group(self, pods: Sequence[Pod], need: int) -> Status | None:
        """Return a rejection if the plugin admits fewer than `need` of these pods on any nodes.

        None if the group may be tried. After a rejection the plugin wakes the first of the pods
        once the group may be tried.
        """
        ...

    def group_failed(self, pods: Sequence[Pod]) -> None:
        """Handle a failed cycle in which this plugin rejected some of these pods.

        All reservations of the cycle were undone. The plugin must not wake the pods that it
        rejected because of the room that this freed.
        """
        ...


class AlikePlugin(Plugin, Protocol):
    """A PreFilter or PreScore plugin whose `SKIP` for one pod holds for its copies. Not upstream.

    PreFilter and PreScore then run once for members of a group that differ only in name and UID.
    """

    def skips_alike(self, pod: Pod) -> bool:
        """Whether a `SKIP` for `pod` holds for every pod that differs from it only in name and UID.

        It must hold as long as nothing changes except that such pods are placed.
        """
        ...
