"""Positions of rows whose labels satisfy requirements, cheap for many small selectors.

A local volume names one host: comparing a column of 5,000 value ids for each of 5,000 volumes would
dominate the cost. The first `In` requirement selects its rows from an index over the label, built
once per call of a filter; only these rows are compared with the other requirements.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from plugins.node_matching import node_selector_mask, requirement_mask
from plugins.row_selection import selector
from scheduler.api.node_selectors import CompiledNodeSelector
from scheduler.api.selectors import IN, Requirement
from scheduler.framework import BoolColumn, Int32Column, NodeTableView, Rows


class PositionsByLabel:
    """Selects positions in `rows` by label; used within one call of a filter."""

    def __init__(self, table: NodeTableView, rows: Rows) -> None:
        self.table = table
        self.rows = rows
        self.count = len(rows)
        self.index = selector(table, rows)
        self._sorted: dict[str, tuple[Rows, Int32Column]] = {}

    def of(self, requirements: Sequence[Requirement]) -> Rows:
        """Return the positions of rows that satisfy every requirement."""
        picked = next((each for each in requirements if each.operator == IN), None)
        if picked is None:
            mask = np.ones(self.count, dtype=np.bool_)
            for each in requirements:
                mask &= requirement_mask(each, self.table, self.index)
            return np.flatnonzero(mask)
        found = self._having(picked)
        for each in requirements:
            if each is not picked and len(found):
                kept = requirement_mask(each, self.table, self.rows[found])
                if kept is not True:
                    found = found[:0] if kept is False else found[kept]
        return found

    def reached(self, affinity: CompiledNodeSelector) -> Rows:
        """Return the positions of rows that satisfy a volume's node affinity."""
        terms = affinity.terms
        if len(terms) == 1 and terms[0].error is None:
            return self.of(terms[0].labels)
        return np.flatnonzero(self.mask(affinity))

    def mask(self, affinity: CompiledNodeSelector) -> BoolColumn:
        """Return `reached` as one bool per position."""
        return node_selector_mask(affinity, self.table, self.rows, self.index)

    def _having(self, requirement: Requirement) -> Rows:
        """Return the positions whose label has one of the values."""
        key = requirement.key
        known = self._sorted.get(key)
        if known is None:
            column = self.table.label_column(key)[self.index]
            order = np.argsort(column, kind="stable")
            known = self._sorted[key] = (order, column[order])
        order, values = known
        ids = self.table.label_values(key).ids
        parts = []
        for value in requirement.values:
            value_id = ids.get(value)
            if value_id is not None:
                first = np.searchsorted(values, value_id, side="left")
                last = np.searchsorted(values, value_id, side="right")
                parts.append(order[first:last])
        if len(parts) == 1:
            return parts[0]
        return np.concatenate(parts) if parts else np.zeros(0, dtype=np.intp)
