"""Taking the wanted rows of a column without copying where that is possible.

In a full pass over a table without holes the wanted rows are `0..n-1`, and a slice (a view) does;
NumPy's fancy indexing copies, at about 10 µs per 5000 rows and column.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from scheduler.framework import BoolColumn, Codes, Int64Column, NodeTableView, Rows

FEW: Final = 4
"""Up to so many rows plain Python is quicker than NumPy; after an assume there are one or two."""


def selector(table: NodeTableView, rows: Rows) -> slice | Rows:
    """An index that takes `rows` from a column: a slice when they are all rows and leave no hole.

    What it takes may be a view into the live table: read it, never write to it.
    """
    count = len(rows)
    if rows is table.rows and count and int(rows[-1]) == count - 1:
        return slice(0, count)
    return rows


def is_node(table: NodeTableView, rows: Rows, name: str) -> BoolColumn:
    """Which of `rows` is the node called `name`; none if the table has no such node."""
    row = table.row_of(name)
    mask: BoolColumn = rows == (-1 if row is None else row)
    return mask


def all_pass(rows: Rows) -> Codes:
    """Filter codes that reject no row."""
    return np.zeros(len(rows), dtype=np.int32)


def no_scores(rows: Rows) -> Int64Column:
    """A score of 0 for every row."""
    return np.zeros(len(rows), dtype=np.int64)
