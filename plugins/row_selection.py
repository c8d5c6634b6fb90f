"""Selection of rows from columns, without copies where possible.

In a full pass over a table without holes the selected rows are `0..n-1`, and a slice (a view) does;
NumPy's fancy indexing copies, at about 10 µs per 5000 rows and column.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from scheduler.framework import BoolColumn, Codes, Int64Column, NodeAmounts, NodeTableView, Rows

FEW: Final = 4
"""Up to this many rows plain Python is faster than NumPy; an assume changes one or two."""


def selector(table: NodeAmounts, rows: Rows) -> slice | Rows:
    """Return an index that selects `rows` from a column, a slice if that is possible.

    The selection may be a view of the live table: never write to it.
    """
    count = len(rows)
    if rows is table.rows and count and int(rows[-1]) == count - 1:
        return slice(0, count)
    return rows


def is_node(table: NodeTableView, rows: Rows, name: str) -> BoolColumn:
    """Return for each of `rows` whether it is the named node; all False if the node is unknown."""
    row = table.row_of(name)
    mask: BoolColumn = rows == (-1 if row is None else row)
    return mask


def all_pass(rows: Rows) -> Codes:
    """Return filter codes that reject no row."""
    return np.zeros(len(rows), dtype=np.int32)


def no_scores(rows: Rows) -> Int64Column:
    """Return a score of 0 for every row."""
    return np.zeros(len(rows), dtype=np.int64)
