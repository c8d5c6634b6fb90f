"""Numbers by topology pair, i.e. by label key and value of nodes.

The numbers are arrays over the value ids of each key, shared by all clones; changes of a what-if
are kept apart, so that a clone is cheap.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from plugins.row_selection import selector
from scheduler.framework import (
    BoolColumn,
    ExistingPodTerm,
    Int32Column,
    Int64Column,
    LabelValues,
    NodeTableView,
)

Column = Int32Column | Int64Column
"""(capacity,): numbers per row."""

_MAX_HELD: Final = 64
"""Columns to collect before they are added up; each takes 4 bytes a node."""
_FEW_ROWS: Final = 16
"""Up to this many nodes a loop is faster than a column."""


class Sums:
    """Sums columns (capacity,) by topology key; equal columns are multiplied instead of added.

    A pod may have thousands of terms, most of them about labels that no node or pod has.
    """

    __slots__ = ("_few", "_found", "_present", "_sums", "_table")

    def __init__(self, table: NodeTableView) -> None:
        self._table = table
        self._present: dict[str, bool] = {}
        #: By key and identity of a column: its weight so far, and the column.
        self._found: dict[tuple[str, int], tuple[int, Column]] = {}
        #: Read-only: these may be columns of the table.
        self._sums: dict[str, Column] = {}
        self._few: dict[str, Int64Column] = {}

    def wants(self, key: str) -> bool:
        """Whether any node has the topology key; otherwise columns for it do not count."""
        present = self._present.get(key)
        if present is None:
            present = self._present[key] = bool(self._table.label_values(key).ids)
        return present

    def add(self, key: str, column: Column, weight: int = 1) -> None:
        """Add a column; it must not change before `columns` is called."""
        mark = (key, id(column))
        known = self._found.get(mark)
        if known is None and len(self._found) >= _MAX_HELD:
            self._fold()
        self._found[mark] = (weight if known is None else known[0] + weight, column)

    def add_term(self, key: str, term: ExistingPodTerm, weight: int = 1) -> None:
        """Add the pods that have a term."""
        if term.row_count > _FEW_ROWS:
            self.add(key, term.counts, weight)
            return
        total = self._few.get(key)
        if total is None:
            total = self._few[key] = np.zeros(self._table.capacity, dtype=np.int64)
        for row, pods in term.rows.items():
            total[row] += pods * weight

    def columns(self) -> dict[str, Column]:
        """Return the sum of each topology key, read-only."""
        self._fold()
        for key, total in self._few.items():
            self._put(key, total)
        self._few.clear()
        return self._sums

    def _fold(self) -> None:
        for (key, _), (weight, column) in self._found.items():
            self._put(key, column if weight == 1 else column * np.int64(weight))
        self._found.clear()

    def _put(self, key: str, column: Column) -> None:
        known = self._sums.get(key)
        self._sums[key] = column if known is None else known + column


@dataclass(slots=True)
class Pairs:
    """Counts (or sums of weights) by (key, value). `add` builds; `change` is for what-ifs."""

    _base: dict[str, Int64Column] = field(default_factory=dict)
    _values: dict[str, LabelValues] = field(default_factory=dict)
    _changes: dict[tuple[str, str], int] = field(default_factory=dict)
    #: Sum over all pairs.
    total: int = 0

    def clone(self) -> Pairs:
        """Return an independent copy."""
        return Pairs(self._base, self._values, dict(self._changes), self.total)

    @property
    def keys(self) -> list[str]:
        """Topology keys with a number other than 0."""
        return [*dict.fromkeys([*self._base, *(key for key, _ in self._changes)])]

    def add(self, table: NodeTableView, key: str, per_row: Column) -> None:
        """Add a column (capacity,) to the pairs of its rows; rows without the key are ignored."""
        values = table.label_values(key)
        size = len(values.ids)
        index = selector(table, table.rows)
        # Nodes without the key, code -1, are counted first.
        slots = table.label_column(key)[index] + np.int32(1)
        # float64 is exact: weights of one pod sum up to 250,000 at most, and pods stay below 2**35.
        counted = np.bincount(slots, weights=per_row[index], minlength=size + 1)
        sums: Int64Column = np.zeros(size + 1, dtype=np.int64)
        sums[:size] = counted[1:]
        if not sums.any():
            return
        known = self._base.get(key)
        self._base[key] = sums if known is None else known + sums
        self._values[key] = values
        self.total += int(sums.sum())

    def change(self, key: str, value: str, by: int) -> None:
        """Add to one pair."""
        pair = (key, value)
        left = self._changes.get(pair, 0) + by
        if left:
            self._changes[pair] = left
        else:
            del self._changes[pair]
        self.total += by

    def number(self, key: str, value: str) -> int:
        """Return the number of one pair."""
        changed = self._changes.get((key, value), 0) if self._changes else 0
        base = self._base.get(key)
        if base is None:
            return changed
        value_id = self._values[key].ids.get(value)
        return changed if value_id is None else int(base[value_id]) + changed

    def per_value(self, table: NodeTableView, key: str) -> Int64Column:
        """Return numbers by value id of `key`, and a last entry, 0, for nodes without the key."""
        base = self._base.get(key)
        changes = [(value, by) for (changed, value), by in self._changes.items() if changed == key]
        if base is not None and not changes:
            return base
        values = table.label_values(key)
        numbers: Int64Column = np.zeros(len(values.ids) + 1, dtype=np.int64)
        if base is not None:
            numbers[: len(base) - 1] = base[:-1]
        for value, by in changes:
            numbers[values.ids[value]] += by
        return numbers

    def positive(self, table: NodeTableView, key: str) -> BoolColumn:
        """Return which values of `key` have a number above 0; the last entry is False."""
        above: BoolColumn = self.per_value(table, key) > 0
        return above
