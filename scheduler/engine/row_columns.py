"""Rows of the table: which changed, and arrays with one number for each of some rows."""

from __future__ import annotations

from typing import Final

import numpy as np

from scheduler.cache import NodeTable
from scheduler.cache.change_log import Changes
from scheduler.framework import Int64Column, Rows

INFEASIBLE: Final = -1
"""The total of a row on which the pod does not fit."""
FEW_VALUES: Final = 8
"""Up to this number of values a loop in Python is faster than NumPy operations."""
FEW_ROWS: Final = 32
"""Up to this number of rows a columnar call is too short to check the cycle's budget before it."""
_FULL_REFRESH_SHARE: Final = 4
"""If more than one row in this many has changed, evaluating all rows is cheaper."""
_MAX_ENTRIES: Final = 256
"""If the change log has more than this many new entries plus one per node, it is not read, since
evaluating all rows is cheaper."""


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


def changed_rows(table: NodeTable, sequence: int) -> Changes | None:
    """Return the rows changed since `sequence` of the change log, with their column groups.

    None if the caller should evaluate all rows: `sequence` is negative, or too many rows changed.
    """
    if sequence < 0:
        return None
    # The log may have many entries for few rows, but beyond this it rarely pays to find out.
    changes = table.change_log.since(sequence, table.node_count + _MAX_ENTRIES)
    if changes is not None and len(changes) * _FULL_REFRESH_SHARE > table.node_count + FEW_ROWS:
        return None
    return changes
