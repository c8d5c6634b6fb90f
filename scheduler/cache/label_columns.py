"""LabelColumns: the label keys of nodes as columns, built on first use.

Keys that no node has share one empty column, because a pod may mention any number of keys, and a
column costs memory per node and a pass over all nodes.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from scheduler.api.node import Node
from scheduler.cache.counting import add_count
from scheduler.cache.interning import LabelColumn

MAX_LABEL_COLUMNS: Final = 512
"""Maximum number of columns, of 4 bytes per row each; the least recently used is dropped."""

_NO_LABELS: Final[Mapping[str, str]] = {}


class LabelColumns:
    """Columns by label key. Written by the node table only."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._columns: OrderedDict[str, LabelColumn] = OrderedDict()
        #: Label key to the number of nodes that have it.
        self._holders: dict[str, int] = {}
        #: The column that all keys share that no node has.
        self._absent = LabelColumn(capacity)
        #: Changes whenever a key appears on its first node or disappears with its last.
        self.version = 0

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def has(self, key: str) -> bool:
        """Whether any node has the label key."""
        return key in self._holders

    def of(self, key: str, nodes: Sequence[Node | None]) -> LabelColumn:
        """Return the column of a key; `nodes`, by row, are read if it has to be built."""
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
        """Replace the labels of node `before` on a row by those of `after`; None: no node."""
        labels = after.metadata.labels if after else _NO_LABELS
        for key in labels:
            self.version += add_count(self._holders, key, 1) == 1
        for key in before.metadata.labels if before else _NO_LABELS:
            self.version += not add_count(self._holders, key, -1)
        for key, column in self._columns.items():
            column.set(row, labels.get(key))
            if after and column.needs_compaction:
                self._columns[key] = column.compacted()

    def drop_old(self) -> None:
        """Enforce `MAX_LABEL_COLUMNS`. Not within a cycle, during which ids must stay valid."""
        while len(self._columns) > MAX_LABEL_COLUMNS:
            self._columns.popitem(last=False)

    def grow(self, capacity: int) -> None:
        """Make room for `capacity` rows."""
        self._capacity = capacity
        self._absent = LabelColumn(capacity)
        for column in self._columns.values():
            column.grow(capacity)

    def validate(self, nodes: Iterable[Node | None]) -> Iterable[str]:
        """Yield a sentence for every difference from a recount."""
        if Counter(key for each in nodes if each for key in each.metadata.labels) != self._holders:
            yield "the label keys of nodes are counted wrongly"
