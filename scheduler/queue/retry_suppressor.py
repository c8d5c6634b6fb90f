"""Which pods need not be tried before their backoff ends: one just like them was turned down.

The queue tries pods in backoff early when it has nothing else to do. Where a thousand equal pods
wait, each event would bring a thousand attempts with one and the same answer, each of which doubles
a pod's backoff. So once a pod was turned down, those like it (same profile, signature, labels,
namespace and pin) are not tried early until something happens that any plugin waits for. While
events keep coming, that is tried in rounds: a round finds places for as many pods as there is room
for by then, and then fails once for each kind, instead of once after each event.

Invariant: what is known here is forgotten with the next such event, or at most `ROUND_SECONDS`
after it. It never keeps a pod from the attempt at the end of its backoff, so that nothing is lost
where two pods are not as alike as they look (annotations, owners).
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Final

from scheduler.framework.queued import PostFilterOutcome, QueuedPodInfo
from scheduler.queue.queueing_hints import identity

ROUND_SECONDS: Final = 0.1
"""The least time between two rounds of early attempts by pods like those turned down."""


def pod_signature(info: QueuedPodInfo) -> Hashable | None:
    """Equal for pods that an attempt cannot tell apart; None when nobody interned the signature."""
    signature = identity(info.pod)
    return None if signature is None else (signature, info.pod.spec.scheduler_name)


class RetrySuppressor:
    """Pods turned down since the last event, by likeness. Times are the queue's, in seconds."""

    __slots__ = ("_events", "_events_before", "_next_round", "_rejected", "due")

    def __init__(self) -> None:
        #: When the next round begins, if something happened that the last one did not wait for.
        self.due: float | None = None
        self._next_round = -math.inf
        self._events = 0
        self._rejected: set[Hashable] = set()
        #: UIDs of pods in flight, and the events before they were popped. As many as these.
        self._events_before: dict[str, int] = {}

    def event_happened(self, now: float) -> bool:
        """Something changed that may help somebody; whether another round begins now, or `due`."""
        self._events += 1
        if not self._rejected:
            return True
        if now < self._next_round:
            self.due = self._next_round
            return False
        self._start_round(now)
        return True

    def start_round_if_due(self, now: float) -> bool:
        """Begin the round that was put off, if it is time; whether it was."""
        if self.due is None or now < self.due:
            return False
        self._start_round(now)
        return True

    def shift(self, jump: float) -> None:
        """The clock was set by `jump` seconds."""
        self._next_round += jump
        if self.due is not None:
            self.due += jump

    def _start_round(self, now: float) -> None:
        self._rejected.clear()
        self._next_round = now + ROUND_SECONDS
        self.due = None

    def attempt_started(self, uid: str) -> None:
        """An attempt begins."""
        self._events_before[uid] = self._events

    def attempt_finished(self, uid: str) -> None:
        """The attempt is over, however it ended."""
        self._events_before.pop(uid, None)

    def attempt_rejected(self, info: QueuedPodInfo) -> None:
        """The attempt found no place. Must come before `attempt_finished`."""
        if (
            info.unschedulable_plugins
            and not info.pending_plugins
            and info.post_filter is not PostFilterOutcome.NOMINATED
            and self._events_before.get(info.uid) == self._events
        ):
            self._rejected.add(pod_signature(info))

    def suppresses(self, signature: Hashable | None) -> bool:
        """Whether a pod of this likeness was turned down in this round."""
        return signature is not None and signature in self._rejected
