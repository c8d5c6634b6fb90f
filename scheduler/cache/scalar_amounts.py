"""ScalarAmounts: extended and other scalar resources per row, sparse where few rows have them.

A cluster may have thousands of such names (one per device or network card), most of them on one
node. The amounts of a name are a dictionary if few rows have it, else a column. Both forms have the
same interface; a row without an entry has 0.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from heapq import nsmallest
from typing import Final

import numpy as np

from scheduler.framework.nodes import Int64Column, Rows

_SPARSE_SHARE: Final = 16
"""A name on fewer than one row in this many is a dictionary, whose entries take about 16 times the
memory of column entries."""

_INT64_END: Final = 1 << 63


class ScalarAmounts:
    """One kind of amount (allocatable, or requested by some pods) of every scalar resource."""

    __slots__ = ("_capacity", "_dense", "_sparse")

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._sparse: dict[str, dict[int, int]] = {}
        self._dense: dict[str, Int64Column] = {}

    def __bool__(self) -> bool:
        return bool(self._sparse or self._dense)

    def __contains__(self, name: str) -> bool:
        """Whether any row has an amount other than 0."""
        return name in self._sparse or name in self._dense

    def at(self, name: str, row: int) -> int:
        """Return the amount of a resource on a row."""
        sparse = self._sparse.get(name)
        if sparse is not None:
            return sparse.get(row, 0)
        column = self._dense.get(name)
        return 0 if column is None else column.item(row)

    def of(self, name: str, index: slice | Rows) -> Int64Column:
        """Return int64 amounts (len(index),) of a resource; possibly a view, do not write to it."""
        column = self._dense.get(name)
        if column is None:
            column = np.zeros(self._capacity, dtype=np.int64)
            for row, amount in self._sparse.get(name, {}).items():
                column[row] = amount
        picked: Int64Column = column[index]
        return picked

    def put(self, name: str, row: int, amount: int) -> None:
        """Set an amount; 0 removes the entry."""
        column = self._dense.get(name)
        if column is not None:
            column[row] = amount
            if not amount:
                self._drop_if_empty(name, column)
            return
        sparse = self._sparse.setdefault(name, {})
        if not -_INT64_END <= amount < _INT64_END:
            # A column would overflow. Wrap around here as well, so that removing the pods restores
            # the amount in either form.
            amount = (amount + _INT64_END) % (2 * _INT64_END) - _INT64_END
        if amount:
            sparse[row] = amount
            if len(sparse) * _SPARSE_SHARE > self._capacity:
                self._dense[name] = self.of(name, slice(None))
                del self._sparse[name]
            return
        sparse.pop(row, None)
        if not sparse:
            del self._sparse[name]

    def add(self, name: str, row: int, amount: int) -> None:
        """Add `amount`, positive or negative, to an amount."""
        column = self._dense.get(name)
        if column is not None:
            column[row] += amount
            if amount < 0 and not column[row]:
                self._drop_if_empty(name, column)
            return
        sparse = self._sparse.get(name)
        if sparse is not None:
            amount += sparse.get(row, 0)
        self.put(name, row, amount)

    def add_all(self, amounts: Iterable[tuple[str, int]], row: int, sign: int) -> None:
        """Add (`sign` 1) or subtract (-1) amounts by name, each within 64 bits."""
        sparse, dense = self._sparse, self._dense
        may_be_sparse = self._capacity >= _SPARSE_SHARE
        for name, amount in amounts:
            if sign > 0 and amount >= 0 and name in dense:
                dense[name][row] += amount
            elif may_be_sparse and amount and name not in sparse and name not in dense:
                # The fast path for pods with thousands of names that no other pod has.
                sparse[name] = {row: sign * amount}
            else:
                self.add(name, row, sign * amount)

    def _drop_if_empty(self, name: str, column: Int64Column) -> None:
        if not column.any():
            del self._dense[name]

    def grow(self, capacity: int) -> None:
        """Make room for `capacity` rows."""
        self._capacity = capacity
        for name, column in list(self._dense.items()):
            rows = np.flatnonzero(column)
            if len(rows) * _SPARSE_SHARE > capacity:
                self._dense[name] = np.pad(column, (0, capacity - len(column)))
                continue
            del self._dense[name]
            if len(rows):
                self._sparse[name] = dict(zip(rows.tolist(), column[rows].tolist(), strict=True))

    def most_widespread(self, count: int) -> list[str]:
        """Return at most `count` names, those on the most rows first, by name among equals."""
        rows = {name: len(sparse) for name, sparse in self._sparse.items()}
        rows |= {name: int(np.count_nonzero(column)) for name, column in self._dense.items()}
        return nsmallest(count, rows, key=lambda name: (-rows[name], name))

    @property
    def nbytes(self) -> int:
        """Estimate of the memory held."""
        return sum(map(sys.getsizeof, self._sparse.values())) + sum(
            column.nbytes for column in self._dense.values()
        )

    def nonzero(self) -> dict[tuple[str, int], int]:
        """Return every amount other than 0, by (name, row)."""
        found = {
            (name, row): each for name, rows in self._sparse.items() for row, each in rows.items()
        }
        for name, column in self._dense.items():
            found |= {(name, row): column.item(row) for row in np.flatnonzero(column).tolist()}
        return found
