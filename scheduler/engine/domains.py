"""Domains: nodes grouped by the value of a label, and the capacity of each domain for a group.

Every operation is linear in the number of nodes, however many domains there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.api.pod import Pod
from scheduler.cache import Cache, NodeTable
from scheduler.framework import Int64Column, Rows

Rooms = Sequence[tuple[int, Int64Column | None]]
"""For each template: its number of members, and int64[capacity] with the maximum number of them
that fits on each row (None: unknown)."""


class Domains:
    """The domains of one node label, optionally split by the domains of an outer label."""

    def __init__(self, table: NodeTable, key: str, outer: Domains | None = None) -> None:
        """Read the labels. With `outer`, domains do not span several of its domains."""
        self.key = key
        column = table.label_column(key)
        self._values = table.label_values(key).values
        #: int64[capacity]: the number of each row's domain, -1 if the row has none.
        self.of_row = column.astype(np.int64)
        count = len(self._values)
        if outer is not None:
            inside = (column >= 0) & (outer.of_row >= 0)
            pairs = outer.of_row[inside] * max(count, 1) + column[inside]
            distinct, numbers = np.unique(pairs, return_inverse=True)
            self.of_row = np.full(len(column), -1, dtype=np.int64)
            self.of_row[inside] = numbers
            count = len(distinct)
        self._column = column
        self.count = count

    def only(self, domain: int) -> None:
        """Drop all domains but this one."""
        self.of_row[self.of_row != domain] = -1

    @property
    def labelled(self) -> Rows:
        """The rows that are in a domain, ascending."""
        return np.flatnonzero(self.of_row >= 0)

    def rows(self, domain: int) -> Rows:
        """Return the rows of a domain, ascending."""
        return np.flatnonzero(self.of_row == domain)

    def value(self, row: int) -> str:
        """Return the value of the label on a row that is in a domain."""
        return self._values[int(self._column[row])]

    def sums(self, amounts: Int64Column, rows: Rows) -> Int64Column:
        """Return int64[count]: by domain the sum of `amounts` (int64[capacity]) over `rows`."""
        found = np.bincount(self.of_row[rows], weights=amounts[rows], minlength=self.count)
        return found.astype(np.int64)

    def sizes(self, rows: Rows) -> Int64Column:
        """Return int64[count]: the number of rows of each domain."""
        return np.bincount(self.of_row[rows], minlength=self.count).astype(np.int64)

    def firsts(self, rows: Rows) -> Int64Column:
        """Return int64[count]: the first of `rows` in each domain, -1 for a domain without any."""
        found = np.full(self.count, -1, dtype=np.int64)
        found[self.of_row[rows][::-1]] = rows[::-1]
        return found


@dataclass(frozen=True, slots=True)
class OneDomain:
    """The requirement that all members of a group are in one domain of a label."""

    table: NodeTable
    key: str
    #: The label value, if members that already have nodes determine it.
    value: str | None = None

    def domains(self) -> Domains:
        """Return the domains of the current nodes that satisfy the requirement."""
        found = Domains(self.table, self.key)
        if self.value is not None:
            found.only(self.table.label_values(self.key).ids.get(self.value, -2))
        return found


def possible(domains: Domains, rooms: Rooms, rows: Rows) -> Int64Column:
    """Return int64[domains]: the maximum number of members that fits in each domain on `rows`."""
    found = np.zeros(domains.count, dtype=np.int64)
    for count, by_row in rooms:
        if by_row is None:
            found += count
        else:
            found += np.minimum(domains.sums(by_row, rows), count)
    return found


def rows_of(pods: Sequence[str], cache: Cache, *, nominated: Sequence[Pod] = ()) -> Rows:
    """Return the rows of placed pods, given by UID, and of the nodes of nominated pods."""
    names = [pod.status.nominated_node_name for pod in nominated]
    for uid in pods:
        placed = cache.get_pod(uid)
        names.append("" if placed is None else placed.spec.node_name)
    rows = (cache.table.row_of(name) for name in names if name)
    return np.array([row for row in rows if row is not None], dtype=np.intp)
