"""Choices: what the shadow has decided, until the scheduler in force has placed the pod as well.

A choice holds its node, as the assumption of a scheduler does, so that the next pods of a burst
find it taken: the scheduler in force assumes its own choice until it is bound. The hold ends when
reality shows something else:

- the pod is bound, to whichever node, or deleted;
- the scheduler in force rejects it: then its room is free there, so it is here;
- it has taken too long: `FRESH_SECONDS`, or `REJECTED_SECONDS` for a pod that the other scheduler
  had rejected before, which tries again within its backoff of 10 s or does not see what is seen
  here. A condition that stays the same is not written again, so that the second rejection of a pod
  cannot be seen.

The choice itself is kept, since the binding is compared with it; the pod is not decided again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.api.pod import Pod
from scheduler.engine import Attempt, Engine
from scheduler.framework import Clock, Subscriptions
from scheduler.framework.events import ASSIGNED_POD_DELETE
from scheduler.queue import SchedulingQueue
from scheduler.service.binding_slots import BindingSlots

FRESH_SECONDS: Final = 60.0
REJECTED_SECONDS: Final = 15.0
MAX_AHEAD: Final = 8
"""Choices of pods that the other scheduler has not rejected, at which the loop pauses: the further
the shadow is ahead, the more it decides on guesses of its own, and each of them has to be taken out
of the node table for a judgement."""
AHEAD_SECONDS: Final = 2.0
"""How long a choice counts so. One that is held for longer waits for something else than its turn,
such as a volume."""
MAX_HELD: Final = 64
"""Choices that hold nodes. Of fresh pods no slot is given back above that, so that the loop pauses;
of pods rejected before, which may stay for ever, the oldest hold ends."""

_GATED: Final = "SchedulingGated"


@dataclass(slots=True, eq=False)
class Choice:
    """The choice of a node for one pod. The first choice counts."""

    uid: str
    node: str
    #: Wall clock time of the choice, and its number.
    time: float
    number: int
    #: Whether the other scheduler has rejected the pod, before or since.
    rejected: bool
    #: The attempt, while the pod is assumed or about to be; None afterwards.
    attempt: Attempt | None
    #: Rows with the same total; None where nothing was scored, and after the hold.
    ties: NDArray[np.int32] | None = None
    #: Monotonic time at which the hold ends; None before it began, and afterwards.
    deadline: float | None = None
    #: Monotonic time at which it gives back its slot of the loop; None: it has none.
    slot: float | None = None


class Choices:
    """All choices. Touched from the scheduling loop only; implements `framework.TimedWork`."""

    def __init__(
        self,
        engine: Engine,
        queue: SchedulingQueue,
        slots: BindingSlots,
        clock: Clock,
        subscriptions: Subscriptions,
    ) -> None:
        self._wake = subscriptions.on_time(self)
        self._engine = engine
        self._queue = queue
        self._slots = slots
        self._clock = clock
        self._number = 0
        self._by_uid: dict[str, Choice] = {}
        #: Those whose pods are assumed or about to be, in the order of choice.
        self._placed: dict[str, Choice] = {}
        #: Holds in the order of their deadlines: of fresh pods, and of those rejected before.
        self._fresh: dict[str, Choice] = {}
        self._rejected: dict[str, Choice] = {}
        #: Choices that have a slot, in the order of the times at which they give it back.
        self._ahead: dict[str, Choice] = {}

    def __len__(self) -> int:
        return len(self._by_uid)

    def get(self, uid: str) -> Choice | None:
        """Return the choice for a pod, if there is one."""
        return self._by_uid.get(uid)

    @property
    def held(self) -> int:
        """Number of choices that hold their node."""
        return len(self._fresh) + len(self._rejected)

    # -- from the choice to the hold -------------------------------------------------------------

    def attempted(self, attempt: Attempt) -> None:
        """Note a choice right after its cycle; the choice of a failed attempt is forgotten."""
        uid = attempt.info.uid
        self.forget(uid)
        if attempt.failure is not None or attempt.result is None:
            return
        self._number += 1
        self._by_uid[uid] = self._placed[uid] = Choice(
            uid,
            attempt.node_name,
            self._clock.now(),
            self._number,
            rejection_of(attempt.info.pod) is not None,
            attempt,
            _ties(attempt),
        )

    def hold(self, attempt: Attempt) -> bool:
        """Begin the hold, after Permit; False if reality was quicker, which releases the pod."""
        choice = self._by_uid.get(attempt.info.uid)
        if choice is None or choice.attempt is not attempt:
            self._engine.abandon(attempt)
            return False
        now = self._clock.monotonic()
        if choice.rejected:
            choice.deadline = now + REJECTED_SECONDS
            self._rejected[choice.uid] = choice
            if len(self._rejected) > MAX_HELD:
                self.release(next(iter(self._rejected.values())))
        else:
            choice.deadline, choice.slot = now + FRESH_SECONDS, now + AHEAD_SECONDS
            self._fresh[choice.uid] = self._ahead[choice.uid] = choice
            self._slots.take()
        self._wake()
        return True

    # -- the end of a hold -----------------------------------------------------------------------

    def take(self, uid: str) -> Choice | None:
        """Return the choice for a pod that is bound or gone, and forget it; its hold ends.

        The pod stays assumed where a binding is about to confirm it.
        """
        choice = self._by_uid.get(uid)
        self.forget(uid)
        if choice is not None and choice.deadline is not None:
            attempt = self._end(choice)
            self._engine.unreserve(attempt)
        return choice

    def reject(self, choice: Choice) -> None:
        """Note that the other scheduler has rejected the pod."""
        choice.rejected = True
        if choice.deadline is not None:
            self.release(choice)

    def release(self, choice: Choice) -> None:
        """End the hold, and offer the room to the pods that wait."""
        attempt = self._end(choice)
        choice.attempt = choice.ties = None
        if self._engine.abandon(attempt):
            self._queue.move_all_to_active_or_backoff(ASSIGNED_POD_DELETE, attempt.pod, None)

    def forget(self, uid: str) -> None:
        """Drop the choice of an attempt that failed after it."""
        self._by_uid.pop(uid, None)
        self._placed.pop(uid, None)

    def _end(self, choice: Choice) -> Attempt:
        assert choice.attempt is not None
        choice.deadline = None
        self._give_back(choice)
        self._placed.pop(choice.uid, None)
        self._fresh.pop(choice.uid, None)
        self._rejected.pop(choice.uid, None)
        return choice.attempt

    def _give_back(self, choice: Choice) -> None:
        """Give back the slot."""
        if self._ahead.pop(choice.uid, None) is not None:
            choice.slot = None
            self._slots.release()

    # -- TimedWork -------------------------------------------------------------------------------

    def next_due(self) -> float | None:
        """Return the monotonic time at which the next hold ends or slot is given back."""
        times = [each.deadline for each in _first(self._fresh, self._rejected)]
        if len(self._fresh) < MAX_HELD:
            times += [each.slot for each in _first(self._ahead)]
        return min((each for each in times if each is not None), default=None)

    def run_due(self) -> None:
        """End the holds, and give back the slots, whose time is over."""
        now = self._clock.monotonic()
        for held in (self._fresh, self._rejected):
            while held:
                choice = next(iter(held.values()))
                if choice.deadline is None or choice.deadline > now:
                    break
                self.release(choice)
        while self._ahead and len(self._fresh) < MAX_HELD:
            choice = next(iter(self._ahead.values()))
            if choice.slot is None or choice.slot > now:
                break
            self._give_back(choice)

    # -- states of the node table ----------------------------------------------------------------

    def assumed(self) -> list[Choice]:
        """Return the choices whose pods are assumed, in the order of choice."""
        is_assumed = self._engine.cache.is_assumed
        return [each for each in self._placed.values() if is_assumed(each.uid)]


def _first(*ordered: dict[str, Choice]) -> Iterator[Choice]:
    return (next(iter(each.values())) for each in ordered if each)


def rejection_of(pod: Pod) -> str | None:
    """Return the message with which the other scheduler rejected a pod; None if it did not.

    A pod with scheduling gates has a condition of the API server, which does not count.
    """
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled":
            if condition.status == "False" and condition.reason != _GATED:
                return condition.message
            break
    return None


def _ties(attempt: Attempt) -> NDArray[np.int32] | None:
    """Return the rows that have the highest total, right after the cycle."""
    algorithm = attempt.algorithm
    if algorithm is None or algorithm.scored is None:
        return None
    nodes, _, where, equal = algorithm.scored
    if equal is None:
        ties = None if nodes.entry is None else nodes.entry.ties
        return None if ties is None else np.array(ties.rows, dtype=np.int32)
    rows = np.asarray(equal)
    return (rows if where is None else where[rows]).astype(np.int32)
