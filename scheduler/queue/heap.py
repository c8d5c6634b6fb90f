"""A heap whose items can be found, moved and removed by key.

Invariant: items are ordered by the sort key given when they were pushed, then by first insertion,
so that equal sort keys leave in a defined order. Removed items stay in the list as dead entries and
are dropped when they reach the top or outnumber the live ones; every operation is O(log n)
amortised.

Sort keys are opaque and never recomputed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush, nsmallest
from itertools import count
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")

# An entry is [sort key, sequence, stamp, key, item]; a dead entry has the key None. Lists compare
# like tuples. A moved item keeps its sequence, so its dead entry may have the same one; the stamp
# is unique, so that a comparison never reaches the key.
Entry = list[Any]
SORT_KEY, _SEQUENCE, _STAMP, _KEY, ITEM = range(5)
_COMPACT_FROM: Final = 64


class KeyedHeap(Generic[T]):
    """Smallest sort key first; first in, first out among equals."""

    __slots__ = ("_entries", "_heap", "stamps")

    def __init__(self, stamps: Iterator[int] | None = None) -> None:
        """Heaps that share `stamps` have one order: their entries may be compared and moved."""
        self._heap: list[Entry] = []
        self._entries: dict[str, Entry] = {}
        self.stamps = count(1) if stamps is None else stamps

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def get(self, key: str) -> T | None:
        """Return the item under `key`; None when absent."""
        entry = self._entries.get(key)
        return None if entry is None else entry[ITEM]

    def push(self, key: str, sort_key: Any, item: T) -> None:
        """Insert or replace the item under `key`; a replaced item keeps its turn among equals.

        If comparing sort keys raises, nothing changes.
        """
        old = self._entries.get(key)
        if old is not None and old[SORT_KEY] == sort_key:
            old[ITEM] = item
            return
        stamp = next(self.stamps)
        entry = [sort_key, stamp if old is None else old[_SEQUENCE], stamp, key, item]
        try:
            heappush(self._heap, entry)
        except BaseException:
            # The sort key cannot be compared with the others: undo the push.
            self._rebuild()
            raise
        self._entries[key] = entry
        if old is not None:
            old[_KEY] = old[ITEM] = None
            self._compact()

    def resorted(self, sort_key: Callable[[T], Any]) -> KeyedHeap[T]:
        """Return a heap with the same items by other sort keys; ties keep their turn. O(n).

        Raises whatever `sort_key` and comparing its results raise.
        """
        heap: KeyedHeap[T] = KeyedHeap(self.stamps)
        heap._entries = {
            key: [sort_key(entry[ITEM]), entry[_SEQUENCE], entry[_STAMP], key, entry[ITEM]]
            for key, entry in self._entries.items()
        }
        heap._rebuild()
        return heap

    def remove(self, key: str) -> T | None:
        """Take out the item under `key`; None when absent."""
        entry = self._entries.pop(key, None)
        if entry is None:
            return None
        item: T = entry[ITEM]
        entry[_KEY] = entry[ITEM] = None
        self._compact()
        return item

    def head(self) -> Entry | None:
        """Return the first entry; None when empty. Entries of heaps with one order compare."""
        heap = self._heap
        while heap:
            entry = heap[0]
            if entry[_KEY] is not None:
                return entry
            heappop(heap)
        return None

    def move_head(self, target: KeyedHeap[T]) -> None:
        """Move the first item, which must exist, to a heap with the same stamps; it keeps its turn.

        If comparing sort keys raises, nothing is moved.
        """
        entry = self.head()
        assert entry is not None, "an empty heap has no head"
        try:
            heappush(target._heap, entry)
        except BaseException:
            target._rebuild()
            raise
        key = entry[_KEY]
        target._entries[key] = entry
        heappop(self._heap)
        del self._entries[key]

    def entries(self) -> Iterator[Entry]:
        """Return all entries, in no order."""
        return iter(self._entries.values())

    def pop(self) -> T | None:
        """Take out the first item; None when empty."""
        heap = self._heap
        while heap:
            entry = heappop(heap)
            if entry[_KEY] is not None:
                del self._entries[entry[_KEY]]
                item: T = entry[ITEM]
                return item
        return None

    def items(self) -> Iterator[T]:
        """Return all items, in no order."""
        return (entry[ITEM] for entry in self._entries.values())

    def ordered(self, limit: int | None = None) -> list[T]:
        """Return all items, or the first `limit`, in the order of `pop`; a copy."""
        entries = self._entries.values()
        first = sorted(entries) if limit is None else nsmallest(limit, entries)
        return [entry[ITEM] for entry in first]

    def rank(self, key: str) -> int | None:
        """Count the items that leave before the one under `key`; None when absent. O(n)."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        return sum(1 for other in self._entries.values() if other < entry)

    def violations(self) -> list[str]:
        """Return the broken invariants, for `validate()`."""
        heap = self._heap
        found = [
            f"heap entry {child} sorts before its parent"
            for child in range(1, len(heap))
            if heap[child] < heap[(child - 1) // 2]
        ]
        alive = {entry[_KEY]: entry for entry in heap if entry[_KEY] is not None}
        if alive != self._entries:
            found.append("heap and key index hold different items")
        return found

    def _compact(self) -> None:
        if len(self._heap) > 2 * len(self._entries) + _COMPACT_FROM:
            self._rebuild()

    def _rebuild(self) -> None:
        self._heap = list(self._entries.values())
        heapify(self._heap)
