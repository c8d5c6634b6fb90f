"""The active queue: pods that may be scheduled now, in the order of the QueueSort plugin.

Invariant: no pod here is gated. The sort key is computed when a pod enters or its object changes,
never while popping; ties leave first in, first out.
"""

from __future__ import annotations

from collections.abc import Iterator

from scheduler.framework.queued import QueuedPodInfo
from scheduler.queue.backoff import SortKey
from scheduler.queue.heap import KeyedHeap


class ActiveQueue:
    """Pods by UID, smallest sort key first."""

    __slots__ = ("_heap", "_sort_key")

    def __init__(self, sort_key: SortKey) -> None:
        self._sort_key = sort_key
        self._heap: KeyedHeap[QueuedPodInfo] = KeyedHeap()

    def __len__(self) -> int:
        return len(self._heap)

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        return self._heap.items()

    def get(self, uid: str) -> QueuedPodInfo | None:
        """The pod, None when it is not here."""
        return self._heap.get(uid)

    def add(self, info: QueuedPodInfo) -> None:
        """Insert a pod or put it in its right place. What the sort key raises comes first."""
        self._heap.push(info.uid, self._sort_key(info), info)

    def remove(self, uid: str) -> QueuedPodInfo | None:
        """Take a pod out; None when it is not here."""
        return self._heap.remove(uid)

    def pop(self) -> QueuedPodInfo | None:
        """Take out the first pod; None when empty."""
        return self._heap.pop()

    def ordered(self, limit: int | None = None) -> list[QueuedPodInfo]:
        """All pods, or the first `limit`, in the order in which they will be popped."""
        return self._heap.ordered(limit)

    def rank(self, uid: str) -> int | None:
        """How many pods are popped before this one; None when it is not here."""
        return self._heap.rank(uid)

    def violations(self) -> list[str]:
        """What is broken inside, for `validate()`."""
        found = [f"active queue: {text}" for text in self._heap.violations()]
        found += [f"gated pod {info.key} is in the active queue" for info in self if info.gated]
        return found
