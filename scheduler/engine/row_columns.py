"""Conversions between columns of the table and arrays with one number for each of some rows."""

from __future__ import annotations

from typing import Final

import numpy as np

from scheduler.framework import Int64Column, Rows

INFEASIBLE: Final = -1
"""The total of a row on which the pod does not fit."""


def rows_index(rows: Rows) -> Rows | slice:
    """Return `rows`, or an equivalent slice if there is one, which is several times as fast."""
    count = len(rows)
    return slice(count) if count and rows.item(-1) == count - 1 else rows


def spread(sums: Int64Column, rows: Rows, capacity: int) -> Int64Column:
    """Return a column of the table: `sums` at `rows`, and `INFEASIBLE` elsewhere."""
    total = np.empty(capacity, dtype=np.int64)
    part = rows_index(rows)
    if isinstance(part, slice):
        total[len(rows) :] = INFEASIBLE
    else:
        total.fill(INFEASIBLE)
    total[part] = sums
    return total
