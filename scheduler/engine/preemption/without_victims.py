"""The node table without all potential victims, for columnar filters.

Only the usage is hypothetical. Each row is a hypothesis of its own, so some columns would be
ambiguous. Reading these raises an error, and the filter then runs node by node instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from scheduler.api.many_terms import ManyTerms
from scheduler.cache import NodeOverlay, NodeTable
from scheduler.framework import (
    BoolColumn,
    ExistingPodTerm,
    Int32Column,
    Int64Column,
    NodeInfo,
    PodTerm,
    PotentialVictims,
    Rows,
)

_AMBIGUOUS: Final = frozenset(
    ("non_zero_requested", "host_ports", "pod_counts", "summed_pods", "existing_pod_terms")
)


class UnknownColumnError(LookupError):
    """The column is not defined for the hypothetical nodes."""


class WithoutPotentialVictims:
    """Implements `TableWithoutVictims`; everything but usage is read from the live table."""

    def __init__(self, table: NodeTable, victims: PotentialVictims) -> None:
        self._table = table
        self._victims = victims
        amounts, victim_counts = table.priorities.total_of(victims)
        #: Like `NodeTable.requested` and `pod_count`, without the victims.
        self.requested = table.requested - amounts
        self.pod_count = table.pod_count - victim_counts
        #: (capacity,): number of potential victims by row.
        self.potential_victims = victim_counts

    def node_info(self, row: int) -> NodeInfo:
        """Return an overlay of the node without its victims."""
        node = NodeOverlay(self._table, row)
        for pod in list(node.pods):
            if self._victims.includes(pod.priority, pod.spec.scheduler_name):
                node.remove_pod(pod)
        return node

    def scalar_amounts(self, name: str, index: slice | Rows) -> tuple[Int64Column, Int64Column]:
        """Return `NodeTable.scalar_amounts` without the victims."""
        allocatable, requested = self._table.scalar_amounts(name, index)
        freed = self._table.priorities.scalar_total_of(self._victims, name, index)
        return allocatable, requested - freed

    def scalar_amounts_at(self, name: str, row: int) -> tuple[int, int]:
        """Return the result of `scalar_amounts` for one row."""
        allocatable, requested = self.scalar_amounts(name, slice(row, row + 1))
        return allocatable.item(0), requested.item(0)

    def victim_counts(self, terms: Sequence[PodTerm]) -> Int32Column:
        """Return the number of victims per row that match all `terms`."""
        return self._table.selector_counts.counts(terms, terminating=True, among=self._victims)

    def summed_victims(self, terms: ManyTerms) -> tuple[Int64Column, Int64Column]:
        """Return `NodeTable.summed_pods` of the victims only."""
        return self._table.selector_counts.summed(terms, among=self._victims)

    def victim_terms(
        self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]
    ) -> Sequence[ExistingPodTerm]:
        """Return the affinity terms of victims that match a pod."""
        return self._table.terms.matching_terms(namespace, labels, namespace_labels, self._victims)

    def remaining_ports(self, protocol: str, port: int) -> Mapping[str, BoolColumn]:
        """Return by host IP the rows where a remaining pod holds the port."""
        return self._table.ports.remaining(protocol, port, self._victims, self._table.capacity)

    def __getattr__(self, name: str) -> Any:
        """Read an attribute of the live table; UnknownColumnError if it would be ambiguous."""
        if name in _AMBIGUOUS:
            raise UnknownColumnError(f"{name} is not known for a cluster without the victims")
        return getattr(self._table, name)
