"""GroupScheduling: runs the cycles of pod groups, for the scheduling loop.

A group is tried when one of its members is popped; the others are taken out of their sub-queues.
After a failure the group waits until its capacity bound has risen (`WaitingGroups`). If the bound
does not explain the failure, one member of each template waits for events of its rejectors and
brings the whole group back. The other members stay among the unschedulable pods, so that events are
cheap even for large groups.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from scheduler.api.pod import Pod
from scheduler.engine import Attempt, Engine
from scheduler.engine.failure import (
    Failure,
    of_group,
    waiting_for_victims,
    without_nomination,
)
from scheduler.engine.group_result import GroupResult
from scheduler.framework import Clock, QueuedPodInfo
from scheduler.framework.grouping import GroupingPlugin, GroupToSchedule
from scheduler.groups.cycles.cycle import GroupCycle
from scheduler.groups.running.evictions import GroupEvictions
from scheduler.groups.running.reservations import GroupReservations
from scheduler.groups.running.waiting import WaitingGroups
from scheduler.queue import QueueState, SchedulingQueue, identity
from scheduler.service.binding_cycle import BindingCycle
from scheduler.service.groups import Pause
from scheduler.service.observer import Decisions, ObserverSlot

LATER: Final = "{group}: tried after the minimum of the group"
GROUP_PLACED: Final = "GroupPlaced"
"""Label of the event that requeues a member beyond the minimum, in metrics and outputs."""


class GroupScheduling:
    """Implements `service.groups.Groups`."""

    def __init__(  # noqa: PLR0913 - what it is wired to
        self,
        engine: Engine,
        queue: SchedulingQueue,
        binding: BindingCycle,
        decisions: Decisions,
        clock: Clock,
        reports: ObserverSlot,
        attempt: Callable[[QueuedPodInfo], Awaitable[Attempt | None]],
        outcome: Callable[[Attempt], Attempt | None],
        *,
        wake: Callable[[], None],
    ) -> None:
        """Wire it; `attempt` attempts a single pod, `outcome` handles an ended attempt.

        `attempt` returns None for a pod that needs no scheduling, `outcome` for a failed attempt.
        `wake` is called when timed work is due earlier.
        """
        self._engine = engine
        self._queue = queue
        self._binding = binding
        self._decisions = decisions
        self._clock = clock
        self._reports = reports
        self._attempt = attempt
        self._outcome = outcome
        #: Evictions for groups that are under way.
        self.evictions = GroupEvictions(
            engine.cache, clock, lambda uid: queue.state(uid) is not None
        )
        #: Nodes that are reserved for groups.
        self.reservations = GroupReservations(engine, queue, clock, wake)
        #: Groups that wait for their capacity bound to rise.
        self.waiting = WaitingGroups(queue, clock, wake, self.reservations.note_event)
        #: `service.groups.Groups.timed`.
        self.timed = self.waiting, self.reservations
        #: The members of the last cycle.
        self._tried: Sequence[QueuedPodInfo] = ()
        queue.recognize_groups(self._group_name, self._ahead_of)

    def group_of(self, info: QueuedPodInfo) -> GroupToSchedule | None:
        """Return the group with which a popped pod must be tried; None for a single pod."""
        grouping: GroupingPlugin | None = self._engine.grouping.get(info.pod.spec.scheduler_name)
        return None if grouping is None else grouping.group_to_schedule(info.pod)

    async def decide(
        self, info: QueuedPodInfo, group: GroupToSchedule, pause: Pause | None = None
    ) -> GroupResult:
        """Run the cycle of the group of a popped pod; `pause` may suspend it."""
        waiting = (self._queue.waiting(uid) for uid in group.members if uid != info.uid)
        infos = [info, *(each for each in waiting if each is not None and _wanted(each))]
        self.waiting.tried(each.uid for each in infos)
        self.reservations.begins(info, group)
        may_preempt = not self.evictions.under_way(_preemptor(info, group))
        self._tried = infos
        if self._reports.observer is not None:
            self._reports.observer.group_begins(info, group, infos, may_preempt=may_preempt)
        cycle = GroupCycle(
            self._engine,
            group,
            infos,
            monotonic=self._clock.monotonic,
            take=self._take,
            on_placed=self._decisions.record,
            pause=pause,
            may_preempt=may_preempt,
        )
        return await cycle.run()

    async def settle(
        self,
        info: QueuedPodInfo,
        group: GroupToSchedule,
        result: GroupResult,
        pause: Pause | None = None,
    ) -> list[Attempt]:
        """Handle the result; return the attempts whose binding cycles are next.

        `pause` is awaited after each member of a failed group, and may suspend this; the caller
        defers all changes of state meanwhile.
        """
        if self._reports.observer is not None:
            self._reports.observer.group_ended(result, self._tried)
        grouping = self._grouping(info)
        if grouping is not None:
            grouping.group_decided(info.pod, group, result.outcome)
        if group.share < 1:
            self._queue.defer_groups(result.outcome.seconds * (1 / group.share - 1))
        if not result.outcome.scheduled:
            nominated = self.evictions.under_way(_preemptor(info, group))
            await self._failed(result, pause, nominated=nominated)
            if result.plan is not None:
                self.evictions.start(_preemptor(info, group), group.name, result.plan)
            if result.bound is not None:
                self.waiting.wait(info, group.plugin, result.bound)
            if result.outcome.refused_by:
                # The group does not wait for nodes, so it would not use a reservation.
                self.reservations.forget(info, group)
                return []
            evicting = self.evictions.under_way(_preemptor(info, group))
            self.reservations.failed(info, group, evicting=evicting)
            return []
        self.evictions.forget(_preemptor(info, group))
        self.reservations.forget(info, group)
        placed = [attempt for attempt in result.placed if self._outcome(attempt) is not None]
        if group.alone:
            for attempt in placed:
                self.follow(attempt)
            return placed
        self._binding.bind_together(group.name, placed, self._not_bound)
        # Members beyond the minimum are now scheduled as single pods, which may preempt. They are
        # bound after the minimum; if one of them fails, the minimum is bound nevertheless.
        rest = [attempt.info for attempt in result.failed]
        for member in result.untried:
            self._take(member)
            rest.append(member)
        refused: dict[Hashable, Failure] = {}
        for each in rest:
            placed += await self._schedule_alone(each, group, refused)
        return placed

    async def _schedule_alone(
        self, info: QueuedPodInfo, gang: GroupToSchedule, refused: dict[Hashable, Failure]
    ) -> list[Attempt]:
        """Try a member beyond the minimum; return its attempt if its binding cycle is next.

        A member that equals one in `refused` is not tried but fails as well, since members placed
        meanwhile have only taken room. Members for which pods are evicted are not in `refused`.
        """
        kind = identity(info.pod)
        why = None if kind is None else refused.get(kind)
        if why is not None:
            self._refuse(info, why)
            return []
        if self._engine.suspends(info.pod):
            # It is requeued for an attempt of its own, since an extender may be slow, and all
            # changes are deferred until the group has ended.
            later = of_group(LATER.format(group=gang.name), gang.plugin)
            self._outcome(self._engine.untried(info, later))
            self._queue.wake((info.uid,), gang.plugin, GROUP_PLACED)
            return []
        group = self.group_of(info)
        if group is not None:
            # It must be in the domain of the others, so it is scheduled as a group of one.
            return await self._schedule_near_others(info, group, refused)
        attempt = await self._attempt(info)
        if attempt is None:
            return []
        if self._outcome(attempt) is not None:
            self.follow(attempt)
            return [attempt]
        failed = attempt.failure
        if kind is not None and failed is not None and failed.rejected and not failed.victims:
            refused[kind] = failed
        return []

    async def _schedule_near_others(
        self, info: QueuedPodInfo, group: GroupToSchedule, refused: dict[Hashable, Failure]
    ) -> list[Attempt]:
        result = await self.decide(info, group)
        placed = await self.settle(info, group, result)
        kind = identity(info.pod)
        if kind is not None and result.failed and result.plan is None:
            why = result.failed[0].failure
            if why is not None and why.rejected:
                refused[kind] = why
        return placed

    def _refuse(self, info: QueuedPodInfo, why: Failure) -> None:
        """Record the failure of a member that is not tried."""
        attempt = self._engine.untried(info, why)
        self._decisions.record(attempt)
        self._outcome(attempt)

    def follow(self, attempt: Attempt) -> None:
        """Let a member beyond the minimum wait until the minimum has been bound."""
        grouping = self._grouping(attempt.info)
        name = None if grouping is None else grouping.group_name(attempt.info.pod)
        if name is not None:
            self._binding.follow(name, attempt)

    def pods_evicted(self, info: QueuedPodInfo, victims: Sequence[Pod]) -> None:
        """Pass on which pods are evicted for a single pod."""
        report = getattr(self._grouping(info), "pods_evicted", None)
        if report is not None:
            report(info.pod, victims)

    def _not_bound(self, attempt: Attempt, failure: Failure, undone: bool) -> None:
        """Pass on why a member was not bound after the decision about its group."""
        report = getattr(self._grouping(attempt.info), "group_not_bound", None)
        if report is not None:
            report(attempt.info.pod, failure.message, undone=undone)

    def _group_name(self, pod: Pod) -> str | None:
        grouping = self._grouping_of(pod)
        return None if grouping is None else grouping.group_name(pod)

    def _ahead_of(self, info: QueuedPodInfo) -> str | None:
        """Return an active member of a group that must be tried before the group of this pod."""
        # Looked up here, since this runs for every pod that is popped.
        name = info.pod.spec.scheduler_name
        tried_before = getattr(self._engine.grouping.get(name), "tried_before", None)
        if tried_before is None:
            return None
        for uid in tried_before(info.pod):
            first = self._queue.queued(uid)
            if (
                first is not None
                and first.pod.priority >= info.pod.priority
                and self._queue.state(uid) is QueueState.ACTIVE
            ):
                return first.uid
        return None

    async def _failed(
        self,
        result: GroupResult,
        pause: Callable[[], Awaitable[bool]] | None,
        *,
        nominated: bool,
    ) -> None:
        """Handle the failures; members keep nominations of an earlier plan while `nominated`."""
        decisions, why = self._decisions, result.untried_failure
        nodes: Mapping[str, str] = {} if result.plan is None else result.plan.nodes

        told: set[str] = set()

        def reserved(own: Failure, info: QueuedPodInfo) -> Failure:
            if own.message in told:
                own = replace(own, silent=True)
            told.add(own.message)
            if info.uid in nodes:
                return waiting_for_victims(own, nodes[info.uid])
            return own if nominated else without_nomination(own)

        for attempt in result.failed:
            assert attempt.failure is not None
            attempt.failure = reserved(attempt.failure, attempt.info)
            if attempt.chosen is None:
                decisions.record(attempt)
            else:
                decisions.failed(attempt, attempt.failure)
            self._outcome(attempt)
            if pause is not None:
                await pause()
        for info in result.untried:
            waits = self._queue.state(info.uid) is QueueState.UNSCHEDULABLE
            if why is None or (waits and info.uid not in nodes):
                # It is already queued, because of another member of its group.
                continue
            self._take(info)
            self._refuse(info, reserved(why, info))
            if pause is not None:
                await pause()

    def _take(self, info: QueuedPodInfo) -> None:
        """Mark a member as in flight, unless it is the popped one, which already is."""
        if self._queue.state(info.uid) is not None:
            self._queue.pop_member(info)

    def _grouping(self, info: QueuedPodInfo) -> GroupingPlugin | None:
        return self._grouping_of(info.pod)

    def _grouping_of(self, pod: Pod) -> GroupingPlugin | None:
        return self._engine.grouping.get(pod.spec.scheduler_name)


def _preemptor(info: QueuedPodInfo, group: GroupToSchedule) -> str:
    """Return the preemptor: the group, or the single pod for members beyond the minimum."""
    return info.uid if group.alone else group.name


def _wanted(info: QueuedPodInfo) -> bool:
    return not info.pod.terminating
