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
from scheduler.queue.admission import Admission
from scheduler.queue.in_flight import InFlightEvent
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
NOTICEABLE: Final = 0.001
"""Seconds: hints of a group that take longer are charged to its namespace."""
PRUNE_FROM: Final = 1024
"""Groups kept before those that lost all their pods are looked for."""
CHECK_EVERY = 16
"""Groups, or pods that move, between two looks at the clock."""

_POOL: Final = (QueueState.UNSCHEDULABLE, QueueState.GATED)
_Move = tuple[QueuedPodInfo, QueueingDecision, str]


class Piece:
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
        "_accounts", "_admission", "_behind", "_gates", "_groups", "_hints", "_monotonic",
        "_moves", "_places", "_prune_at", "_seconds",
    )  # fmt: skip

    def __init__(
        self,
        *,
        places: SubQueues,
        hints: HintIndex,
        gates: PreEnqueueRunner,
        admission: Admission,
        accounts: NamespaceAccounts,
        monotonic: Callable[[], float],
        seconds: float,
    ) -> None:
        """`seconds` is the length of a piece; infinite: everything is done at once."""
        self._places = places
        self._hints = hints
        self._gates = gates
        self._admission = admission
        self._accounts = accounts
        self._monotonic = monotonic
        self._seconds = seconds
        #: Groups that are still to be looked at, and because of what; no event: wake them all.
        #: By identity, because another group may have the same key later.
        self._groups: dict[Group, list[InFlightEvent]] = {}
        #: The same for groups of deferred namespaces, which come last.
        self._behind: dict[Group, list[InFlightEvent]] = {}
        self._prune_at = PRUNE_FROM
        #: Pods that are still to be moved.
        self._moves: deque[_Move] = deque()

    @property
    def left(self) -> int:
        """Groups and pods that are still to be looked at or moved."""
        return len(self._groups) + len(self._behind) + len(self._moves)

    def piece(self) -> Piece:
        """A new piece of work, for others who do theirs by pieces."""
        return Piece(self._monotonic, self._seconds)

    def concerns(self, uid: str) -> bool:
        """Whether the group of a waiting pod is still to be looked at."""
        if not self._groups and not self._behind:
            return False
        group = self._places.pool.group_of(uid)
        return group in self._groups or group in self._behind

    def begin(self, groups: Sequence[Group], occurrence: InFlightEvent) -> int:
        """Wake the pods of these groups that the event may help; returns how many moved at once."""
        if self.left and self._seconds != math.inf:
            self._put_off(groups, occurrence)
            return 0
        piece = self.piece()
        moving: deque[_Move] = deque()
        for done, group in enumerate(groups, start=1):
            self._decide(group, occurrence, moving)
            if piece.over():
                self._put_off(groups[done:], occurrence)
                break
        return self._carry_out(moving, piece)

    def move(self, infos: Iterable[QueuedPodInfo], verdict: QueueingDecision, label: str) -> None:
        """Move pods of the pool, if they are there still."""
        self._carry_out(deque((info, verdict, label) for info in infos), self.piece())

    def go_on(self) -> None:
        """Do one piece of what is left."""
        if not self.left:
            return
        piece = self.piece()
        moves, self._moves = self._moves, deque()
        self._carry_out(moves, piece)
        # One group at least, lest pieces that are late from the start never end.
        while not self._moves and (lane := self._groups or self._behind):
            group = next(iter(lane))
            events = lane.pop(group)
            started = self._monotonic()
            moving: deque[_Move] = deque()
            for occurrence in events:
                self._decide(group, occurrence, moving)
            if not events:
                moving.extend((i, AFTER_BACKOFF, UNKNOWN_EVENTS) for i in group.members.values())
            spent = self._monotonic() - started
            if spent > NOTICEABLE:
                self._accounts.charge(group.sample.pod.metadata.namespace, spent, free=0.0)
            self._carry_out(moving, piece)
            if piece.late():
                break

    def _put_off(self, groups: Iterable[Group], occurrence: InFlightEvent) -> None:
        over = self._accounts.over()
        for group in groups:
            events = self._groups.get(group)
            if events is None:
                events = self._behind.get(group)
            if events is None:
                lane = self._behind if group.sample.pod.metadata.namespace in over else self._groups
                lane[group] = [occurrence]
            elif len(events) >= MAX_EVENTS:
                events.clear()
            elif events:
                events.append(occurrence)
        if len(self._groups) + len(self._behind) > self._prune_at:
            self._prune()

    def _prune(self) -> None:
        # A replica that stands by does no due work, and its gated pods come and go.
        self._groups = {group: events for group, events in self._groups.items() if group.members}
        self._behind = {group: events for group, events in self._behind.items() if group.members}
        self._prune_at = PRUNE_FROM + 2 * (len(self._groups) + len(self._behind))

    def _decide(self, group: Group, occurrence: InFlightEvent, moving: deque[_Move]) -> None:
        """Ask the hints of a group; whoever is to be moved is added to `moving`."""
        shared = (
            group.identity is not None
            and occurrence.subject not in group.members
            and self._hints.shared_by_signature(occurrence, group.sample)
        )
        verdict = SKIP
        if shared:
            verdict = self._hints.evaluate(occurrence, group.sample, group.identity)
            if verdict is SKIP:
                return
        # Lists of their own, because a hint may call the queue.
        if group.gated:
            members = self._gates.askable(group, occurrence.old or occurrence.new)
        else:
            members = list(group.members.values())
        for info in members:
            if not occurrence.concerns(info):
                continue
            if not shared:
                verdict = self._hints.evaluate(occurrence, info, group.identity)
            if verdict is not SKIP:
                moving.append((info, verdict, occurrence.label))

    def _carry_out(self, moving: deque[_Move], piece: Piece) -> int:
        moved = 0
        while moving:
            info, verdict, label = moving.popleft()
            # A PreEnqueue plugin or a listener may have called the queue and moved the pod already.
            if self._places.pool.get(info.uid) is info:
                moved += self._move(info, verdict, label)
            if moving and piece.over():
                moving.extend(self._moves)
                self._moves = moving
                break
        return moved

    def _move(self, info: QueuedPodInfo, verdict: QueueingDecision, label: str) -> bool:
        flushed = label == UNSCHEDULABLE_TIMEOUT
        if flushed:
            info.was_flushed_from_unschedulable = True
        moved = self._admission.requeue(info, verdict, label) not in _POOL
        if flushed and not moved:
            info.was_flushed_from_unschedulable = False
        return moved
