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
from scheduler.queue.unschedulable_pods import identity

ROUND_SECONDS: Final = 0.1
"""The least time between two rounds of early attempts by pods like those turned down."""


def pod_signature(info: QueuedPodInfo) -> Hashable | None:
    """Equal for pods that an attempt cannot tell apart; None when nobody interned the signature."""
    alike = identity(info.pod)
    return None if alike is None else (alike, info.pod.spec.scheduler_name)


class RetrySuppressor:
    """Pods turned down since the last event, by likeness. Times are the queue's, in seconds."""

    __slots__ = ("_again", "_begun", "_events", "_known", "due")

    def __init__(self) -> None:
        #: When the next round begins, if something happened that the last one did not wait for.
        self.due: float | None = None
        self._again = -math.inf
        self._events = 0
        self._known: set[Hashable] = set()
        #: UIDs of pods in flight, and the events before they were popped. As many as these.
        self._begun: dict[str, int] = {}

    def happened(self, now: float) -> bool:
        """Something changed that may help somebody; whether another round begins now, or `due`."""
        self._events += 1
        if not self._known:
            return True
        if now < self._again:
            self.due = self._again
            return False
        self._forget(now)
        return True

    def begin_due(self, now: float) -> bool:
        """Begin the round that was put off, if it is time; whether it was."""
        if self.due is None or now < self.due:
            return False
        self._forget(now)
        return True

    def shift(self, jump: float) -> None:
        """The clock was set by `jump` seconds."""
        self._again += jump
        if self.due is not None:
            self.due += jump

    def _forget(self, now: float) -> None:
        self._known.clear()
        self._again = now + ROUND_SECONDS
        self.due = None

    def begun(self, uid: str) -> None:
        """An attempt begins."""
        self._begun[uid] = self._events

    def ended(self, uid: str) -> None:
        """The attempt is over, however it ended."""
        self._begun.pop(uid, None)

    def turned_down(self, info: QueuedPodInfo) -> None:
        """The attempt found no place. Must come before `ended`."""
        if (
            info.unschedulable_plugins
            and not info.pending_plugins
            and info.post_filter is not PostFilterOutcome.NOMINATED
            and self._begun.get(info.uid) == self._events
        ):
            self._known.add(pod_signature(info))

    def known(self, alike: Hashable | None) -> bool:
        """Whether a pod of this likeness was turned down in this round."""
        return alike is not None and alike in self._known
