"""Ties: the rows that share the highest total of a signature, updated as single rows change.

Each pod changes a single row, and searching all rows for the maximum was the most expensive step of
a simple cycle. Rows are in ascending order, so that a random choice among them is the same as among
the rows that a new search finds.

The rows are kept by blocks, each with a maximum of its own. A block in which the last row with its
maximum has decreased is searched again once its rows are read, the others are not: with a million
nodes, a pod causes a search in a few blocks of 60, and moves at most 64 KiB.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Final, overload

import numpy as np

from scheduler.framework import Int64Column

BLOCK: Final = 1 << 14
"""Rows of a block; most clusters have one."""
_UNKNOWN: Final = 1 << 62
"""More than any total."""


class Ties:
    """The rows of a column of totals that have its maximum; the column is changed in place."""

    __slots__ = ("_block", "_highest", "_rows", "_totals", "floor")

    def __init__(self, totals: Int64Column, block: int = BLOCK) -> None:
        """Search no rows yet.

        Args:
            totals: int64[capacity], not empty.
            block: number of rows of a block.
        """
        self._totals, self._block = totals, block
        count = -(-len(totals) // block)
        #: By block: its maximum, or `_UNKNOWN`, and the rows that have it, ascending; 4 bytes each,
        #: since an insertion or deletion moves half of them.
        self._highest = [_UNKNOWN] * count
        self._rows = [array("i")] * count
        #: No change below this matters: at most the maximum of any known block.
        self.floor = _UNKNOWN

    def change(self, row: int, before: int, after: int) -> None:
        """Update the rows after the total of one row has changed."""
        index = row // self._block
        highest = self._highest[index]
        if after > highest:
            self._highest[index] = after
            self._rows[index] = array("i", (row,))
        elif before == highest and after != highest:
            rows = self._rows[index]
            del rows[bisect_left(rows, row)]
            if not rows:
                self._highest[index] = _UNKNOWN
        elif after == highest and before != highest:
            rows = self._rows[index]
            rows.insert(bisect_left(rows, row), row)

    @property
    def rows(self) -> Sequence[int]:
        """The rows with the maximum, ascending; valid until the next change."""
        highest = self._highest
        if _UNKNOWN in highest:
            self._search()
        if len(highest) == 1:
            return self._rows[0]
        most = max(highest)
        parts = [each for each, own in zip(self._rows, highest, strict=True) if own == most]
        return parts[0] if len(parts) == 1 else JoinedRows(parts)

    def _search(self) -> None:
        """Find the maximum of each block where it is not known."""
        highest, size = self._highest, self._block
        for index, known in enumerate(highest):
            if known == _UNKNOWN:
                begin = index * size
                totals = self._totals[begin : begin + size]
                most = totals.item(totals.argmax())
                rows = (totals == most).nonzero()[0]
                highest[index] = most
                self._rows[index] = array("i", (rows + begin).astype(np.intc).tobytes())
        self.floor = min(highest)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum([len(rows) * rows.itemsize for rows in self._rows])


class JoinedRows(Sequence[int]):
    """The rows of several blocks, as one sequence."""

    __slots__ = ("_ends", "_parts")

    def __init__(self, parts: Sequence[array[int]]) -> None:
        self._parts = parts
        self._ends = list(accumulate(map(len, parts)))

    def __len__(self) -> int:
        return self._ends[-1]

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[int]: ...
    def __getitem__(self, index: int | slice) -> int | Sequence[int]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        if not 0 <= index < len(self):
            raise IndexError(index)
        for part, end in zip(self._parts, self._ends, strict=True):
            if index < end:
                return part[index - end]
        raise AssertionError

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Return the rows for NumPy."""
        return np.concatenate([np.asarray(each) for each in self._parts]).astype(dtype or np.intc)
