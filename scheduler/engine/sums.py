"""Weighted sums of scores, for rows whose scores changed."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.cache.change_log import PickedRows
from scheduler.engine.row_columns import FEW_VALUES
from scheduler.framework import Int64Column, Rows

Parts = Sequence[tuple[int, Int64Column]]
"""(weight, column of scores) pairs."""


def weighted(weight: int, scores: Int64Column) -> Int64Column:
    """Return `scores` times `weight`; the result may be the same array."""
    return scores if weight == 1 else weight * scores


def sums_of(rows: Rows, parts: Parts) -> Int64Column | int:
    """Return the weighted sum for each of `rows`; 0 if there are no `parts`."""
    total: Int64Column | int = 0
    for position, (weight, column) in enumerate(parts):
        part = weighted(weight, column[rows])
        total = total + part if position else part
    return total


def replace_sums(
    base: Int64Column, changed: PickedRows, parts: Parts
) -> list[tuple[int, int, int]]:
    """Update `base` with the weighted sums of some rows; return (row, before, after) of changes."""
    listed, rows = changed
    if len(listed) > FEW_VALUES:
        old, base[rows] = base[rows], sums_of(rows, parts)
        new = base[rows]
        differs = (old != new).nonzero()[0]
        found = rows[differs].tolist(), old[differs].tolist(), new[differs].tolist()
        return list(zip(*found, strict=True))
    replaced = []
    for row in listed:
        before = base.item(row)
        base[row] = after = sum([weight * column.item(row) for weight, column in parts])
        if after != before:
            replaced.append((row, before, after))
    return replaced
