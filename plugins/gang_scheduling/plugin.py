"""GangScheduling: the pods of a PodGroup start together or not at all.

It reads PodGroups of `scheduling.x-k8s.io`, which pods join by a label, and of `scheduling.k8s.io`,
which pods join by `spec.schedulingGroup`, if the API server serves them. PreEnqueue holds the
members until the group has an object and enough members; the scheduler then tries all of them in
one cycle (`scheduler.framework.grouping`). No pod waits at Permit, so groups do not block each
other. See docs/gang-scheduling.md for users.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, ClassVar, Final

import msgspec

from plugins.arguments import require_valid
from plugins.gang_scheduling.arguments import GangSchedulingArgs, argument_problems
from plugins.gang_scheduling.gangs import Gangs
from plugins.gang_scheduling.messages import (
    EVICTED,
    EVICTING,
    FAILED_SCHEDULING,
    GANG_PARTIAL,
    GANG_PREEMPTED,
    GANG_RESERVED,
    PREEMPTING,
    TOPOLOGY_SPLIT,
    WAITING,
)
from plugins.gang_scheduling.priority_class import PRIORITY_CLASSES
from plugins.gang_scheduling.reservations import KeptReservation, note_of
from plugins.gang_scheduling.standing import GroupStage
from plugins.gang_scheduling.tally import REJECTIONS, result_of
from plugins.gang_scheduling.views import group_details, group_views, name_of, topology_of
from scheduler.api.meta import Named
from scheduler.api.pod import Pod
from scheduler.api.pod_groups import (
    NATIVE_POD_GROUPS,
    OLD_POD_GROUP_LABEL,
    POD_GROUP_LABEL,
    POD_GROUPS,
    NativePodGroup,
    PodGroup,
)
from scheduler.explain.records import GroupAttempt, GroupView
from scheduler.explain.records.wording import counted
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
from scheduler.groups import PRIORITY_CLASS, Group, GroupKey, MemberState, Source, group_of
from scheduler.groups.terms import DISRUPTION

ATTEMPTS: Final = "scheduler_podgroup_schedule_attempts_total"
RESERVATION_SECONDS: Final = "kubestow_gang_reservation_seconds_total"
DURATION: Final = "scheduler_podgroup_scheduling_attempt_duration_seconds"
ALGORITHM: Final = "scheduler_podgroup_scheduling_algorithm_duration_seconds"
CYCLE_SECONDS: Final = "kubestow_gang_cycle_seconds"
CYCLE_SLICES: Final = "kubestow_gang_cycle_slices"
ORDERS: Final = "kubestow_gang_orders_tried"
PLACEMENTS: Final = "kubestow_gang_placements_tried"
NOT_BOUND_COUNT: Final = "kubestow_gang_unbound_total"
PLANS: Final = "kubestow_gang_preemption_plans_total"


class GangScheduling:
    """Schedules pods in groups; it does nothing for pods without a group."""

    name: ClassVar[str] = plugin_names.GANG_SCHEDULING
    #: The plugin of scheduler-plugins that reads the same objects.
    aliases: ClassVar[tuple[str, ...]] = ("Coscheduling",)
    #: Only this instance knows which members are assumed.
    restart_on_change: ClassVar[bool] = True
    required_resources: ClassVar[tuple[str, ...]] = (
        POD_GROUPS,
        *NATIVE_POD_GROUPS,
        PRIORITY_CLASSES,
    )
    optional_resources: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(NATIVE_POD_GROUPS, "pods with spec.schedulingGroup wait"),
        PRIORITY_CLASSES: f"the annotation {PRIORITY_CLASS} of PodGroups has no effect",
    }
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
        self._group_of_uid = self.gangs.groups.of
        self.gangs.profiles.add(handle.profile_name)
        self.gangs.statuses.enabled |= args.pod_group_status != "Never"
        self.gangs.statuses.takes_over |= args.pod_group_status == "Always"
        seconds = args.assemble_for.total_seconds()
        self.gangs.assemble_seconds = max(self.gangs.assemble_seconds, seconds)

    # -- extension points ------------------------------------------------------------------------

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Hold a member whose group is not ready."""
        # A fast check first, because this runs for every pod, and most are in no group.
        if (
            pod.spec.scheduling_group is None
            and POD_GROUP_LABEL not in pod.metadata.labels
            and OLD_POD_GROUP_LABEL not in pod.metadata.labels
            and self._group_of_uid(pod.metadata.uid) is None
        ):
            return None
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
        uid = pod.metadata.uid
        if self._group_of_uid(uid) is not None:
            self._touch(self.gangs.groups.reserved(uid))
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Count the member as pending again."""
        self._touch(self.gangs.groups.unreserved(pod.uid))

    def _touch(self, group: Group | None) -> None:
        if group is not None:
            self.gangs.tally.touch(group.key)
            self.gangs.unfinished.look(group)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Return no events: `Gangs` requeues the members of a group that changed."""
        return ()

    def explain(self, pod: Pod) -> Sequence[str]:
        """Return a line for each other group whose reserved nodes the pod may not use."""
        if pod.spec.node_name:
            return ()
        return self.gangs.reserved.lines(pod, self.gangs.groups.of(pod.uid))

    # -- groups ----------------------------------------------------------------------------------

    def group_to_schedule(self, pod: Pod) -> GroupToSchedule | None:
        """Return the pending members of a group that needs several at once."""
        group = self._group_of_uid(pod.metadata.uid)
        if group is None or group.terms is None:
            return None
        need, topology = group.need, topology_of(group)
        if need:
            members = tuple(group.members(MemberState.PENDING))
        elif topology is not None:
            # Members are tried one by one, but in the domain of the others.
            need, members = 1, (pod.uid,)
        else:
            return None
        return GroupToSchedule(
            self.name,
            name_of(group),
            need + group.have,
            need,
            members,
            self.gangs.priorities.priority(group.terms),
            not self.gangs.priorities.never_preempts(group.terms),
            self.gangs.priorities.source(group.terms),
            topology,
            alone=not group.need,
            holds_nodes=group.unfinished,
            reserve_after=self._args.reserve_after.total_seconds(),
            reserve_for=self._args.reserve_for.total_seconds(),
            share=self._args.group_share,
            # Without packing, members would leave too little room on each node for waiting groups.
            packs=len(self.gangs.failed) > len(self.gangs.over_quota),
        )

    def tried_before(self, pod: Pod) -> Iterable[str]:
        """Return a pending member of each group that holds nodes, and was not tried since."""
        unfinished = self.gangs.unfinished
        return unfinished.before(self._group_of_uid(pod.metadata.uid)) if unfinished else ()

    def group_name(self, pod: Pod) -> str | None:
        """Return the name of the pod's group in messages."""
        group = self.gangs.groups.of(pod.uid)
        return None if group is None else name_of(group)

    def evicted_with(self, pod: Pod, victims: AbstractSet[str]) -> Iterable[str]:
        """Return all placed members if the pod's group is disrupted as a whole.

        Members beyond the minimum can be evicted one by one.
        """
        group = self.gangs.groups.of(pod.uid)
        if group is None or group.terms is None or not group.terms.whole:
            return ()
        # Sorted, so that a replay of the decision has the same order.
        placed = tuple(sorted(group.members(MemberState.BOUND, MemberState.RESERVED)))
        left = sum(uid not in victims for uid in placed)
        return () if left + group.succeeded >= group.terms.minimum else placed

    def group_reserved(self, pod: Pod, reservation: GroupReservation | None) -> None:
        """Record a reservation for a group, with an Event when it begins."""
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
        self.gangs.touch(group.key)
        if begins and reservation is not None:
            self.gangs.record(group, "Normal", GANG_RESERVED, note_of(reservation))

    def reservations(self, pod: Pod) -> Iterable[tuple[str, GroupReservation]]:
        """Yield the reservations of other groups that restrict a pod, by the name of the group."""
        gangs = self.gangs
        for key, kept in gangs.reserved.others(pod, gangs.groups.of(pod.uid)):
            yield f"pod group {key}", kept

    def bundle_state(self) -> Iterator[Any]:
        """Yield the reservations, which only this process knows."""
        yield from map(msgspec.to_builtins, self.gangs.reserved.state())

    def restore_bundle_state(self, pieces: Iterable[Any]) -> None:
        """Restore what `bundle_state` yielded. Raises ValueError."""
        states = msgspec.convert([*pieces], list[KeptReservation])
        self.gangs.reserved.restore(states, self._handle.clock.monotonic())

    def group_views(self, namespace: str, limit: int) -> tuple[Sequence[GroupView], int]:
        """Return at most `limit` groups of a namespace (empty: all), and how many there are."""
        return group_views(self.gangs, namespace, limit)

    def group_details(self, namespace: str, name: str) -> Sequence[GroupDetails]:
        """Return the details of the groups of a name, in both APIs."""
        keys = (GroupKey(namespace, name, source) for source in Source)
        found = (self.gangs.groups.get(key) for key in keys)
        return [group_details(self.gangs, each) for each in found if each is not None]

    def group_of(self, pod: Pod) -> GroupDetails | None:
        """Return the details of the group of a pod; None if it is in no group."""
        group = self.gangs.groups.of(pod.uid)
        return None if group is None else group_details(self.gangs, group)

    def group_decided(self, pod: Pod, group: GroupToSchedule, outcome: GroupOutcome) -> None:
        """Record the result in metrics, and in an Event on the PodGroup if it has changed."""
        self._measure(outcome)
        known = self.gangs.groups.of(pod.uid)
        if known is None or known.terms is None:
            return
        self.gangs.touch(known.key)
        self.gangs.unfinished.forget(known.key)
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
        self.gangs.over_quota.discard(known.key)
        if not group.alone:
            self.gangs.bindings.decided(known, outcome)
        if outcome.scheduled and group.alone:
            # The other members wait for this one.
            following = next(known.members(MemberState.PENDING), None)
            if following is not None:
                self._handle.wake([following], self.name)
            return
        if outcome.scheduled:
            return
        self.gangs.failed[known.key] = outcome.message
        if outcome.refused_by == plugin_names.RESOURCE_QUOTA:
            self.gangs.over_quota.add(known.key)
        if outcome.message != before:
            self.gangs.record(known, "Warning", FAILED_SCHEDULING, outcome.message)
            stage, text = self.gangs.standing(known)
            if stage is GroupStage.PARTIAL:
                self.gangs.record(known, "Warning", GANG_PARTIAL, text)
        if outcome.victims:
            note = EVICTING.format(victims=counted(len(outcome.victims), "pod"))
            self.gangs.record(known, "Normal", PREEMPTING, note)
            priority = pod.priority if group.priority is None else group.priority
            self._report_evicted(group.name, priority, frozenset(outcome.victims))

    def pods_evicted(self, pod: Pod, victims: Sequence[Pod]) -> None:
        """Record an Event on each group that is evicted as a whole for a single pod."""
        uids = frozenset(each.metadata.uid for each in victims)
        self._report_evicted(f"pod {pod.metadata.uid}", pod.priority, uids)

    def _report_evicted(self, preemptor: str, priority: int, victims: AbstractSet[str]) -> None:
        found: dict[GroupKey, list[str]] = {}
        for uid in victims:
            group = self.gangs.groups.of(uid)
            if group is not None and self._kind(uid, victims) == "group":
                found.setdefault(group.key, []).append(uid)
        for key, uids in sorted(found.items(), key=str):
            group = self.gangs.groups.get(key)
            if group is None or group.terms is None:
                continue
            note = EVICTED.format(
                victims=counted(len(uids), "pod"),
                preemptor=preemptor,
                priority=priority,
                minimum=group.terms.minimum,
                annotation=DISRUPTION,
            )
            self.gangs.record(group, "Warning", GANG_PREEMPTED, note)

    def group_not_bound(self, pod: Pod, message: str, *, undone: bool) -> None:
        """Record in metrics, and in an Event on the PodGroup, that its members were not bound."""
        self._handle.metrics.count(NOT_BOUND_COUNT, "undone" if undone else "partial")
        group = self.gangs.groups.of(pod.uid)
        if group is not None and group.terms is not None:
            self.gangs.bindings.failed(group, pod.key, message, undone=undone)
            self.gangs.touch(group.key)

    def _measure(self, outcome: GroupOutcome) -> None:
        metrics, profile = self._handle.metrics, self._handle.profile_name
        result = result_of(outcome)
        metrics.count(ATTEMPTS, result, profile)
        metrics.observe(DURATION, result, profile, value=outcome.seconds)
        metrics.observe(ALGORITHM, value=outcome.seconds)
        own = "rejected_by_bound" if outcome.ruled_out and result == "unschedulable" else result
        metrics.observe(CYCLE_SECONDS, own, value=outcome.seconds)
        metrics.observe(CYCLE_SLICES, value=outcome.slices)
        metrics.observe(ORDERS, value=outcome.orders)
        if outcome.placements:
            metrics.observe(PLACEMENTS, value=outcome.placements)
        if outcome.ruled_out:
            metrics.count(REJECTIONS, "cycle")
        if outcome.victims is not None:
            metrics.count(PLANS, "planned" if outcome.victims else "none")
            victims = frozenset(outcome.victims)
            self.gangs.tally.evicted([self._kind(uid, victims) for uid in outcome.victims])

    def _kind(self, uid: str, victims: AbstractSet[str]) -> str:
        """Return the kind of a victim, for metrics."""
        group = self.gangs.groups.of(uid)
        if group is None or group.terms is None or not group.terms.whole:
            return "pod"
        placed = group.members(MemberState.BOUND, MemberState.RESERVED)
        left = sum(each not in victims for each in placed)
        return "surplus" if left + group.succeeded >= group.terms.minimum else "group"

    def report_groups(self, kept_waiting: int) -> None:
        """Set the metrics of all groups."""
        self.gangs.tally.report(lookups=self.gangs.ended.lookups, kept=kept_waiting)

    def _report_split(self, group: Group, split: str) -> None:
        """Record an Event if members are in several domains, unless it was reported already."""
        if self.gangs.split.get(group.key, "") == split:
            return
        if split:
            self.gangs.split[group.key] = split
            self.gangs.record(group, "Warning", TOPOLOGY_SPLIT, split)
        else:
            del self.gangs.split[group.key]
