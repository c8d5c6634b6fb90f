"""Preferred terms of the pod and of others, as sums of weights per topology pair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from plugins.inter_pod_affinity.counting import add_preferred
from plugins.inter_pod_affinity.pairs import Pairs, Sums
from plugins.inter_pod_affinity.terms import OwnTerms
from plugins.row_selection import selector
from scheduler.api.pod import Pod
from scheduler.framework import (
    MAX_NODE_SCORE,
    ExistingPodTerm,
    Int64Column,
    NodeInfo,
    NodeTableView,
    Rows,
    TermKind,
)


@dataclass(slots=True)
class PreferredState:
    """State of Score."""

    pairs: Pairs = field(default_factory=Pairs)
    #: Whether any pod took part at all; sums may still be 0.
    contributed: bool = False

    def score(self, node: NodeInfo) -> int:
        """Return the sum over the node's labels; may be negative."""
        labels = node.labels
        return sum(self.pairs.number(key, labels[key]) for key in self.pairs.keys if key in labels)

    def scores(self, table: NodeTableView, rows: Rows) -> Int64Column:
        """Columnar form of `score`."""
        index = selector(table, rows)
        total = np.zeros(len(rows), dtype=np.int64)
        for key in self.pairs.keys:
            total += self.pairs.per_value(table, key)[table.label_column(key)[index]]
        return total


def preferred_state(
    own: OwnTerms,
    pod: Pod,
    table: NodeTableView,
    namespace_labels: Mapping[str, str],
    hard_weight: int,
) -> PreferredState:
    """Sum weights over placed pods, including terminating ones."""
    state = PreferredState()
    metadata = pod.metadata
    others = table.existing_pod_terms(metadata.namespace, metadata.labels, namespace_labels)
    weighted = [(each, weight) for each in others if (weight := _weight(each, hard_weight))]
    if not own.preferred and not weighted:
        return state
    weights = Sums(table)
    add_preferred(own, table, weights)
    for term, weight in weighted:
        if weights.wants(term.topology_key):
            weights.add_term(term.topology_key, term, weight)
    for key, column in weights.columns().items():
        state.pairs.add(table, key, column)
    state.contributed = bool(state.pairs.keys) or _any_pod(
        own, [term for term, _ in weighted], table
    )
    return state


def _any_pod(own: OwnTerms, others: Sequence[ExistingPodTerm], table: NodeTableView) -> bool:
    """Whether a pod on a node with the topology key contributes, although all sums are 0."""
    pods = Sums(table)
    add_preferred(own, table, pods, weighted=False)
    for term in others:
        if pods.wants(term.topology_key):
            pods.add_term(term.topology_key, term)
    return any(
        bool(((present > 0) & (table.label_column(key) >= 0)).any())
        for key, present in pods.columns().items()
    )


def _weight(term: ExistingPodTerm, hard_weight: int) -> int:
    match term.kind:
        case TermKind.REQUIRED:
            return hard_weight
        case TermKind.PREFERRED:
            return term.weight
        case TermKind.PREFERRED_ANTI:
            return -term.weight
    return 0


def normalized(scores: Int64Column) -> Int64Column:
    """Scale from the lowest to the highest score; all 0 if they are equal."""
    lowest = int(scores.min()) if len(scores) else 0
    spread = int(scores.max()) - lowest if len(scores) else 0
    if not spread:
        return np.zeros(len(scores), dtype=np.int64)
    # Divide first in float64, as upstream: the result is truncated.
    share = (scores - lowest).astype(np.float64) / float(spread)
    final: Int64Column = (float(MAX_NODE_SCORE) * share).astype(np.int64)
    return final
