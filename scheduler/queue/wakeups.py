"""Which waiting pods an event wakes, found out and carried out a piece at a time.

An event may concern thousands of groups of waiting pods, whose hints may be expensive, or one group
of a hundred thousand pods. All of that in one piece would hold up everything else, so what takes
longer than a piece is left for later: the queue says that it is due at once, and goes on with it
whenever due work is done.

Putting it off is safe, because an event can only wake pods. Invariant: a pod of the pool that an
event may concern has been looked at, or its group is kept here with the event. Whoever moves a pod
from one group to another has to ask `concerns` first.

Bounded: a group is kept with at most `MAX_EVENTS` events; beyond, its pods are woken without asking
their hints.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from scheduler.framework.queued import QueuedPodInfo
from scheduler.queue.accounts import NamespaceAccounts
from scheduler.queue.in_flight import InFlightEvent
from scheduler.queue.pod_mover import PodMover
from scheduler.queue.pre_enqueue import PreEnqueueRunner
from scheduler.queue.queueing_hints import AFTER_BACKOFF, SKIP, HintIndex, QueueingDecision
from scheduler.queue.statistics import QueueState
from scheduler.queue.sub_queues import SubQueues
from scheduler.queue.unschedulable_pods import Group

MAX_EVENTS: Final = 8
"""Events kept for a group that is not looked at yet."""
UNKNOWN_EVENTS: Final = "ManyEvents"
"""Label of a pod that was woken because more happened than could be looked at."""
UNSCHEDULABLE_TIMEOUT: Final = "UnschedulableTimeout"
CHARGE_THRESHOLD: Final = 0.001
"""Seconds: hints of a group that take longer are charged to its namespace."""
PRUNE_FROM: Final = 1024
"""Groups kept before those that lost all their pods are looked for."""
CHECK_EVERY = 16
"""Groups, or pods that move, between two looks at the clock."""

UNSCHEDULABLE_STATES: Final = (QueueState.UNSCHEDULABLE, QueueState.GATED)
_Move = tuple[QueuedPodInfo, QueueingDecision, str]


class TimeSlice:
    """A stretch of work that ends after a while."""

    __slots__ = ("_count", "_end", "_monotonic")

    def __init__(self, monotonic: Callable[[], float], seconds: float) -> None:
        """It begins now; infinite `seconds`: it never ends."""
        self._monotonic = monotonic
        self._end = monotonic() + seconds
        self._count = 0

    def over(self) -> bool:
        """Whether it is time to stop; to be asked after each step."""
        self._count += 1
        return not self._count % CHECK_EVERY and self.late()

    def late(self) -> bool:
        """As `over`, for steps that may be long."""
        return self._monotonic() >= self._end


class Wakeups:
    """Moves pods of the pool when events say so, and keeps what is left for later."""

    __slots__ = (
        "_accounts",
        "_deferred_groups",
        "_hints",
        "_monotonic",
        "_mover",
        "_moves",
        "_pending_groups",
        "_pre_enqueue",
        "_prune_at",
        "_slice_seconds",
        "_sub_queues",
    )  # fmt: skip

    def __init__(
        self,
        *,
        sub_queues: SubQueues,
        hints: HintIndex,
        pre_enqueue: PreEnqueueRunner,
        mover: PodMover,
        accounts: NamespaceAccounts,
        monotonic: Callable[[], float],
        seconds: float,
    ) -> None:
        """`seconds` is the length of a piece; infinite: everything is done at once."""
        self._sub_queues = sub_queues
        self._hints = hints
        self._pre_enqueue = pre_enqueue
        self._mover = mover
        self._accounts = accounts
        self._monotonic = monotonic
        self._slice_seconds = seconds
        #: Groups that are still to be looked at, and because of what; no event: wake them all.
        #: By identity, because another group may have the same key later.
        self._pending_groups: dict[Group, list[InFlightEvent]] = {}
        #: The same for groups of deferred namespaces, which come last.
        self._deferred_groups: dict[Group, list[InFlightEvent]] = {}
        self._prune_at = PRUNE_FROM
        #: Pods that are still to be moved.
        self._moves: deque[_Move] = deque()

    @property
    def backlog(self) -> int:
        """Groups and pods that are still to be looked at or moved."""
        return len(self._pending_groups) + len(self._deferred_groups) + len(self._moves)

    def time_slice(self) -> TimeSlice:
        """A new piece of work, for others who do theirs by pieces."""
        return TimeSlice(self._monotonic, self._slice_seconds)

    def concerns(self, uid: str) -> bool:
        """Whether the group of a waiting pod is still to be looked at."""
        if not self._pending_groups and not self._deferred_groups:
            return False
        group = self._sub_queues.unschedulable.group_of(uid)
        return group in self._pending_groups or group in self._deferred_groups

    def start(self, groups: Sequence[Group], event: InFlightEvent) -> int:
        """Wake the pods of these groups that the event may help; returns how many moved at once."""
        if self.backlog and self._slice_seconds != math.inf:
            self._postpone(groups, event)
            return 0
        time_slice = self.time_slice()
        moving: deque[_Move] = deque()
        for done, group in enumerate(groups, start=1):
            self._evaluate(group, event, moving)
            if time_slice.over():
                self._postpone(groups[done:], event)
                break
        return self._apply(moving, time_slice)

    def move(self, infos: Iterable[QueuedPodInfo], decision: QueueingDecision, label: str) -> None:
        """Move pods of the pool, if they are there still."""
        self._apply(deque((info, decision, label) for info in infos), self.time_slice())

    def resume(self) -> None:
        """Do one piece of what is left."""
        if not self.backlog:
            return
        time_slice = self.time_slice()
        moves, self._moves = self._moves, deque()
        self._apply(moves, time_slice)
        # One group at least, lest pieces that are late from the start never end.
        while not self._moves and (lane := self._pending_groups or self._deferred_groups):
            group = next(iter(lane))
            events = lane.pop(group)
            started = self._monotonic()
            moving: deque[_Move] = deque()
            for event in events:
                self._evaluate(group, event, moving)
            if not events:
                moving.extend((i, AFTER_BACKOFF, UNKNOWN_EVENTS) for i in group.members.values())
            spent = self._monotonic() - started
            if spent > CHARGE_THRESHOLD:
                self._accounts.charge(group.sample.pod.metadata.namespace, spent, free=0.0)
            self._apply(moving, time_slice)
            if time_slice.late():
                break

    def _postpone(self, groups: Iterable[Group], event: InFlightEvent) -> None:
        over = self._accounts.over()
        for group in groups:
            events = self._pending_groups.get(group)
            if events is None:
                events = self._deferred_groups.get(group)
            if events is None:
                lane = (
                    self._deferred_groups
                    if group.sample.pod.metadata.namespace in over
                    else self._pending_groups
                )
                lane[group] = [event]
            elif len(events) >= MAX_EVENTS:
                events.clear()
            elif events:
                events.append(event)
        if len(self._pending_groups) + len(self._deferred_groups) > self._prune_at:
            self._prune()

    def _prune(self) -> None:
        # A replica that stands by does no due work, and its gated pods come and go.
        self._pending_groups = {
            group: events for group, events in self._pending_groups.items() if group.members
        }
        self._deferred_groups = {
            group: events for group, events in self._deferred_groups.items() if group.members
        }
        self._prune_at = PRUNE_FROM + 2 * (len(self._pending_groups) + len(self._deferred_groups))

    def _evaluate(self, group: Group, event: InFlightEvent, moving: deque[_Move]) -> None:
        """Ask the hints of a group; whoever is to be moved is added to `moving`."""
        shared = (
            group.identity is not None
            and event.subject not in group.members
            and self._hints.shared_by_signature(event, group.sample)
        )
        decision = SKIP
        if shared:
            decision = self._hints.evaluate(event, group.sample, group.identity)
            if decision is SKIP:
                return
        # Lists of their own, because a hint may call the queue.
        if group.gated:
            members = self._pre_enqueue.may_ungate(group, event.old or event.new)
        else:
            members = list(group.members.values())
        for info in members:
            if not event.concerns(info):
                continue
            if not shared:
                decision = self._hints.evaluate(event, info, group.identity)
            if decision is not SKIP:
                moving.append((info, decision, event.label))

    def _apply(self, moving: deque[_Move], time_slice: TimeSlice) -> int:
        moved = 0
        while moving:
            info, decision, label = moving.popleft()
            # A PreEnqueue plugin or a listener may have called the queue and moved the pod already.
            if self._sub_queues.unschedulable.get(info.uid) is info:
                moved += self._move(info, decision, label)
            if moving and time_slice.over():
                moving.extend(self._moves)
                self._moves = moving
                break
        return moved

    def _move(self, info: QueuedPodInfo, decision: QueueingDecision, label: str) -> bool:
        flushed = label == UNSCHEDULABLE_TIMEOUT
        if flushed:
            info.was_flushed_from_unschedulable = True
        moved = self._mover.requeue(info, decision, label) not in UNSCHEDULABLE_STATES
        if flushed and not moved:
            info.was_flushed_from_unschedulable = False
        return moved
