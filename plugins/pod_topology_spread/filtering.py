"""Hard constraints: counts per domain, and their changes when pods are added or removed.

Upstream: `podtopologyspread/filtering.go`. Counts are arrays over the value ids of the topology
label, shared by all clones of a state. Changes of a what-if are kept apart: a clone is cheap.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from plugins.pod_topology_spread.constraints import Constraint
from plugins.pod_topology_spread.inclusion import Inclusion
from plugins.row_selection import selector
from scheduler.api.pod import Pod
from scheduler.framework import (
    BoolColumn,
    Codes,
    Int32Column,
    Int64Column,
    LabelValues,
    NodeInfo,
    NodeTableView,
    PodTerm,
    Rows,
    TableWithoutVictims,
)

SKEWED: Final = 1
"""Filter code: the skew would be too large."""
MISSING: Final = 2
"""Filter code: the node lacks the topology label."""

_NO_DOMAIN: Final = -1
_NO_COUNT: Final = (1 << 31) - 1


@dataclass(slots=True)
class Smallest:
    """The two domains with the fewest pods (upstream `filtering.go: criticalPaths`).

    Only two are known: if the smallest grows past the second, a third may be smaller than both. As
    upstream, this is accepted because a what-if changes one node.
    """

    domain: int = _NO_DOMAIN
    count: int = _NO_COUNT
    next_domain: int = _NO_DOMAIN
    next_count: int = _NO_COUNT

    @classmethod
    def of(cls, domains: Rows, counts: Int64Column) -> Smallest:
        """Build from `domains` and their `counts`."""
        if not len(domains):
            return cls()
        first = int(counts.argmin())
        if len(domains) == 1:
            return cls(int(domains[0]), int(counts[0]))
        # Two passes for the minimum are faster than sorting.
        others = counts.copy()
        others[first] = _NO_COUNT
        second = int(others.argmin())
        return cls(
            int(domains[first]), int(counts[first]), int(domains[second]), int(counts[second])
        )

    def update(self, domain: int, count: int) -> None:
        """Set the number of pods in `domain`."""
        if domain == self.domain:
            self.count = count
            if count > self.next_count:
                self._swap()
        elif domain == self.next_domain:
            self.next_count = count
            if self.count > count:
                self._swap()
        elif count < self.count:
            self.next_domain, self.next_count = self.domain, self.count
            self.domain, self.count = domain, count
        elif count < self.next_count:
            self.next_domain, self.next_count = domain, count

    def clone(self) -> Smallest:
        """Return a copy."""
        return Smallest(self.domain, self.count, self.next_domain, self.next_count)

    def _swap(self) -> None:
        self.domain, self.next_domain = self.next_domain, self.domain
        self.count, self.next_count = self.next_count, self.count


@dataclass(slots=True)
class Domains:
    """One constraint with its domains; never modified."""

    constraint: Constraint
    values: LabelValues
    #: Pods per value id; the last entry, for nodes without the label, is 0.
    counts: Int64Column
    #: Value ids of the domains.
    registered: Rows
    #: Whether there are at least `minDomains` domains.
    enough: bool
    #: 1 if the incoming pod matches the constraint's selector, else 0.
    own: int


@dataclass(slots=True)
class HardState:
    """State of Filter, cheap to clone (upstream `filtering.go: preFilterState`)."""

    domains: tuple[Domains, ...]
    smallest: list[Smallest]
    #: Per constraint: domain to pods more (or less) than in `Domains.counts`.
    changes: list[dict[int, int]]

    def clone(self) -> HardState:
        """Return an independent copy."""
        return HardState(
            self.domains,
            [each.clone() for each in self.smallest],
            [dict(each) for each in self.changes],
        )

    def minimum(self, index: int) -> int:
        """Return the pods in the smallest domain, 0 if there are fewer than `minDomains`."""
        return self.smallest[index].count if self.domains[index].enough else 0

    def code(self, node: NodeInfo) -> int:
        """Return 0, or the code of the first constraint that rejects the node."""
        labels = node.labels
        for index, domain in enumerate(self.domains):
            constraint = domain.constraint
            value = labels.get(constraint.topology_key)
            if value is None:
                return MISSING
            count = self._count(index, value)
            if count + domain.own - self.minimum(index) > constraint.max_skew:
                return SKEWED
        return 0

    def codes(self, table: NodeTableView, rows: Rows) -> Codes:
        """Columnar form of `code`."""
        index = selector(table, rows)
        result: Codes | None = None
        for position, domain in enumerate(self.domains):
            codes_by_value = self._codes_by_value(position)
            codes: Codes = codes_by_value[table.label_column(domain.constraint.topology_key)[index]]
            result = codes if result is None else np.where(result == 0, codes, result)
        return np.zeros(len(rows), dtype=np.int32) if result is None else result

    def codes_without_victims(
        self, inclusion: Inclusion, pod: Pod, table: TableWithoutVictims, rows: Rows
    ) -> Codes:
        """`codes` with each row's own potential victims removed.

        Removals shrink the row's own domain only, so the smallest count is the known minimum or
        the count of the row's own domain.
        """
        index = selector(table, rows)
        constraints = [each.constraint for each in self.domains]
        columns = [table.label_column(each.topology_key)[index] for each in constraints]
        complete = np.logical_and.reduce([column >= 0 for column in columns])
        masks = inclusion.masks(constraints, pod, table, rows, index)
        result = np.zeros(len(rows), dtype=np.int32)
        for position, (column, mask) in enumerate(zip(columns, masks, strict=True)):
            domain = self.domains[position]
            victims = _victim_counts(domain.constraint, pod, table)[index] * complete
            if mask is not None:
                victims *= mask
            left = self._counts(position)[column] - victims
            smallest: Int64Column | int = 0
            if domain.enough:
                known = self.smallest[position].count
                smallest = np.where(victims > 0, np.minimum(left, known), known)
            codes = (left + domain.own - smallest > domain.constraint.max_skew).astype(np.int32)
            codes[column < 0] = MISSING
            result = np.where(result == 0, codes, result)
        return result

    def removal_sensitive(self, pod: Pod, table: TableWithoutVictims, rows: Rows) -> BoolColumn:
        """Whether any potential victim of a row matches a constraint."""
        sensitive: BoolColumn = np.zeros(len(rows), dtype=np.bool_)
        for each in self.domains:
            sensitive |= _victim_counts(each.constraint, pod, table)[rows] > 0
        return sensitive

    def change(self, inclusion: Inclusion, pod: Pod, other: Pod, node: NodeInfo, by: int) -> None:
        """Add (+1) `other` to `node` or remove it (-1). As upstream, terminating pods count."""
        if other.metadata.namespace != pod.metadata.namespace:
            return
        labels = node.labels
        if any(each.constraint.topology_key not in labels for each in self.domains):
            return
        for index, domain in enumerate(self.domains):
            constraint = domain.constraint
            if not constraint.matches(other) or not inclusion.includes(constraint, pod, node):
                continue
            value = labels[constraint.topology_key]
            changes = self.changes[index]
            value_id = domain.values.ids[value]
            changes[value_id] = changes.get(value_id, 0) + by
            self.smallest[index].update(value_id, self._count(index, value))

    def _count(self, index: int, value: str) -> int:
        domain = self.domains[index]
        value_id = domain.values.ids.get(value, -1)
        base = int(domain.counts[value_id]) if value_id < len(domain.counts) - 1 else 0
        return base + self.changes[index].get(value_id, 0)

    def _codes_by_value(self, index: int) -> Codes:
        """Return the filter code per value id, and a last one for a missing label."""
        domain = self.domains[index]
        counts = self._counts(index)
        limit = domain.constraint.max_skew + self.minimum(index) - domain.own
        codes_by_value: Codes = (counts > limit).astype(np.int32)
        codes_by_value[-1] = MISSING
        return codes_by_value

    def _counts(self, index: int) -> Int64Column:
        """Return pods per value id, changes included; read-only."""
        counts = self.domains[index].counts
        if self.changes[index]:
            counts = counts.copy()
            for value_id, by in self.changes[index].items():
                counts[value_id] += by
        return counts


def hard_state(
    constraints: tuple[Constraint, ...], inclusion: Inclusion, pod: Pod, table: NodeTableView
) -> HardState:
    """Count pods per domain over nodes with all topology keys that the inclusion policies admit."""
    rows = table.rows
    index = selector(table, rows)
    keys = dict.fromkeys(each.topology_key for each in constraints)
    columns = {key: table.label_column(key)[index] for key in keys}
    complete = np.logical_and.reduce([column >= 0 for column in columns.values()])
    masks = inclusion.masks(constraints, pod, table, rows, index)
    domains, smallest = [], []
    for constraint, mask in zip(constraints, masks, strict=True):
        column = columns[constraint.topology_key]
        values = table.label_values(constraint.topology_key)
        slots = np.where(complete if mask is None else complete & mask, column, len(values.ids))
        counts = domain_counts(slots, len(values.ids), matching(constraint, pod, table)[index])
        present = np.bincount(slots, minlength=len(values.ids) + 1)[:-1]
        registered = np.flatnonzero(present)
        smallest.append(Smallest.of(registered, counts[registered]))
        enough = len(registered) >= constraint.min_domains
        own = int(constraint.matches(pod))
        domains.append(Domains(constraint, values, counts, registered, enough, own))
    return HardState(tuple(domains), smallest, [{} for _ in domains])


def matching(constraint: Constraint, pod: Pod, table: NodeTableView) -> Int32Column:
    """(capacity,): matching pods per row; as upstream, an empty selector matches none."""
    if constraint.selector.empty or constraint.selector.nothing:
        return np.zeros(table.capacity, dtype=np.int32)
    namespaces = frozenset((pod.metadata.namespace,))
    return table.pod_counts((PodTerm(namespaces, constraint.selector),), terminating=False)


def _victim_counts(constraint: Constraint, pod: Pod, table: TableWithoutVictims) -> Int32Column:
    """(capacity,): matching potential victims per row, including terminating ones."""
    namespaces = frozenset((pod.metadata.namespace,))
    return table.victim_counts((PodTerm(namespaces, constraint.selector),))


def domain_counts(slots: Rows | Int32Column, values: int, pods: Int32Column) -> Int64Column:
    """Sum `pods` by slot; slot `values` is for rows that do not count, and its sum is 0."""
    # float64 is exact here: a row has far fewer than 2**53 pods.
    counts: Int64Column = np.bincount(slots, weights=pods, minlength=values + 1).astype(np.int64)
    counts[values] = 0
    return counts
