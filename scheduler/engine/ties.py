"""Ties: the rows that share the highest total of a signature, updated as single rows change.

Each pod changes a single row, and searching all rows for the maximum was the most expensive step of
a simple cycle. Rows are in ascending order, so that a random choice among them is the same as among
the rows that a new search finds.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left

import numpy as np

from scheduler.framework import Int64Column


class Ties:
    """The rows of a column of totals that have its maximum."""

    __slots__ = ("highest", "rows")

    def __init__(self, totals: Int64Column) -> None:
        """Find the maximum of all totals.

        Args:
            totals: int64[capacity], not empty.
        """
        #: The maximum; valid only if `rows` is not empty.
        self.highest = totals.item(totals.argmax())
        #: Ascending; 4 bytes each, since an insertion or deletion moves half of them. Empty after
        #: the last of these totals has decreased, since the maximum is then unknown.
        rows = (totals == self.highest).nonzero()[0]
        self.rows = array("i", rows.astype(np.intc).tobytes())

    def change(self, row: int, before: int, after: int) -> None:
        """Update the rows after the total of one row has changed."""
        rows, highest = self.rows, self.highest
        if after > highest:
            self.highest = after
            self.rows = array("i", (row,))
        elif before == highest and after != highest:
            del rows[bisect_left(rows, row)]
        elif after == highest and before != highest:
            rows.insert(bisect_left(rows, row), row)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return len(self.rows) * self.rows.itemsize
