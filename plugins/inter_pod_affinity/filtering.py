"""Required terms: counts per topology pair, and their changes when pods are added or removed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from plugins.inter_pod_affinity.counting import (
    anti_pods,
    anti_victims,
    required_pods,
    required_victims,
)
from plugins.inter_pod_affinity.pairs import Column, Pairs, Sums
from plugins.inter_pod_affinity.terms import OwnTerms, compiled_terms
from plugins.row_selection import selector
from scheduler.api.pod import Pod
from scheduler.framework import (
    BoolColumn,
    Codes,
    Int64Column,
    NodeInfo,
    NodeTableView,
    Rows,
    TableWithoutVictims,
    TermKind,
)

AFFINITY: Final = 1
"""Filter code: the pod's own affinity is not met."""
ANTI_AFFINITY: Final = 2
"""Filter code: the pod's own anti-affinity is violated."""
EXISTING_ANTI_AFFINITY: Final = 3
"""Filter code: the anti-affinity of an existing pod is violated."""


@dataclass(slots=True)
class RequiredState:
    """State of Filter, cheap to clone (upstream `filtering.go: preFilterState`)."""

    own: OwnTerms
    namespace_labels: Mapping[str, str]
    #: Whether the pod may be the first of its group.
    matches_itself: bool
    #: Pods that match all own affinity terms, counted once per term.
    affinity: Pairs = field(default_factory=Pairs)
    #: Pods per own anti-affinity term they match.
    anti: Pairs = field(default_factory=Pairs)
    #: Anti-affinity terms of other pods that match this one.
    existing: Pairs = field(default_factory=Pairs)
    #: Results of `terms_against` by signature and namespace of the other pod; shared by clones.
    terms_by_pod: dict[tuple[int, str], Mapping[str, int]] = field(default_factory=dict)

    def clone(self) -> RequiredState:
        """Return an independent copy."""
        return RequiredState(
            self.own,
            self.namespace_labels,
            self.matches_itself,
            self.affinity.clone(),
            self.anti.clone(),
            self.existing.clone(),
            self.terms_by_pod,
        )

    @property
    def idle(self) -> bool:
        """Whether no node can be rejected."""
        own = self.own
        return not own.required and not own.required_anti and not self.existing.total

    def code(self, node: NodeInfo) -> int:
        """Return 0, or the code of the first kind of term that rejects the node."""
        labels = node.labels
        if self.own.required and not self._meets_affinity(labels):
            return AFFINITY
        if any(_holds(self.anti, key, labels) for key in self.anti.keys):
            return ANTI_AFFINITY
        if any(_holds(self.existing, key, labels) for key in self.existing.keys):
            return EXISTING_ANTI_AFFINITY
        return 0

    def codes(self, table: NodeTableView, rows: Rows) -> Codes:
        """Columnar form of `code`."""
        index = selector(table, rows)
        codes = np.zeros(len(rows), dtype=np.int32)
        for key in self.existing.keys:
            codes[_where(self.existing, table, key, index)] = EXISTING_ANTI_AFFINITY
        for key in self.anti.keys:
            codes[_where(self.anti, table, key, index)] = ANTI_AFFINITY
        if self.own.required:
            codes[~self._affinity_mask(table, index)] = AFFINITY
        return codes

    def codes_without_victims(self, pod: Pod, table: TableWithoutVictims, rows: Rows) -> Codes:
        """`codes` with each row's own potential victims removed."""
        index = selector(table, rows)
        codes = np.zeros(len(rows), dtype=np.int32)
        victims = self._victim_terms(pod, table)
        for key in self.existing.keys:
            left = _remaining(self.existing, table, key, index, victims.get(key))
            codes[left > 0] = EXISTING_ANTI_AFFINITY
        anti = anti_victims(self.own, table)
        for key in self.anti.keys:
            remaining = _remaining(self.anti, table, key, index, anti.get(key))
            codes[remaining > 0] = ANTI_AFFINITY
        if self.own.required:
            codes[~self._affinity_mask_without_victims(table, index)] = AFFINITY
        return codes

    def removal_sensitive(self, pod: Pod, table: TableWithoutVictims, rows: Rows) -> BoolColumn:
        """Whether any potential victim of a row is counted."""
        columns: list[Column] = list(self._victim_terms(pod, table).values())
        columns += anti_victims(self.own, table).values()
        if self.own.required:
            columns.append(required_victims(self.own, table))
        matter: BoolColumn = np.zeros(len(rows), dtype=np.bool_)
        for column in columns:
            matter |= column[rows] > 0
        return matter

    def change(self, other: Pod, against: Mapping[str, int], node: NodeInfo, by: int) -> None:
        """Add (+1) `other`, with its terms `against` this pod, to `node`, or remove it (-1)."""
        labels = node.labels
        for key, number in against.items():
            _change(self.existing, key, labels, by * number)
        if self.own.all_required_match(other):
            for key, number in self.own.required_keys.items():
                _change(self.affinity, key, labels, by * number)
        for key, number in self.own.anti_matching(other).items():
            _change(self.anti, key, labels, by * number)

    def terms_against(self, pod: Pod, other: Pod, table: NodeTableView) -> Mapping[str, int]:
        """Count by topology key the anti-affinity terms of `other` that match `pod`; cached.

        Dry runs remove and add the same pods on many nodes, and each may have thousands of terms.
        """
        key = (other.signature.id, other.metadata.namespace)
        found = self.terms_by_pod.get(key)
        if found is None:
            namespace, labels = pod.metadata.namespace, pod.metadata.labels
            found = table.anti_terms_of(other, namespace, labels, self.namespace_labels)
            if found is None:
                found = Counter(
                    term.topology_key
                    for term in compiled_terms(other).required_anti
                    if term.matches(namespace, self.namespace_labels, labels)
                )
            self.terms_by_pod[key] = found
        return found

    @property
    def _starts_group(self) -> bool:
        return self.matches_itself and not self.affinity.total

    def _meets_affinity(self, labels: Mapping[str, str]) -> bool:
        keys = self.own.required_keys
        if any(key not in labels for key in keys):
            return False
        return self._starts_group or all(_holds(self.affinity, key, labels) for key in keys)

    def _affinity_mask(self, table: NodeTableView, index: slice | Rows) -> BoolColumn:
        keys = self.own.required_keys
        if self._starts_group:
            masks = [table.label_column(key)[index] >= 0 for key in keys]
        else:
            masks = [_where(self.affinity, table, key, index) for key in keys]
        near: BoolColumn = np.logical_and.reduce(masks)
        return near

    def _victim_terms(self, pod: Pod, table: TableWithoutVictims) -> dict[str, Column]:
        """By topology key: anti-affinity terms of potential victims against the pod."""
        victims = Sums(table)
        metadata = pod.metadata
        for term in table.victim_terms(metadata.namespace, metadata.labels, self.namespace_labels):
            if term.kind is TermKind.REQUIRED_ANTI:
                victims.add_term(term.topology_key, term)
        return victims.columns()

    def _affinity_mask_without_victims(
        self, table: TableWithoutVictims, index: slice | Rows
    ) -> BoolColumn:
        """`_affinity_mask` with each row's potential victims removed; that may empty the group."""
        victims = required_victims(self.own, table)
        keys = self.own.required_keys
        present = {key: table.label_column(key)[index] >= 0 for key in keys}
        # Each victim was counted once per term whose label the node has.
        total = self.affinity.total - victims[index] * sum(
            present[key].astype(np.int64) * terms for key, terms in keys.items()
        )
        near: BoolColumn = np.logical_and.reduce(
            [
                _remaining(self.affinity, table, key, index, victims * terms) > 0
                for key, terms in keys.items()
            ]
        )
        if self.matches_itself:
            near |= total == 0
        near &= np.logical_and.reduce(list(present.values()))
        return near


def required_state(
    own: OwnTerms, pod: Pod, table: NodeTableView, namespace_labels: Mapping[str, str]
) -> RequiredState:
    """Count placed pods, terminating ones included."""
    state = RequiredState(own, namespace_labels, own.all_required_match(pod))
    if table.has_existing_pod_terms:
        _count_existing(state, pod, table)
    if own.required:
        # One pod must match all terms, so their conjunction is counted.
        pods = required_pods(own, table)
        for key, terms in own.required_keys.items():
            state.affinity.add(table, key, pods if terms == 1 else pods * np.int64(terms))
    if own.required_anti:
        for key, counts in anti_pods(own, table).items():
            state.anti.add(table, key, counts)
    return state


def _count_existing(state: RequiredState, pod: Pod, table: NodeTableView) -> None:
    metadata = pod.metadata
    terms = table.existing_pod_terms(metadata.namespace, metadata.labels, state.namespace_labels)
    if not terms:
        return
    sums = Sums(table)
    for term in terms:
        if term.kind is TermKind.REQUIRED_ANTI and sums.wants(term.topology_key):
            sums.add_term(term.topology_key, term)
    for key, counts in sums.columns().items():
        state.existing.add(table, key, counts)


def _holds(pairs: Pairs, key: str, labels: Mapping[str, str]) -> bool:
    value = labels.get(key)
    return value is not None and pairs.number(key, value) > 0


def _where(pairs: Pairs, table: NodeTableView, key: str, index: slice | Rows) -> BoolColumn:
    """Rows whose value of `key` has pods; id -1, a missing label, reads the last entry: False."""
    found: BoolColumn = pairs.positive(table, key)[table.label_column(key)[index]]
    return found


def _remaining(
    pairs: Pairs,
    table: NodeTableView,
    key: str,
    index: slice | Rows,
    victims: Column | None,
) -> Int64Column:
    """Per row its domain's number without this row's victims; 0 or less without the label."""
    left: Int64Column = pairs.per_value(table, key)[table.label_column(key)[index]]
    return left if victims is None else left - victims[index]


def _change(pairs: Pairs, key: str, labels: Mapping[str, str], by: int) -> None:
    value = labels.get(key)
    if value is not None:
        pairs.change(key, value, by)
