"""Leaders: the rows with the highest totals of a signature, kept up while single rows change.

For the record of a decision, which names the best nodes: looking for them among all rows would cost
a tenth of a plain cycle. A few dozen are kept; those that sink below all others kept are dropped,
and when too few are left a fresh search is due.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Final

import numpy as np

from scheduler.framework import Int64Column, Rows

KEPT: Final = 64
_ROW_BITS: Final = 32
_ROW: Final = (1 << _ROW_BITS) - 1


class Leaders:
    """The best rows of one column of totals, which is changed in place."""

    __slots__ = ("_complete", "_floor", "_order", "layout", "packed", "totals")

    def __init__(self, totals: Int64Column, kept: int = KEPT) -> None:
        """Find the leaders.

        Args:
            totals: int64[capacity], negative where the pod does not fit.
            kept: how many.
        """
        self.totals = totals
        #: What the owner derived from the scores of a row; dropped when they change.
        self.packed: dict[int, bytes] = {}
        #: How it is packed, as the owner knows it.
        self.layout: object = None
        rows = highest_rows(totals, kept)
        values = totals[rows].tolist()
        #: One number per row, the best first: the negative total, then the row.
        self._order = sorted(
            (-total << _ROW_BITS) | row
            for row, total in zip(rows.tolist(), values, strict=True)
            if total >= 0
        )
        #: No other row has more.
        self._floor = min(values, default=-1)
        self._complete = len(rows) == len(totals)

    def change(self, row: int, before: int, after: int) -> None:
        """Follow a change of the total of one row that the pod fits on before and after."""
        order = self._order
        place = bisect_left(order, key := (-before << _ROW_BITS) | row)
        if place < len(order) and order[place] == key:
            del order[place]
        if after > self._floor or self._complete:
            insort(order, (-after << _ROW_BITS) | row)

    def best(self, count: int) -> list[int] | None:
        """Return the `count` best rows, the lowest first among equals; None: not known any more."""
        order = self._order
        if len(order) < count and not self._complete and self._floor >= 0:
            return None
        return [key & _ROW for key in order[:count]]


def highest_rows(totals: Int64Column, count: int, at_least: int | None = None) -> Rows:
    """Return the positions of the `count` highest totals, in no order; all where there are fewer.

    `at_least`: a guess of the lowest of them; a good one saves most of the work.
    """
    if len(totals) <= count:
        return np.arange(len(totals), dtype=np.intp)
    if at_least is not None:
        rows = np.flatnonzero(totals >= at_least)
        if count <= len(rows) < len(totals) // 2:
            return rows[highest_rows(totals[rows], count)]
    return np.argpartition(totals, len(totals) - count)[-count:]
