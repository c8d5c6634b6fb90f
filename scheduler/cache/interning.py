"""Interning of node facts that repeat: taint lists and label values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from scheduler.api.node import Taint
from scheduler.api.selectors import parse_label_integer
from scheduler.framework.nodes import BoolColumn, Int32Column, Int64Column

COMPACTION_THRESHOLD = 2


class TaintSets:
    """Ordered taint lists to small ids; 0 is the empty list. Ids without holder are used again."""

    def __init__(self) -> None:
        self.lists: list[tuple[Taint, ...]] = [()]
        self._ids: dict[tuple[tuple[str, str, str], ...], int] = {(): 0}
        self._holders = [1]
        self._free: list[int] = []

    def acquire(self, taints: tuple[Taint, ...]) -> int:
        """The id of `taints`, held once more."""
        key = _taint_key(taints)
        found = self._ids.get(key)
        if found is None:
            if self._free:
                found = self._free.pop()
                self.lists[found] = taints
                self._holders[found] = 0
            else:
                found = len(self.lists)
                self.lists.append(taints)
                self._holders.append(0)
            self._ids[key] = found
        self._holders[found] += 1
        return found

    def release(self, taint_set: int) -> None:
        """Give one hold back."""
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

    An id means the same value as long as the object lives. Values that no node has any more stay,
    too, which matters for hostnames; so the table replaces a `needs_compaction` column by its
    `compacted` form, and drops a column that nobody asks for. Both happen when a node is written,
    never within a cycle, and whoever still holds the old one has ids and values that fit each
    other.
    """

    __slots__ = ("_arrays", "_ids", "_integers", "_numeric", "_values", "column")

    def __init__(self, capacity: int) -> None:
        self.column: Int32Column = np.full(capacity, -1, dtype=np.int32)
        self._ids: dict[str, int] = {}
        self._values: list[str] = []
        self._integers: list[int] = []
        self._numeric: list[bool] = []
        self._arrays: tuple[Int64Column, BoolColumn] | None = None

    @property
    def ids(self) -> Mapping[str, int]:
        """Value to id."""
        return self._ids

    @property
    def values(self) -> Sequence[str]:
        """Id to value."""
        return self._values

    @property
    def integers(self) -> Int64Column:
        """Id to the value as an integer (0 where it is none)."""
        return self._numbers()[0]

    @property
    def is_integer(self) -> BoolColumn:
        """Id to whether the value is a 64-bit integer, for Gt and Lt."""
        return self._numbers()[1]

    def set(self, row: int, value: str | None) -> bool:
        """Store a node's value; returns whether it changed."""
        value_id = -1 if value is None else self._intern(value)
        if self.column[row] == value_id:
            return False
        self.column[row] = value_id
        return True

    @property
    def needs_compaction(self) -> bool:
        """Whether more than half of the values are no node's."""
        # As many values as rows can be in use.
        return len(self._values) > COMPACTION_THRESHOLD * len(self.column)

    def compacted(self) -> LabelColumn:
        """The same labels with a dictionary of the values in use."""
        made = LabelColumn(len(self.column))
        present = self.column >= 0
        used, places = np.unique(self.column[present], return_inverse=True)
        made.column[present] = places
        for value_id in used.tolist():
            made._intern(self._values[value_id])
        return made

    def grow(self, capacity: int) -> None:
        """Make room for `capacity` rows."""
        grown = np.full(capacity, -1, dtype=np.int32)
        grown[: len(self.column)] = self.column
        self.column = grown

    def _intern(self, value: str) -> int:
        found = self._ids.get(value)
        if found is None:
            found = self._ids[value] = len(self._values)
            self._values.append(value)
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
