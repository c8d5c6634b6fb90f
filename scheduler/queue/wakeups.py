"""Moves unschedulable pods when events may have helped them, one time slice at a time.

`start` is the whole path of an event: `UnschedulablePods.candidates` finds groups,
`HintIndex.evaluate` decides for their pods, `PodMover.requeue` moves them.

An event may concern thousands of groups with expensive hints, or one group of a hundred thousand
pods. To keep the loop responsive, work beyond a time slice is postponed: the queue reports that it
is due at once, and `resume` does the next slice.

Postponing is safe because an event can only make pods schedulable. Invariant: every unschedulable
pod that an event may concern has been evaluated, or its group is stored here with the event. Code
that moves a pod from one group to another must check `is_postponed` first.

Bounded: a group is kept with at most `MAX_EVENTS` events; beyond, its pods are moved without
evaluating their hints.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from scheduler.framework.events import PROFILES_REPLACED, UNSCHEDULABLE_TIMEOUT
from scheduler.framework.queued import QueuedPodInfo
from scheduler.queue.accounts import NamespaceAccounts
from scheduler.queue.in_flight import InFlightEvent
from scheduler.queue.pod_mover import PodMover
from scheduler.queue.queueing_hints import (
    AFTER_BACKOFF,
    SKIP,
    EventSubscription,
    HintIndex,
    QueueingDecision,
)
from scheduler.queue.sub_queues import UNSCHEDULABLE_STATES
from scheduler.queue.unschedulable_pods import SignatureGroup

MAX_EVENTS: Final = 8
"""Events kept for a postponed group."""
UNKNOWN_EVENTS: Final = "ManyEvents"
"""Label of a pod that was moved because more than `MAX_EVENTS` events concern it."""
CHARGE_THRESHOLD: Final = 0.001
"""Seconds. Hints of a group that take longer are charged to its namespace."""
PRUNE_FROM: Final = 1024
"""Number of postponed groups from which on groups without pods are pruned."""
CHECK_EVERY = 16
"""Number of groups, or pods to move, between two reads of the clock."""
DUE_NOW: Final = 0.0
"""A wall clock time in the past, even if the clock was just set back a little."""

_Move = tuple[QueuedPodInfo, QueueingDecision, str]
RECHECK: Final = "Recheck"
"""Label of the moves of `Wakeups.recheck`."""

_Lane = dict[SignatureGroup, list[InFlightEvent]]


class TimeSlice:
    """A limit on the duration of one stretch of work."""

    __slots__ = ("_count", "_end", "_monotonic")

    def __init__(self, monotonic: Callable[[], float], seconds: float) -> None:
        """Begin a slice of `seconds`; with infinite `seconds` it never ends."""
        self._monotonic = monotonic
        self._end = monotonic() + seconds
        self._count = 0

    def over(self) -> bool:
        """Whether to stop; for calls after each short step, since it rarely reads the clock."""
        self._count += 1
        return not self._count % CHECK_EVERY and self.late()

    def late(self) -> bool:
        """Whether to stop; for calls after steps that may be long."""
        return self._monotonic() >= self._end


@dataclass(slots=True, eq=False)
class Wakeups:
    """Evaluates events for unschedulable pods, and keeps postponed work."""

    mover: PodMover
    hints: HintIndex
    accounts: NamespaceAccounts
    monotonic: Callable[[], float]
    #: Infinite: nothing is postponed.
    slice_seconds: float
    #: Postponed groups and their events, those of deferred namespaces in the second lane, which
    #: comes last. An empty list of events: move all pods. Keyed by the group itself, because
    #: another group may get the same `SignatureGroup.key` later.
    _lanes: tuple[_Lane, _Lane] = field(default_factory=lambda: ({}, {}), init=False)
    _prune_at: int = field(default=PRUNE_FROM, init=False)
    #: Pods that hints decided to move.
    _moves: deque[_Move] = field(default_factory=deque, init=False)
    #: Groups in which the periodic flush has not looked yet, and the arguments of `flush`.
    _to_flush: deque[SignatureGroup] = field(default_factory=deque, init=False)
    _flush_times: tuple[float, float] = (0.0, 0.0)
    #: UIDs of pods for which PreEnqueue must run again, and their groups' names; "": no group.
    #: Not a dict: see `InFlight`.
    _rechecks: OrderedDict[str, str] = field(default_factory=OrderedDict, init=False)
    #: Groups of these pods -> number of these pods; the active queue holds them.
    _rechecked_groups: dict[str, int] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        """Let the active queue hold the groups that are being rechecked."""
        self.mover.sub_queues.active.held_groups = self._rechecked_groups.keys()

    @property
    def backlog(self) -> int:
        """Number of postponed groups, moves and checks."""
        pending, deferred = self._lanes
        postponed = len(pending) + len(deferred) + len(self._moves) + len(self._to_flush)
        return postponed + len(self._rechecks)

    def time_slice(self) -> TimeSlice:
        """Begin a time slice."""
        return TimeSlice(self.monotonic, self.slice_seconds)

    def is_postponed(self, uid: str) -> bool:
        """Whether the group of an unschedulable pod is postponed."""
        pending, deferred = self._lanes
        if not pending and not deferred:
            return False
        group = self.mover.sub_queues.unschedulable.group_of(uid)
        return group in pending or group in deferred

    def start(self, event: InFlightEvent, subscription: EventSubscription) -> int:
        """Move the unschedulable pods that the event may help; return how many moved at once."""
        candidates = self.mover.sub_queues.unschedulable.candidates(event, subscription)
        if not candidates:
            return 0
        if self.backlog and self.slice_seconds != math.inf:
            self._postpone(each for each in candidates if each[1].only is None)
            # An event for one pod is little work, and must not count towards `MAX_EVENTS`.
            candidates = [each for each in candidates if each[1].only is not None]
        time_slice = self.time_slice()
        moves: deque[_Move] = deque()
        for done, (group, concerned) in enumerate(candidates, start=1):
            self._evaluate(group, concerned, moves)
            if time_slice.over():
                self._postpone(candidates[done:])
                break
        moved = self._apply(moves, time_slice)
        if self.backlog:
            self.mover.signals.due(DUE_NOW)
        return moved

    def flush(self, now: float, latest: float) -> None:
        """Move the pods that were last tried, or flushed, before `latest`; in slices."""
        if not self._to_flush:
            self._to_flush.extend(self.mover.sub_queues.unschedulable.flushed_groups())
        self._flush_times = now, latest
        self._flush(self.time_slice())
        if self.backlog:
            self.mover.signals.due(DUE_NOW)

    def recheck(self, uids: Iterable[str]) -> None:
        """Run PreEnqueue again for queued pods, which may ungate or gate them; in slices."""
        queues, groups = self.mover.sub_queues, self._rechecked_groups
        for uid in uids:
            info = queues.get(uid)
            if info is None or uid in self._rechecks:
                continue
            group = queues.active.group_name(info.pod) or ""
            self._rechecks[uid] = group
            if group:
                groups[group] = groups.get(group, 0) + 1
        self._recheck(self.time_slice())
        if self.backlog:
            self.mover.signals.due(DUE_NOW)

    def _recheck(self, time_slice: TimeSlice) -> None:
        while self._rechecks:
            uid = next(iter(self._rechecks))
            info = self.mover.sub_queues.get(uid)
            self.forget(uid)
            if info is None:
                continue
            if info.gated:
                self.mover.requeue(info, AFTER_BACKOFF, RECHECK)
            elif self.mover.run_pre_enqueue(info):
                self.mover.move_to_unschedulable(info, RECHECK)
            if time_slice.over():
                return

    def forget(self, uid: str) -> None:
        """Do not recheck this pod."""
        group = self._rechecks.pop(uid, "")
        if not group:
            return
        left = self._rechecked_groups[group] - 1
        if left:
            self._rechecked_groups[group] = left
        else:
            del self._rechecked_groups[group]
            self.mover.signals.ready()

    def move_all(self, groups: Iterable[SignatureGroup], event: InFlightEvent) -> None:
        """Move all members of `groups`, even gated ones, without evaluating hints; in slices."""
        for group in groups:
            for lane in self._lanes:
                lane.pop(group, None)
            self._lanes[0][group] = [event]
        if self.slice_seconds == math.inf:
            self.resume()
        if self.backlog:
            self.mover.signals.due(DUE_NOW)

    def resume(self) -> None:
        """Do a time slice of checks, and one of the rest of the backlog."""
        if not self.backlog:
            return
        # Neither waits for the end of the other: tenants can cause either again and again.
        self._recheck(self.time_slice())
        time_slice = self.time_slice()
        moves, self._moves = self._moves, deque()
        self._apply(moves, time_slice)
        # At least one group each time, so that even a slice that starts late makes progress.
        while not self._moves and (lane := self._lanes[0] or self._lanes[1]):
            group = next(iter(lane))
            events = lane.pop(group)
            started = self.monotonic()
            moves = deque()
            for event in events:
                self._evaluate(group, event, moves)
            if not events:
                moves.extend((i, AFTER_BACKOFF, UNKNOWN_EVENTS) for i in group.members.values())
            spent = self.monotonic() - started
            if spent > CHARGE_THRESHOLD:
                self.accounts.charge(group.sample.pod.metadata.namespace, spent, free=0.0)
            self._apply(moves, time_slice)
            if time_slice.late():
                return
        self._flush(time_slice)

    def _flush(self, time_slice: TimeSlice) -> None:
        now, latest = self._flush_times
        label = UNSCHEDULABLE_TIMEOUT.label
        while self._to_flush and not self._moves:
            moves: deque[_Move] = deque()
            for info in self._to_flush.popleft().members.values():
                if info.timestamp < latest and info.flushed_at < latest:
                    info.flushed_at = now
                    moves.append((info, AFTER_BACKOFF, label))
            self._apply(moves, time_slice)
            if time_slice.over():
                break

    def _postpone(self, candidates: Iterable[tuple[SignatureGroup, InFlightEvent]]) -> None:
        over_limit = self.accounts.over_limit()
        pending, deferred = self._lanes
        for group, event in candidates:
            events = pending.get(group)
            if events is None:
                events = deferred.get(group)
            if events is None:
                lane = deferred if group.sample.pod.metadata.namespace in over_limit else pending
                lane[group] = [event]
            elif len(events) >= MAX_EVENTS:
                events.clear()
            elif events:
                events.append(event)
        if len(pending) + len(deferred) > self._prune_at:
            # A standby replica never resumes, and its gated pods come and go: without pruning,
            # groups without pods would accumulate.
            for lane in self._lanes:
                for group in [each for each in lane if not each.members]:
                    del lane[group]
            self._prune_at = PRUNE_FROM + 2 * (len(pending) + len(deferred))

    def _evaluate(self, group: SignatureGroup, event: InFlightEvent, moves: deque[_Move]) -> None:
        """Evaluate the hints for a group, and append the pods to be moved to `moves`."""
        if event.cluster_event is PROFILES_REPLACED:
            moves.extend((info, AFTER_BACKOFF, event.label) for info in group.members.values())
            return
        shared = (
            group.identity is not None
            and event.subject not in group.members
            and self.hints.shared_by_signature(event, group.sample)
        )
        decision = SKIP
        if shared:
            decision = self.hints.evaluate(event, group.sample, group.identity)
            if decision is SKIP:
                return
        # A copy of the members, because a hint may call the queue.
        if event.only is not None:
            members = [each for uid in event.only if (each := group.members.get(uid)) is not None]
        elif group.gated:
            members = self.mover.pre_enqueue.may_ungate(group, event.old or event.new)
        else:
            members = list(group.members.values())
        for info in members:
            if not event.concerns(info):
                continue
            if not shared:
                decision = self.hints.evaluate(event, info, group.identity)
            if decision is not SKIP:
                moves.append((info, decision, event.label))

    def _apply(self, moves: deque[_Move], time_slice: TimeSlice) -> int:
        moved, unschedulable = 0, self.mover.sub_queues.unschedulable
        while moves:
            info, decision, label = moves.popleft()
            # A PreEnqueue plugin or a listener may have called the queue and moved the pod already.
            if unschedulable.get(info.uid) is info:
                moved += self._move(info, decision, label)
            if moves and time_slice.over():
                moves.extend(self._moves)
                self._moves = moves
                break
        return moved

    def _move(self, info: QueuedPodInfo, decision: QueueingDecision, label: str) -> bool:
        flushed = label == UNSCHEDULABLE_TIMEOUT.label
        if flushed:
            info.was_flushed_from_unschedulable = True
        moved = self.mover.requeue(info, decision, label) not in UNSCHEDULABLE_STATES
        if flushed and not moved:
            info.was_flushed_from_unschedulable = False
        return moved
