"""DomainSums: how many pods of each template fit in each domain of a label, while groups wait.

An event changes a few rows, but there may be hundreds of templates and thousands of domains. So the
sums are updated by the difference of the changed rows, for all templates at once.

Invariant: `by_domain[domain, template]` is the sum of the capacities of the domain's rows in
`TemplateCapacities`, where no row counts for more than the maximum number of members of a group.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.cache import NodeTable
from scheduler.framework import Rows
from scheduler.framework.grouping import MAX_MEMBERS

Sums = NDArray[np.int32]
"""int32 takes half the memory of int64; there may be thousands of domains times hundreds of
templates."""

_FEW: Final = 64
"""If more rows than this have changed, recomputing all sums is faster."""


class DomainSums:
    """The sums of one label."""

    def __init__(self, table: NodeTable, key: str) -> None:
        self._table = table
        self._key = key
        #: The label dictionary, and the label ids by row, from which the sums were computed.
        self._labels: object = None
        self._ids = np.zeros(0, dtype=np.int32)
        #: None if the sums must be recomputed.
        self._by_domain: Sums | None = None
        self._most: Sums | None = None

    def forget(self) -> None:
        """Invalidate all sums; the next read recomputes them."""
        self._by_domain = None

    def change(self, rows: Rows, before: Sums, after: Sums) -> None:
        """Update the sums for changed rows; their capacities are int32[templates, rows]."""
        sums = self._by_domain
        if sums is None:
            return
        labels, column = self._table.label_values(self._key), self._table.label_column(self._key)
        if len(rows) > _FEW or labels is not self._labels or len(labels.values) != len(sums):
            self._by_domain = None
            return
        before, after = _bounded(before), _bounded(after)
        places = zip(rows.tolist(), self._ids[rows].tolist(), column[rows].tolist(), strict=True)
        for place, (row, old, new) in enumerate(places):
            if old >= 0:
                sums[old] -= before[:, place]
            if new >= 0:
                sums[new] += after[:, place]
            self._ids[row] = new
        self._most = None

    def change_one(self, template: int, rows: Rows, before: Sums, after: Sums) -> None:
        """Update the sums of one template for changed rows; their capacities are int32[rows]."""
        if self._by_domain is not None:
            difference = _bounded(after) - _bounded(before)
            inside = self._ids[rows] >= 0
            np.add.at(self._by_domain[:, template], self._ids[rows][inside], difference[inside])
            self._most = None

    def by_domain(self, most: Sums) -> Sums:
        """Return int32[domains, templates]; `most` has all capacities, int32[templates, rows]."""
        if self._by_domain is None:
            labels = self._table.label_values(self._key)
            self._labels, self._most = labels, None
            self._ids = self._table.label_column(self._key).copy()
            inside = np.flatnonzero(self._ids >= 0)
            count = len(labels.values)
            sums = np.zeros((count, len(most)), dtype=np.int32)
            for template, taken in enumerate(most):
                weights = _bounded(taken[inside])
                sums[:, template] = np.bincount(self._ids[inside], weights, minlength=count)
            self._by_domain = sums
        return self._by_domain

    def most(self, most: Sums) -> Sums:
        """Return int32[templates]: the largest sum of any single domain."""
        sums = self.by_domain(most)
        if self._most is None:
            self._most = sums.max(axis=0, initial=0)
        return self._most


def _bounded(taken: Sums) -> Sums:
    """Limit the capacity of each row, so that sums over all rows fit in int32."""
    return np.minimum(taken, MAX_MEMBERS)
