"""RowCache: results by kind of pod and row, valid until the row's node changes.

Pods of one template often come in bursts, during which few nodes change. The caller must ensure
that a result depends only on the pod's kind (the key), on the node and on named versions.

Invariant: results are invalidated by the change log of the node table. Nominations count as changes
of a node; their owner writes to the log (`NodeTable.note_nominations`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

from scheduler.cache import NodeTable

MAX_KINDS: Final = 64
"""Maximum number of kinds of pods; the least recently used one is evicted."""


class RowResults(Protocol):
    """The results of one kind of pod."""

    def forget(self, rows: Collection[int]) -> None:
        """Drop the results of these rows."""
        ...


R = TypeVar("R", bound=RowResults)


@dataclass(slots=True)
class _Entry(Generic[R]):
    results: R
    #: The table's revision and capacity, and named versions.
    revision: tuple[int, ...]
    #: Position in the change log up to which `results` are valid.
    sequence: int


class RowCache(Generic[R]):
    """Results of the most recently used kinds of pods."""

    __slots__ = ("_kinds", "_make", "_table")

    def __init__(self, table: NodeTable, make: Callable[[int], R]) -> None:
        """Create a cache; `make(capacity)` returns results in which no row is known."""
        self._table = table
        self._make = make
        self._kinds: OrderedDict[Hashable, _Entry[R]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kinds)

    def recall(self, kind: Hashable, versions: tuple[int, ...] = ()) -> R:
        """Return the results that are still valid for pods of a kind; the caller adds new ones.

        If `versions` (named versions of filters) or the table's revision changed, none are.
        """
        table = self._table
        revision = (table.revision, table.capacity, *versions)
        entry, changes = self._kinds.get(kind), None
        if entry is not None and entry.revision == revision:
            changes = table.change_log.since(entry.sequence)
        if entry is None or changes is None:
            entry = self._kinds[kind] = _Entry(self._make(table.capacity), revision, 0)
            if len(self._kinds) > MAX_KINDS:
                self._kinds.popitem(last=False)
        elif changes:
            entry.results.forget(changes)
        entry.sequence = table.sequence
        self._kinds.move_to_end(kind)
        return entry.results
