"""Sums of weighted scores, of the rows whose scores changed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scheduler.engine.plugin_calls import FEW_VALUES
from scheduler.framework import Int64Column


def replace_sums(
    base: Int64Column, changed: list[int], parts: Sequence[tuple[int, Int64Column]]
) -> list[tuple[int, int, int]]:
    """Write the weighted sums of some rows; return (row, before, after) where they differ."""
    if len(changed) > FEW_VALUES:
        rows = np.array(changed, dtype=np.intp)
        old, new = base[rows], sum([weight * column[rows] for weight, column in parts])
        base[rows] = new
        differs = (old != new).nonzero()[0]
        if not len(differs):
            return []
        found = rows[differs].tolist(), old[differs].tolist(), base[rows[differs]].tolist()
        return list(zip(*found, strict=True))
    replaced = []
    for row in changed:
        before = base.item(row)
        base[row] = after = sum([weight * column.item(row) for weight, column in parts])
        if after != before:
            replaced.append((row, before, after))
    return replaced
