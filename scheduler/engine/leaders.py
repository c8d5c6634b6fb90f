"""Leaders: the rows with the highest totals of a signature, updated as single rows change.

A decision record names the best nodes; searching all rows for them would cost a tenth of a simple
cycle. So a few dozen of the best rows are kept. Rows that fall below all other kept rows are
dropped, and once too few are left a new search is necessary.

If many rows are equal, the best ones stay the same from one pod to the next. Data that the recorder
derived from them is cached here as long as it is valid.
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
            kept: number of rows to keep.
        """
        self.totals = totals
        #: Data that the owner derived from the columns (`source`), from the scores of a row
        #: (`packed`), and from those of the rows that `best` returned last (`shared`). The latter
        #: two are dropped when such a score changes.
        self.source: object = None
        self.packed: dict[int, bytes] = {}
        self.shared: object = None
        #: The rows that `best` returned last; empty if they are no longer the best ones.
        self._top: list[int] = []
        rows = highest_rows(totals, kept)
        values = totals[rows].tolist()
        #: Per row one integer of negative total and row, so that the best row sorts first.
        self._order = sorted(
            (-total << _ROW_BITS) | row
            for row, total in zip(rows.tolist(), values, strict=True)
            if total >= 0
        )
        self._complete = len(rows) == len(totals)
        #: Totals of kept rows are at least this, those of other rows at most; negative if all rows
        #: are kept.
        self.floor = -1 if self._complete else min(values)

    def forget(self, *rows: int) -> None:
        """Drop data derived from the scores of these rows, which may have changed."""
        packed = self.packed
        for row in rows if packed else ():
            packed.pop(row, None)
        if not set(self._top).isdisjoint(rows):
            self.shared = None

    def change(self, row: int, before: int, after: int) -> None:
        """Update the order after the total of one row, on which the pod fitted, has changed.

        `after` is negative if the pod no longer fits there. Changes below `floor` need no call.
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
        """Return the `count` best rows, among equals the lowest first; None if no longer known.

        The caller must not modify the list.
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
    """Return the indices of the `count` highest totals, unordered; all if there are fewer.

    Among equal totals the first ones are taken. `at_least` is a guess of the lowest total among
    them; a correct guess saves most of the work.
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
    """Return the result of `highest_rows` if `lowest` is the lowest total in it, else None."""
    rows = np.flatnonzero(totals >= lowest)
    if len(rows) <= count:
        return rows if len(rows) == count else None
    values = totals[rows]
    above = rows[values > lowest]
    missing = count - len(above)
    if missing <= 0:
        return None
    return np.concatenate((above, rows[values == lowest][:missing]))
