"""DomainSums: how many pods of each template the domains of a label take, while groups wait.

An event changes a few rows, and there may be hundreds of templates and thousands of domains. So the
sums are changed by what the rows took before and take now, for all templates at once.

Invariant: `by_domain[domain, template]` is the sum over the rows of the domain of what
`TemplateCapacities` says of each, but of no row more than a group may have members.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.cache import NodeTable
from scheduler.framework import Rows
from scheduler.groups import MAX_MEMBERS

Sums = NDArray[np.int32]
"""Half the memory of int64: there may be thousands of domains, and hundreds of templates."""

_FEW: Final = 64
"""Changed rows from which on summing up anew takes less time."""


class DomainSums:
    """The sums of one label."""

    def __init__(self, table: NodeTable, key: str) -> None:
        self._table = table
        self._key = key
        #: The dictionary and the ids that the sums are of.
        self._labels: object = None
        self._ids = np.zeros(0, dtype=np.int32)
        #: None when they must be computed anew.
        self._by_domain: Sums | None = None
        self._most: Sums | None = None

    def forget(self) -> None:
        """Have all of it computed anew when it is asked for."""
        self._by_domain = None

    def change(self, rows: Rows, before: Sums, after: Sums) -> None:
        """Take over what changed rows take: int32[templates, rows], before and after."""
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
        """Take over what rows take of one template: int32[rows], before and after."""
        if self._by_domain is not None:
            difference = _bounded(after) - _bounded(before)
            inside = self._ids[rows] >= 0
            np.add.at(self._by_domain[:, template], self._ids[rows][inside], difference[inside])
            self._most = None

    def by_domain(self, most: Sums) -> Sums:
        """Return int32[domains, templates]; `most` is int32[templates, rows]."""
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
        """Return int32[templates]: the sum of the domain that takes most of each."""
        sums = self.by_domain(most)
        if self._most is None:
            self._most = sums.max(axis=0, initial=0)
        return self._most


def _bounded(taken: Sums) -> Sums:
    """Return what rows take, small enough for a sum over all rows."""
    return np.minimum(taken, MAX_MEMBERS)
