"""The backoff queue: how long a failed pod waits, and the two heaps it waits in.

Invariant: a pod is in exactly one of the two heaps, chosen when it was added: the normal heap if a
plugin rejected it, the error heap if its attempt ended in an error. Only the normal heap may be
popped early, when nothing is active. Each of its pods is either a candidate for that, or suppressed
until `release` because a pod of the same signature was rejected; neither affects when its backoff
ends. Behaves as backoff_queue.go: backoffQueue.

All times are wall clock seconds. Nothing here reads a clock.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any

from scheduler.framework.queued import QueuedPodInfo
from scheduler.queue.heap import ITEM, SORT_KEY, KeyedHeap
from scheduler.queue.retry_suppressor import RetrySuppressor, pod_signature

SortKey = Callable[[QueuedPodInfo], Any]

#: Expiry of a pod that never failed: earlier than any time of any clock.
NO_BACKOFF = -math.inf


@dataclass(slots=True, eq=False)
class BackoffPolicy:
    """Backoff arithmetic. Pure, except that it caches the expiry in the pod's record.

    The durations may be changed at any time; new ones apply to failures from then on.
    """

    initial: float
    """Seconds."""
    maximum: float
    """Seconds; 0 disables backoff."""
    aligned: bool = field(default=True, kw_only=True)
    """Release pods in windows of one whole second, each window in the order of the active queue,
    instead of one by one as their backoff ends."""

    def duration(self, count: int) -> float:
        """Return seconds to wait: `initial`, doubled with each further failure, up to `maximum`."""
        if count <= 0:
            return 0.0
        # The exponent is capped to keep the float finite; 2**63 exceeds any real `maximum`.
        return min(self.initial * 2.0 ** min(count - 1, 63), self.maximum)

    def expiry(self, info: QueuedPodInfo) -> float:
        """Return when the pod's backoff ends, computed once per failure, or `NO_BACKOFF`."""
        count = info.consecutive_errors_count or info.unschedulable_count
        if not info.pause and (self.maximum == 0 or count == 0):
            return NO_BACKOFF
        if info.backoff_expiration is None:
            wait = max(self.duration(count), info.pause)
            info.backoff_expiration = self.align(info.timestamp + wait)
        return info.backoff_expiration

    def shift(self, info: QueuedPodInfo, jump: float) -> None:
        """Shift all times in a pod's record by `jump` seconds, after the wall clock was set."""
        info.timestamp += jump
        info.flushed_at += jump
        if info.backoff_expiration is not None:
            info.backoff_expiration = self.align(info.backoff_expiration + jump)
        if info.initial_attempt_timestamp is not None:
            info.initial_attempt_timestamp += jump
        if info.requeue_at is not None:
            info.requeue_at += jump

    def align(self, time: float) -> float:
        """Return the start of the window that contains `time`."""
        return float(math.floor(time)) if self.aligned else time

    def backing_off(self, info: QueuedPodInfo, now: float) -> bool:
        """Whether the pod must still wait; it also waits for the end of the window."""
        return self.expiry(info) >= self.align(now)

    def release(self, expiry: float) -> float:
        """Return the first moment at which a pod with this expiry is no longer backing off."""
        return expiry + 1.0 if self.aligned else math.nextafter(expiry, math.inf)


class BackoffQueue:
    """Pods worth retrying whose backoff has not ended."""

    def __init__(self, policy: BackoffPolicy, sort_key: SortKey) -> None:
        self._policy = policy
        self._sort_key = sort_key
        self._normal: KeyedHeap[QueuedPodInfo] = KeyedHeap()
        #: Pods whose attempt ended in an error.
        self.errors: KeyedHeap[QueuedPodInfo] = KeyedHeap()
        #: The pods of the normal heap that may be popped early; then the others, by signature.
        self._candidates: KeyedHeap[QueuedPodInfo] = KeyedHeap()
        self._suppressed: dict[Hashable, KeyedHeap[QueuedPodInfo]] = {}
        self._suppressed_signature: dict[str, Hashable] = {}

    def __len__(self) -> int:
        return len(self._normal) + len(self.errors)

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        yield from self._normal.items()
        yield from self.errors.items()

    @property
    def poppable(self) -> bool:
        """Whether `pop_early` may return a pod."""
        return len(self._candidates) > 0

    def get(self, uid: str) -> QueuedPodInfo | None:
        """Return the pod's record; None when it is not here."""
        return self._normal.get(uid) or self.errors.get(uid)

    def add(self, info: QueuedPodInfo) -> None:
        """Insert a pod that is in neither heap. If the sort key raises, nothing changes."""
        if info.unschedulable_plugins or info.pending_plugins:
            try:
                self._push_normal(info)
            except BaseException:
                # The sort key cannot be compared with those of the other candidates.
                self._normal.remove(info.uid)
                raise
        else:
            self.errors.push(info.uid, (self._policy.expiry(info),), info)

    def update(self, info: QueuedPodInfo) -> None:
        """Reorder a pod whose record changed within its heap."""
        if info.uid in self.errors:
            self.errors.push(info.uid, (self._policy.expiry(info),), info)
        else:
            self._push_normal(info)

    def remove(self, uid: str) -> QueuedPodInfo | None:
        """Take a pod out; None when it is not here."""
        info = self._normal.remove(uid)
        if info is None:
            return self.errors.remove(uid)
        self._remove_candidate(uid)
        return info

    def sort_by(self, sort_key: SortKey) -> None:
        """Use another sort key. If it raises, nothing changes. O(n)."""
        before, self._sort_key = self._sort_key, sort_key
        try:
            normal, candidates = (
                each.resorted(self._key) for each in (self._normal, self._candidates)
            )
            suppressed = {
                signature: each.resorted(self._key) for signature, each in self._suppressed.items()
            }
        except BaseException:
            self._sort_key = before
            raise
        self._normal, self._candidates, self._suppressed = normal, candidates, suppressed

    def pop_early(self, suppressor: RetrySuppressor) -> QueuedPodInfo | None:
        """Take out the next pod of the normal heap although its backoff has not ended.

        Candidates whose signature the suppressor knows are suppressed until `release`.
        """
        while (info := self._candidates.pop()) is not None:
            signature = pod_signature(info)
            if signature is None or not suppressor.suppresses(signature):
                self._normal.remove(info.uid)
                # The signature is no longer suppressed, so its next pod may be tried as well.
                self._release_one(signature)
                return info
            self._suppressed.setdefault(signature, KeyedHeap()).push(
                info.uid, self._key(info), info
            )
            self._suppressed_signature[info.uid] = signature
        return None

    def release(self) -> bool:
        """Make one suppressed pod of each signature a candidate; return `poppable`."""
        for signature in list(self._suppressed):
            self._release_one(signature)
        return self.poppable

    def next_completed(self, now: float) -> QueuedPodInfo | None:
        """Return a pod whose backoff has ended, or None; normal heap first. It stays here."""
        horizon = self._policy.align(now)
        for heap in (self._normal, self.errors):
            head = heap.head()
            if head is not None and head[SORT_KEY][0] < horizon:
                info: QueuedPodInfo = head[ITEM]
                return info
        return None

    def next_release(self) -> float | None:
        """Return when the first pod stops backing off; None when the queue is empty."""
        first, other = self._normal.head(), self.errors.head()
        if first is None or (other is not None and other[SORT_KEY][0] < first[SORT_KEY][0]):
            first = other
        return None if first is None else self._policy.release(first[SORT_KEY][0])

    def ordered(self, limit: int | None = None) -> list[QueuedPodInfo]:
        """Return all pods, or the first `limit`, in order: normal heap, then error heap."""
        return (self._normal.ordered(limit) + self.errors.ordered(limit))[:limit]

    def rank(self, uid: str) -> int | None:
        """Count the pods that leave the same heap before this one; None when it is not here."""
        rank = self._normal.rank(uid)
        return self.errors.rank(uid) if rank is None else rank

    def violations(self) -> list[str]:
        """Return the broken invariants, for `validate()`."""
        found = [f"backoff queue, normal heap: {text}" for text in self._normal.violations()]
        found += [f"backoff queue, error heap: {text}" for text in self.errors.violations()]
        found += [f"candidates of the backoff queue: {x}" for x in self._candidates.violations()]
        held = [info.uid for heap in self._suppressed.values() for info in heap.items()]
        if sorted(held) != sorted(self._suppressed_signature) or not all(
            map(len, self._suppressed.values())
        ):
            found.append("backoff queue: suppressed pods and their signatures differ")
        either = sorted([*held, *(info.uid for info in self._candidates.items())])
        if self._policy.aligned and either != sorted(info.uid for info in self._normal.items()):
            found.append("backoff queue: a pod is neither a candidate nor suppressed, or both")
        found += [
            f"pod {info.key} is in both backoff heaps"
            for info in self._normal.items()
            if info.uid in self.errors
        ]
        found += [f"gated pod {info.key} is in the backoff queue" for info in self if info.gated]
        return found

    def _push_normal(self, info: QueuedPodInfo) -> None:
        key = self._key(info)
        self._normal.push(info.uid, key, info)
        if self._policy.aligned:
            self._remove_candidate(info.uid)
            self._candidates.push(info.uid, key, info)

    def _key(self, info: QueuedPodInfo) -> tuple[Any, ...]:
        expiry = self._policy.expiry(info)
        return (expiry, self._sort_key(info)) if self._policy.aligned else (expiry,)

    def _remove_candidate(self, uid: str) -> None:
        self._candidates.remove(uid)
        signature = self._suppressed_signature.pop(uid, None)
        if signature is not None:
            held = self._suppressed[signature]
            held.remove(uid)
            if not held:
                del self._suppressed[signature]

    def _release_one(self, signature: Hashable | None) -> None:
        held = self._suppressed.get(signature)
        if held is None:
            return
        head = held.head()
        assert head is not None
        key, info = head[SORT_KEY], head[ITEM]
        held.pop()
        if not held:
            del self._suppressed[signature]
        del self._suppressed_signature[info.uid]
        self._candidates.push(info.uid, key, info)
