"""ScalarAmounts: extended and other scalar resources per row, sparse where few rows have them.

A cluster may have thousands of such names (one per device or network card), most of them on one
node. A name that few rows have is a dictionary of these rows, any other a column. Both forms read
alike; a row without an entry has 0.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Final

import numpy as np

from scheduler.framework.nodes import Int64Column, Rows

_SCARCE_SHARE: Final = 16
"""A name on fewer than one row in this many is a dictionary, whose entries take about 16 times the
memory of column entries."""

_BEYOND: Final = 1 << 63


class ScalarAmounts:
    """One kind of amount (allocatable, or requested by some pods) of every scalar resource."""

    __slots__ = ("_capacity", "_few", "_many")

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._few: dict[str, dict[int, int]] = {}
        self._many: dict[str, Int64Column] = {}

    def __bool__(self) -> bool:
        return bool(self._few or self._many)

    def __contains__(self, name: str) -> bool:
        """Whether any row has an amount other than 0."""
        return name in self._few or name in self._many

    def at(self, name: str, row: int) -> int:
        """Return the amount of a resource on a row."""
        few = self._few.get(name)
        if few is not None:
            return few.get(row, 0)
        column = self._many.get(name)
        return 0 if column is None else column.item(row)

    def of(self, name: str, index: slice | Rows) -> Int64Column:
        """Return int64 amounts (len(index),) of a resource; possibly a view, do not write to it."""
        column = self._many.get(name)
        if column is None:
            column = np.zeros(self._capacity, dtype=np.int64)
            for row, amount in self._few.get(name, {}).items():
                column[row] = amount
        picked: Int64Column = column[index]
        return picked

    def put(self, name: str, row: int, amount: int) -> None:
        """Set an amount; 0 removes the entry."""
        column = self._many.get(name)
        if column is not None:
            column[row] = amount
            if not amount:
                self._drop_if_empty(name, column)
            return
        few = self._few.setdefault(name, {})
        if not -_BEYOND <= amount < _BEYOND:
            # A column would overflow. Wrap around here as well, so that removing the pods restores
            # the amount in either form.
            amount = (amount + _BEYOND) % (2 * _BEYOND) - _BEYOND
        if amount:
            few[row] = amount
            if len(few) * _SCARCE_SHARE > self._capacity:
                self._many[name] = self.of(name, slice(None))
                del self._few[name]
            return
        few.pop(row, None)
        if not few:
            del self._few[name]

    def add(self, name: str, row: int, amount: int) -> None:
        """Add `amount`, positive or negative, to an amount."""
        column = self._many.get(name)
        if column is not None:
            column[row] += amount
            if amount < 0 and not column[row]:
                self._drop_if_empty(name, column)
            return
        few = self._few.get(name)
        if few is not None:
            amount += few.get(row, 0)
        self.put(name, row, amount)

    def add_all(self, amounts: Iterable[tuple[str, int]], row: int, sign: int) -> None:
        """Add (`sign` 1) or subtract (-1) amounts by name, each within 64 bits."""
        few, many = self._few, self._many
        for name, amount in amounts:
            if amount and name not in few and name not in many and self._capacity >= _SCARCE_SHARE:
                # The quick path for pods with thousands of names that no other pod has.
                few[name] = {row: sign * amount}
            else:
                self.add(name, row, sign * amount)

    def _drop_if_empty(self, name: str, column: Int64Column) -> None:
        if not column.any():
            del self._many[name]

    def grow(self, capacity: int) -> None:
        """Make room for `capacity` rows."""
        self._capacity = capacity
        for name, column in list(self._many.items()):
            rows = np.flatnonzero(column)
            if len(rows) * _SCARCE_SHARE > capacity:
                grown = np.zeros(capacity, dtype=np.int64)
                grown[: len(column)] = column
                self._many[name] = grown
                continue
            del self._many[name]
            if len(rows):
                self._few[name] = dict(zip(rows.tolist(), column[rows].tolist(), strict=True))

    @property
    def nbytes(self) -> int:
        """Estimate of the memory held."""
        return sum(map(sys.getsizeof, self._few.values())) + sum(
            column.nbytes for column in self._many.values()
        )

    def nonzero(self) -> dict[tuple[str, int], int]:
        """Return every amount other than 0, by (name, row)."""
        found = {(name, row): each for name, few in self._few.items() for row, each in few.items()}
        for name, column in self._many.items():
            rows = np.flatnonzero(column)
            found |= {
                (name, row): each
                for row, each in zip(rows.tolist(), column[rows].tolist(), strict=True)
            }
        return found
