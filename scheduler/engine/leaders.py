"""Leaders: the rows with the highest totals of a signature, kept up while single rows change.

For the record of a decision, which names the best nodes: looking for them among all rows would cost
a tenth of a plain cycle. A few dozen are kept; those that sink below all others kept are dropped,
and when too few are left a fresh search is due.

Where many rows are equal, the best ones stay the same from one pod to the next. What the recorder
derived from them is kept here as long as it is true.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

import numpy as np

from scheduler.framework import Int64Column, Rows

KEPT: Final = 64
_ROW_BITS: Final = 32
_ROW: Final = (1 << _ROW_BITS) - 1


class Leaders:
    """The best rows of one column of totals, which is changed in place."""

    __slots__ = ("_complete", "_order", "_top", "floor", "packed", "shared", "source", "totals")

    def __init__(self, totals: Int64Column, kept: int = KEPT) -> None:
        """Find the leaders.

        Args:
            totals: int64[capacity], negative where the pod does not fit.
            kept: how many.
        """
        self.totals = totals
        #: What the owner derived from the columns, from the scores of a row, and from those of the
        #: rows that `best` returned last; the latter two are dropped when they change.
        self.source: object = None
        self.packed: dict[int, bytes] = {}
        self.shared: object = None
        #: The rows that `best` returned last, as long as they are the best ones.
        self._top: list[int] = []
        rows = highest_rows(totals, kept)
        values = totals[rows].tolist()
        #: One number per row, the best first: the negative total, then the row.
        self._order = sorted(
            (-total << _ROW_BITS) | row
            for row, total in zip(rows.tolist(), values, strict=True)
            if total >= 0
        )
        self._complete = len(rows) == len(totals)
        #: No other row has more, and none that is kept has less; negative if there is no other row.
        self.floor = -1 if self._complete else min(values)

    def forget(self, *rows: int) -> None:
        """Drop what was derived from the scores of rows: one of them may have changed."""
        packed = self.packed
        for row in rows if packed else ():
            packed.pop(row, None)
        if not set(self._top).isdisjoint(rows):
            self.shared = None

    def change(self, row: int, before: int, after: int) -> None:
        """Follow a change of the total of one row that the pod fits on before.

        `after` is negative if it does not fit there any more. Changes below `floor` need no call.
        """
        order, top = self._order, self._top
        place = bisect_left(order, key := (-before << _ROW_BITS) | row)
        if place < len(order) and order[place] == key:
            del order[place]
            if place < len(top):
                self._top, self.shared = [], None
        if after > self.floor and after >= 0:
            place = bisect_left(order, key := (-after << _ROW_BITS) | row)
            order.insert(place, key)
            if place < len(top):
                self._top, self.shared = [], None

    def best(self, count: int) -> list[int] | None:
        """Return the `count` best rows, the lowest first among equals; None: not known any more.

        The list is kept: do not modify it.
        """
        order, top = self._order, self._top
        if len(top) == count:
            return top
        if len(order) < count and self.floor >= 0:
            return None
        self._top = top = [key & _ROW for key in order[:count]]
        self.shared = None
        return top


def highest_rows(totals: Int64Column, count: int, at_least: int | None = None) -> Rows:
    """Return the positions of the `count` highest totals, in no order; all where there are fewer.

    The first of those that are equal. `at_least`: a guess of the lowest of them; a good one saves
    most of the work.
    """
    if len(totals) <= count:
        return np.arange(len(totals), dtype=np.intp)
    if at_least is not None:
        rows = _highest_at_least(totals, count, at_least)
        if rows is not None:
            return rows
    lowest = int(np.partition(totals, len(totals) - count)[-count])
    rows = _highest_at_least(totals, count, lowest)
    assert rows is not None
    return rows


def _highest_at_least(totals: Int64Column, count: int, lowest: int) -> Rows | None:
    """Return the same if `lowest` is the lowest of the highest, None if it is not."""
    rows = np.flatnonzero(totals >= lowest)
    if len(rows) <= count:
        return rows if len(rows) == count else None
    values = totals[rows]
    above = rows[values > lowest]
    missing = count - len(above)
    if missing <= 0:
        return None
    return np.concatenate((above, rows[values == lowest][:missing]))
