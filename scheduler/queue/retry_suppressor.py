"""Suppresses early retries of pods in backoff whose signature was just rejected.

The queue retries pods in backoff early when nothing is active. If a thousand equal pods wait, each
event would cause a thousand attempts with the same result, and each attempt would double a pod's
backoff. So after a pod was rejected, pods of the same signature (with the same profile, labels,
namespace and node pin) are not retried early until an event that any plugin registered. While
events keep coming, retries happen in rounds: a round schedules as many pods as fit by then, and
fails once for each signature, instead of once after each event.

Invariant: signatures are dropped with the next such event, or at most `ROUND_SECONDS` after it. The
attempt at the end of the backoff is never suppressed, so that no pod is lost if two pods differ in
what the signature does not show (annotations, owners).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import Final

from scheduler.framework.queued import PostFilterOutcome, QueuedPodInfo
from scheduler.queue.queueing_hints import identity

ROUND_SECONDS: Final = 0.1
"""Minimum seconds between two rounds of early retries."""


def pod_signature(info: QueuedPodInfo) -> Hashable | None:
    """Return a key that is equal for pods with equal attempts; None if not interned."""
    signature = identity(info.pod)
    return None if signature is None else (signature, info.pod.spec.scheduler_name)


class RetrySuppressor:
    """Signatures rejected since the last event. Times are wall clock seconds."""

    def __init__(self) -> None:
        #: When the next round begins, if an event happened after the last round began.
        self.due: float | None = None
        self._next_round = -math.inf
        self._events = 0
        self._rejected: set[Hashable] = set()
        #: UIDs of pods in flight -> number of events before they were popped.
        self._events_before: dict[str, int] = {}

    def event_happened(self, clock: Callable[[], float]) -> bool:
        """Record an event; return True if a round begins now, otherwise one begins at `due`."""
        self._events += 1
        if not self._rejected:
            return True
        now = clock()
        if now < self._next_round:
            self.due = self._next_round
            return False
        self._start_round(now)
        return True

    def start_round_if_due(self, now: float) -> bool:
        """Begin the postponed round if it is due; return whether it was."""
        if self.due is None or now < self.due:
            return False
        self._start_round(now)
        return True

    def shift(self, jump: float) -> None:
        """Move all times by `jump` seconds, after the wall clock was set."""
        self._next_round += jump
        if self.due is not None:
            self.due += jump

    def _start_round(self, now: float) -> None:
        self._rejected.clear()
        self._next_round = now + ROUND_SECONDS
        self.due = None

    def attempt_started(self, uid: str) -> None:
        """Record that a pod was popped."""
        self._events_before[uid] = self._events

    def attempt_finished(self, uid: str) -> None:
        """Record the end of an attempt with any result."""
        self._events_before.pop(uid, None)

    def attempt_rejected(self, info: QueuedPodInfo) -> None:
        """Suppress a rejected pod's signature, unless an event happened during the attempt.

        Nor is it suppressed if the pod waits for its victims to terminate, or a plugin is pending:
        such an attempt shows nothing about other pods. Must be called before `attempt_finished`.
        """
        if (
            info.unschedulable_plugins
            and not info.pending_plugins
            and info.post_filter is not PostFilterOutcome.NOMINATED
            and self._events_before.get(info.uid) == self._events
        ):
            self._rejected.add(pod_signature(info))

    def suppresses(self, signature: Hashable | None) -> bool:
        """Whether a pod of this signature was rejected in this round."""
        return signature is not None and signature in self._rejected
