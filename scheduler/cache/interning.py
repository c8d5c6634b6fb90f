"""Interning of values that many nodes share: taint lists and label values."""

from __future__ import annotations

import numpy as np

from scheduler.api.node import Taint
from scheduler.api.selectors import parse_label_integer
from scheduler.framework.nodes import BoolColumn, Int32Column, Int64Column

COMPACTION_THRESHOLD = 2
"""A label column with more dictionary entries per row than this is compacted."""


class TaintSets:
    """Small ids of ordered taint lists; 0 is the empty list. Unused ids are reused."""

    def __init__(self) -> None:
        self.lists: list[tuple[Taint, ...]] = [()]
        self._ids: dict[tuple[tuple[str, str, str], ...], int] = {(): 0}
        self._holders = [1]
        self._free: list[int] = []

    def acquire(self, taints: tuple[Taint, ...]) -> int:
        """Return the id of `taints` and take one reference to it."""
        key = _taint_key(taints)
        found = self._ids.get(key)
        if found is None:
            if not self._free:
                self._free.append(len(self.lists))
                self.lists.append(())
                self._holders.append(0)
            found = self._ids[key] = self._free.pop()
            self.lists[found] = taints
        self._holders[found] += 1
        return found

    def release(self, taint_set: int) -> None:
        """Release one reference."""
        self._holders[taint_set] -= 1
        if taint_set and not self._holders[taint_set]:
            del self._ids[_taint_key(self.lists[taint_set])]
            self.lists[taint_set] = ()
            self._free.append(taint_set)


def _taint_key(taints: tuple[Taint, ...]) -> tuple[tuple[str, str, str], ...]:
    # time_added is left out: it differs on every node and no filter reads it.
    return tuple((taint.key, taint.value, taint.effect) for taint in taints)


class LabelColumn:
    """One label key over all rows: value ids (-1 missing) and the dictionary of values.

    An id stands for the same value for the lifetime of the object, and values that are no longer in
    use are kept, which adds up for host names. So the table replaces a column with
    `needs_compaction` by its `compacted` form, and drops columns that are long unused. Both happen
    when a node is written, never within a cycle; ids and values of a replaced column still match.
    """

    __slots__ = ("_arrays", "_integers", "_numeric", "column", "ids", "values")

    def __init__(self, capacity: int) -> None:
        self.column: Int32Column = np.full(capacity, -1, dtype=np.int32)
        #: Value to id, and id to value.
        self.ids: dict[str, int] = {}
        self.values: list[str] = []
        self._integers: list[int] = []
        self._numeric: list[bool] = []
        self._arrays: tuple[Int64Column, BoolColumn] | None = None

    @property
    def integers(self) -> Int64Column:
        """(values,): the value as int64 by id; 0 if it is not an integer."""
        return self._numbers()[0]

    @property
    def is_integer(self) -> BoolColumn:
        """(values,): whether the value is a 64-bit integer, by id; for Gt and Lt."""
        return self._numbers()[1]

    def set(self, row: int, value: str | None) -> bool:
        """Store a node's value; return whether it changed."""
        value_id = -1 if value is None else self._intern(value)
        if self.column[row] == value_id:
            return False
        self.column[row] = value_id
        return True

    @property
    def needs_compaction(self) -> bool:
        """Whether certainly more than half of the values are unused."""
        # At most one value per row is in use.
        return len(self.values) > COMPACTION_THRESHOLD * len(self.column)

    def compacted(self) -> LabelColumn:
        """Return the same column with a dictionary of only the values in use."""
        made = LabelColumn(len(self.column))
        present = self.column >= 0
        used, ids = np.unique(self.column[present], return_inverse=True)
        made.column[present] = ids
        for value_id in used.tolist():
            made._intern(self.values[value_id])
        return made

    def grow(self, capacity: int) -> None:
        """Make room for `capacity` rows."""
        self.column = np.pad(self.column, (0, capacity - len(self.column)), constant_values=-1)

    def _intern(self, value: str) -> int:
        found = self.ids.get(value)
        if found is None:
            found = self.ids[value] = len(self.values)
            self.values.append(value)
            number = parse_label_integer(value)
            self._integers.append(number or 0)
            self._numeric.append(number is not None)
            self._arrays = None
        return found

    def _numbers(self) -> tuple[Int64Column, BoolColumn]:
        if self._arrays is None:
            self._arrays = (
                np.array(self._integers, dtype=np.int64),
                np.array(self._numeric, dtype=np.bool_),
            )
        return self._arrays
