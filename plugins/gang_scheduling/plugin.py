"""GangScheduling: the pods of a PodGroup start together or not at all.

Reads PodGroups of `scheduling.x-k8s.io`, to which a label joins pods, and those of
`scheduling.k8s.io`, to which `spec.schedulingGroup` does, wherever the API server has them.
PreEnqueue holds the members until the group has an object and enough of them; the scheduler then
tries all of them in one cycle (`scheduler.framework.grouping`). Nobody waits at Permit, so groups
do not block each other. docs/gang-scheduling.md describes it for users.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import ClassVar, Final

from plugins.arguments import require_valid
from plugins.gang_scheduling.arguments import GangSchedulingArgs, argument_problems
from plugins.gang_scheduling.gangs import Gangs
from plugins.gang_scheduling.messages import (
    FAILED_SCHEDULING,
    GANG_RESERVED,
    GANG_SCHEDULED,
    TOPOLOGY_SPLIT,
    WAITING,
)
from plugins.gang_scheduling.reservations import note_of
from plugins.gang_scheduling.views import group_details, group_views, name_of, topology_of
from scheduler.api.meta import Named
from scheduler.api.pod import Pod
from scheduler.api.pod_groups import NATIVE_POD_GROUPS, POD_GROUPS, NativePodGroup, PodGroup
from scheduler.framework import (
    ClusterEventWithHint,
    Code,
    CycleState,
    Handle,
    Permission,
    Status,
    plugin_names,
)
from scheduler.framework.grouping import (
    GroupDetails,
    GroupOutcome,
    GroupReservation,
    GroupToSchedule,
)
from scheduler.groups import Group, GroupKey, MemberState, Source, group_of
from scheduler.pages import GroupAttempt, GroupView

ATTEMPTS: Final = "scheduler_podgroup_schedule_attempts_total"
RESERVATION_SECONDS: Final = "kubestow_gang_reservation_seconds_total"
DURATION: Final = "scheduler_podgroup_scheduling_attempt_duration_seconds"


class GangScheduling:
    """Idle for pods without the label."""

    name: ClassVar[str] = plugin_names.GANG_SCHEDULING
    #: Which members are assumed is known to this instance only.
    restart_on_change: ClassVar[bool] = True
    required_resources: ClassVar[tuple[str, ...]] = (POD_GROUPS, *NATIVE_POD_GROUPS)
    optional_resources: ClassVar[Mapping[str, str]] = dict.fromkeys(
        NATIVE_POD_GROUPS, "pods with spec.schedulingGroup wait"
    )
    resource_types: ClassVar[Mapping[str, type[Named]]] = {
        POD_GROUPS: PodGroup,
        **dict.fromkeys(NATIVE_POD_GROUPS, NativePodGroup),
    }

    args_type: ClassVar[type[GangSchedulingArgs]] = GangSchedulingArgs
    permissions: ClassVar[tuple[Permission, ...]] = tuple(
        Permission(
            group=group,
            resource="podgroups/status",
            verbs=("patch",),
            purpose="GangScheduling: phase and conditions of PodGroups",
            without="PodGroups do not show how far they are",
        )
        for group in ("scheduling.x-k8s.io", "scheduling.k8s.io")
    )

    def __init__(self, args: GangSchedulingArgs | None, handle: Handle) -> None:
        self._handle = handle
        self._args = args = args or GangSchedulingArgs()
        require_valid(argument_problems(args))
        self.gangs: Gangs = handle.shared(self.name, lambda: Gangs(handle, self.name))
        self.gangs.profiles.add(handle.profile_name)
        self.gangs.statuses.enabled |= args.write_status

    # -- extension points ------------------------------------------------------------------------

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Hold a member whose group is not ready."""
        text = self.gangs.why_held(pod)
        if not text:
            return None
        return Status(
            Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
            (text,),
            condition_reason=WAITING,
            skip_post_filter=True,
        )

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Count the member as placed."""
        self.gangs.groups.reserved(pod.uid)
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Count the member as pending again."""
        self.gangs.groups.unreserved(pod.uid)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Return no events: `Gangs` requeues the members of a group that changed."""
        return ()

    def explain(self, pod: Pod) -> Sequence[str]:
        """Return for which groups nodes are kept against a pod; `group_of` is about its own."""
        if pod.spec.node_name:
            return ()
        return self.gangs.reserved.lines(pod, self.gangs.groups.of(pod.uid))

    # -- groups ----------------------------------------------------------------------------------

    def group_to_schedule(self, pod: Pod) -> GroupToSchedule | None:
        """Return the pending members of a group that needs several at once."""
        group = self.gangs.groups.of(pod.uid)
        if group is None or group.terms is None:
            return None
        need, topology = group.need, topology_of(group)
        if need:
            members = tuple(group.members(MemberState.PENDING))
        elif topology is not None:
            # Each for itself, but where the others are.
            need, members = 1, (pod.uid,)
        else:
            return None
        return GroupToSchedule(
            self.name,
            name_of(group),
            need + group.have,
            need,
            members,
            group.terms.priority,
            not group.terms.never_preempts,
            topology,
            alone=not group.need,
            reserve_after=self._args.reserve_after.total_seconds(),
            reserve_for=self._args.reserve_for.total_seconds(),
        )

    def group_name(self, pod: Pod) -> str | None:
        """Return how texts call the pod's group."""
        group = self.gangs.groups.of(pod.uid)
        return None if group is None else name_of(group)

    def evicted_with(self, pod: Pod, victims: AbstractSet[str]) -> Iterable[str]:
        """Return all placed members of a group that is disrupted as a whole.

        Members beyond its minimum are evicted singly.
        """
        group = self.gangs.groups.of(pod.uid)
        if group is None or group.terms is None or not group.terms.whole:
            return ()
        placed = tuple(group.members(MemberState.BOUND, MemberState.RESERVED))
        left = sum(uid not in victims for uid in placed)
        return () if left + group.succeeded >= group.terms.minimum else placed

    def group_reserved(self, pod: Pod, reservation: GroupReservation | None) -> None:
        """Take note that nodes are kept for a group, and say so once."""
        group = self.gangs.groups.of(pod.uid)
        begins, seconds = self.gangs.reserved.set(
            group_of(pod) if group is None else group.key,
            reservation,
            self._handle.clock.monotonic(),
        )
        if seconds:
            profile = self._handle.profile_name
            self._handle.metrics.count(RESERVATION_SECONDS, profile, amount=seconds)
        if group is None or group.terms is None:
            return
        self.gangs.statuses.touch(group.key)
        if begins and reservation is not None:
            self.gangs.record(group, "Normal", GANG_RESERVED, note_of(reservation))

    def group_views(self, namespace: str, limit: int) -> tuple[Sequence[GroupView], int]:
        """Return views of the groups of a namespace (empty: of all), and their number."""
        return group_views(self.gangs, namespace, limit)

    def group_details(self, namespace: str, name: str) -> Sequence[GroupDetails]:
        """Return what is known of the groups of a name in both APIs."""
        keys = (GroupKey(namespace, name, source) for source in Source)
        found = (self.gangs.groups.get(key) for key in keys)
        return [group_details(self.gangs, each) for each in found if each is not None]

    def group_of(self, pod: Pod) -> GroupDetails | None:
        """Return what is known of the group of a pod."""
        group = self.gangs.groups.of(pod.uid)
        return None if group is None else group_details(self.gangs, group)

    def group_decided(self, pod: Pod, group: GroupToSchedule, outcome: GroupOutcome) -> None:
        """Record the result in metrics, and in an Event on the PodGroup when it changed."""
        result = "scheduled" if outcome.scheduled else "unschedulable"
        self._handle.metrics.count(ATTEMPTS, result, self._handle.profile_name)
        self._handle.metrics.observe(
            DURATION, result, self._handle.profile_name, value=outcome.seconds
        )
        known = self.gangs.groups.of(pod.uid)
        if known is None or known.terms is None:
            return
        self.gangs.statuses.touch(known.key)
        self._report_split(known, outcome.split)
        self.gangs.attempts[known.key] = GroupAttempt(
            time=self._handle.clock.now(),
            scheduled=outcome.scheduled,
            fit=outcome.fit,
            failed=outcome.failed,
            seconds=outcome.seconds,
            message=outcome.message,
            place=outcome.place,
        )
        before = self.gangs.failed.pop(known.key, None)
        if outcome.scheduled and group.alone:
            return
        if outcome.scheduled:
            note = f"{outcome.fit} pods have a node and are bound together"
            place = f", {outcome.place}" if outcome.place else ""
            self.gangs.record(known, "Normal", GANG_SCHEDULED, f"{note}{place}")
            return
        self.gangs.failed[known.key] = outcome.message
        if outcome.message != before:
            self.gangs.record(known, "Warning", FAILED_SCHEDULING, outcome.message)

    def _report_split(self, group: Group, split: str) -> None:
        """Record in an Event that members are in several domains, unless the last one said so."""
        if self.gangs.split.get(group.key, "") == split:
            return
        if split:
            self.gangs.split[group.key] = split
            self.gangs.record(group, "Warning", TOPOLOGY_SPLIT, split)
        else:
            del self.gangs.split[group.key]
