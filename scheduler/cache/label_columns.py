"""LabelColumns: the label keys of nodes as columns, made when somebody asks.

A pod may ask for any number of keys that no node has. These share one empty column: to make one
takes memory per node and a look at every node.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from scheduler.api.node import Node
from scheduler.cache.counting import add_count
from scheduler.cache.interning import LabelColumn

MAX_LABEL_COLUMNS: Final = 512
"""Label keys with a column; a node takes 4 bytes in each. The one used longest ago goes first."""

_NO_LABELS: Final[Mapping[str, str]] = {}


class LabelColumns:
    """Columns by label key. Written by the node table only."""

    __slots__ = ("_absent", "_capacity", "_columns", "_holders", "version")

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._columns: OrderedDict[str, LabelColumn] = OrderedDict()
        #: Label key to the number of nodes that have it.
        self._holders: dict[str, int] = {}
        #: For all keys that no node has.
        self._absent = LabelColumn(capacity)
        #: Another whenever a key came to the first node, or went with the last.
        self.version = 0

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def has(self, key: str) -> bool:
        """Whether some node has a key."""
        return key in self._holders

    def of(self, key: str, nodes: Sequence[Node | None]) -> LabelColumn:
        """The column of a key; `nodes` by row, for a column that is yet to be made."""
        found = self._columns.get(key)
        if found is not None:
            self._columns.move_to_end(key)
            return found
        if key not in self._holders:
            return self._absent
        found = self._columns[key] = LabelColumn(self._capacity)
        for row, node in enumerate(nodes):
            if node is not None:
                found.set(row, node.metadata.labels.get(key))
        return found

    def write(self, row: int, before: Node | None, after: Node | None) -> None:
        """The labels of a row changed from those of one node to those of another; None: no node."""
        labels = after.metadata.labels if after else _NO_LABELS
        self._count(before.metadata.labels if before else _NO_LABELS, labels)
        for key, column in self._columns.items():
            column.set(row, labels.get(key))
            if after and column.needs_compaction:
                self._columns[key] = column.compacted()

    def drop_old(self) -> None:
        """Keep the number of columns. Not within a cycle, where ids must go on meaning the same."""
        while len(self._columns) > MAX_LABEL_COLUMNS:
            self._columns.popitem(last=False)

    def grow(self, capacity: int) -> None:
        """Make room for `capacity` rows."""
        self._capacity = capacity
        self._absent = LabelColumn(capacity)
        for column in self._columns.values():
            column.grow(capacity)

    def validate(self, nodes: Iterable[Node | None]) -> Iterable[str]:
        """Every difference from a recount, as a sentence."""
        if Counter(key for each in nodes if each for key in each.metadata.labels) != self._holders:
            yield "the label keys of nodes are counted wrongly"

    def _count(self, before: Iterable[str], after: Iterable[str]) -> None:
        holders = self._holders
        for key in after:
            self.version += add_count(holders, key, 1) == 1
        for key in before:
            self.version += not add_count(holders, key, -1)
