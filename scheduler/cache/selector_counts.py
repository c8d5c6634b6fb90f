"""SelectorCounts: the number of pods per row that match each selector in use.

Pods are grouped by namespace, labels, whether they are terminating, priority and schedulerName; a
group counts its pods per row. The first query of a selector sums its column over the matching
groups; from then on adding or removing a pod updates only the columns of its group.

Requirements that no present pod, or every present pod, satisfies are removed from a selector
before it gets a column. The terms of a pod with very many are summed in one walk over the groups,
without columns.

Invariant, checked by `validate`: groups and columns equal a recount over all placed pods. The least
recently used columns are evicted. Rows are those of the node table; this module knows no nodes.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Final

import numpy as np

from scheduler.api.many_terms import ManyTerms
from scheduler.api.packed_labels import labels_key
from scheduler.api.pod import Pod
from scheduler.api.selectors import EXISTS, IN, NOT_IN, CompiledLabelSelector, Requirement
from scheduler.cache.counting import add_count, remove_member
from scheduler.framework.nodes import Int32Column, Int64Column, PodTerm, PotentialVictims

MAX_GROUPS: Final = 10_000
"""Groups whose labels one question looks at: a millisecond of work."""
DEFAULT_MAX_BYTES: Final = 32 << 20
"""Bytes of columns to keep; at 8192 rows that is a thousand selectors."""

_ABOUT_VALUES: Final = (IN, NOT_IN)
_NEED_LABEL: Final = (IN, EXISTS)

MANY_LABELS: Final = 64
"""A group with more labels is not indexed by label but compared with every new column."""

_BYTES_PER_COLUMN: Final = 1200
"""A column without its counts and requirements; measured, as are the following."""
_BYTES_PER_REQUIREMENT: Final = 900
_BYTES_PER_TEXT: Final = 150
"""A value of a requirement, or the name of a namespace."""


Label = tuple[str, str]
"""Key and value."""

_Key = tuple[str, bytes, bool, int, str]
_ColumnKey = tuple[tuple[PodTerm, ...], bool, PotentialVictims | None]


class _Group:
    """Pods that neither selectors nor `PotentialVictims` can distinguish."""

    __slots__ = (
        "columns", "key", "labels", "namespace", "priority", "rows", "scheduler_name",
        "terminating",
    )  # fmt: skip

    def __init__(self, key: _Key, labels: Mapping[str, str]) -> None:
        self.key = key
        self.namespace, _, self.terminating, self.priority, self.scheduler_name = key
        self.labels = labels
        #: Row to number of pods, without zeros.
        self.rows: dict[int, int] = {}
        #: Columns that count this group.
        self.columns: list[_Column] = []


class _Column:
    """Pods per row that match a conjunction of terms."""

    __slots__ = ("among", "counts", "needed", "selector_bytes", "terminating", "terms")

    def __init__(
        self,
        terms: tuple[PodTerm, ...],
        terminating: bool,
        among: PotentialVictims | None,
        capacity: int,
    ) -> None:
        self.terms = terms
        #: Whether terminating pods count.
        self.terminating = terminating
        #: None: pods of every priority and schedulerName count.
        self.among = among
        self.counts: Int32Column = np.zeros(capacity, dtype=np.int32)
        #: Estimate of the memory besides the counts.
        self.selector_bytes = _BYTES_PER_COLUMN + sum(map(_size_of, terms))
        needs = [selector.needed_labels for _, selector in terms]
        #: Labels of which every counted pod has at least one; None if there are no such labels.
        self.needed = min((each for each in needs if each is not None), key=len, default=None)

    def matches(self, group: _Group) -> bool:
        if group.terminating and not self.terminating:
            return False
        among = self.among
        if among is not None and not among.includes(group.priority, group.scheduler_name):
            return False
        for namespaces, selector in self.terms:
            if namespaces is not None and group.namespace not in namespaces:
                return False
            if not selector.matches(group.labels):
                return False
        return True


@dataclass(frozen=True, slots=True)
class SelectorStatistics:
    """Sizes, and misses and evictions of columns since start."""

    groups: int
    columns: int
    bytes: int
    misses: int
    evictions: int


class SelectorCounts:
    """Counts of pods by selector. Written by the node table only."""

    def __init__(self, capacity: int, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        self._capacity = capacity
        self._max_bytes = max_bytes
        self._groups: dict[_Key, _Group] = {}
        self._by_namespace: dict[str, dict[_Key, _Group]] = {}
        self._by_label: dict[Label, dict[_Key, _Group]] = {}
        #: Label key to the number of indexed groups that have it.
        self._keys: dict[str, int] = {}
        self._zeros: Int32Column = np.zeros(capacity, dtype=np.int32)
        #: Columns by each label they need; None for columns without. So a new group is compared
        #: with few of a thousand selectors about different labels.
        self._by_need: dict[Label | None, dict[_Column, None]] = {}
        #: Groups with more than `MANY_LABELS` labels.
        self._many_labels: dict[_Key, _Group] = {}
        self._columns: OrderedDict[_ColumnKey, _Column] = OrderedDict()
        #: Sum of the columns' `selector_bytes`.
        self._selector_bytes = 0
        self._misses = 0
        self._evictions = 0

    # -- pods ------------------------------------------------------------------------------------

    def add(self, pod: Pod, row: int) -> None:
        """Count a pod on a row."""
        key = _key_of(pod)
        group = self._groups.get(key)
        if group is None:
            group = self._new_group(key, pod)
        group.rows[row] = group.rows.get(row, 0) + 1
        for column in group.columns:
            column.counts[row] += 1

    def remove(self, pod: Pod, row: int) -> None:
        """Stop counting a pod; it must have the labels with which it was counted."""
        group = self._groups[_key_of(pod)]
        # The key object of the group: dicts compare it by identity, an equal one byte by byte.
        key = group.key
        add_count(group.rows, row, -1)
        for column in group.columns:
            column.counts[row] -= 1
        if not group.rows:
            del self._groups[key]
            remove_member(self._by_namespace, group.namespace, key)
            if self._many_labels.pop(key, None) is None:
                for label in group.labels.items():
                    remove_member(self._by_label, label, key)
                    add_count(self._keys, label[0], -1)

    def grow(self, capacity: int) -> None:
        """Make room for `capacity` rows."""
        self._capacity = capacity
        self._zeros = np.zeros(capacity, dtype=np.int32)
        for column in self._columns.values():
            column.counts = np.pad(column.counts, (0, capacity - len(column.counts)))
        self._drop_beyond_limit()

    # -- columns ---------------------------------------------------------------------------------

    def counts(
        self, terms: Sequence[PodTerm], *, terminating: bool, among: PotentialVictims | None = None
    ) -> Int32Column:
        """Count the pods per row that match every term; (capacity,), live, read only.

        `terminating`: count terminating pods, too. `among`: count only potential victims.
        """
        key = (tuple(terms), terminating, among)
        column = self._columns.get(key)
        if column is None:
            reduced = self._reduced(key[0])
            if reduced is None:
                return self._zeros
            key = (reduced, terminating, among)
            column = self._columns.get(key)
            if column is None:
                return self._new_column(key).counts
        self._columns.move_to_end(key)
        return column.counts

    def summed(
        self, terms: ManyTerms, *, among: PotentialVictims | None = None
    ) -> tuple[Int64Column, Int64Column]:
        """Count pods per row once for each matching term, and with the term's weight.

        (capacity,) each, terminating pods included. Not cached.
        """
        rows: list[int] = []
        numbers: list[int] = []
        weights: list[int] = []
        for namespace, groups in self._by_namespace.items():
            if not terms.concerns_namespace(namespace):
                continue
            for group in groups.values():
                if among is not None and not among.includes(group.priority, group.scheduler_name):
                    continue
                number, weight = terms.matching(namespace, group.labels)
                if number:
                    rows += group.rows
                    numbers += [pods * number for pods in group.rows.values()]
                    weights += [pods * weight for pods in group.rows.values()]
        return self._sums(rows, numbers), self._sums(rows, weights)

    def label_values(self, namespaces: Iterable[str], key: str) -> Counter[str]:
        """Return the values of a label that pods of some namespaces have, with their groups.

        No more than `MAX_GROUPS` are looked at: a namespace may have as many as pods.
        """
        groups = (self._by_namespace.get(each, {}).values() for each in sorted(set(namespaces)))
        some = islice(chain.from_iterable(groups), MAX_GROUPS)
        labels = (each.labels.get(key) for each in some)
        return Counter(each for each in labels if each is not None)

    def _sums(self, rows: list[int], amounts: list[int]) -> Int64Column:
        index = np.array(rows, dtype=np.intp)
        # bincount sums in float64, which is exact up to 2**53.
        sums: Int64Column = np.bincount(index, amounts, self._capacity).astype(np.int64)
        return sums

    def _reduced(self, terms: tuple[PodTerm, ...]) -> tuple[PodTerm, ...] | None:
        """Drop requirements that all present pods satisfy; None if no present pod can match."""
        reduced: dict[PodTerm, None] = {}
        for namespaces, selector in terms:
            if selector.nothing or (
                namespaces is not None and namespaces.isdisjoint(self._by_namespace)
            ):
                return None
            selective = [self._is_selective(each) for each in selector.requirements]
            if None in selective:
                return None
            kept = selector
            if not all(selective):
                kept = CompiledLabelSelector(
                    each
                    for each, matters in zip(selector.requirements, selective, strict=True)
                    if matters
                )
            reduced[PodTerm(namespaces, kept)] = None
        return tuple(reduced)

    def _is_selective(self, requirement: Requirement) -> bool | None:
        """Whether present pods may differ in a requirement; False: all satisfy it, None: no pod."""
        key, operator = requirement.key, requirement.operator
        if operator in _ABOUT_VALUES:
            labels = self._by_label
            known = any((key, value) in labels for value in requirement.values)
            known = known or any(
                each.labels.get(key) in requirement.values for each in self._many_labels.values()
            )
        else:
            known = key in self._keys or any(
                key in each.labels for each in self._many_labels.values()
            )
        return known or (None if operator in _NEED_LABEL else False)

    def _new_group(self, key: _Key, pod: Pod) -> _Group:
        group = _Group(key, pod.metadata.labels)
        group.columns = [
            each
            for label in (None, *group.labels.items())
            for each in self._by_need.get(label, ())
            if each.matches(group)
        ]
        self._groups[key] = group
        self._by_namespace.setdefault(group.namespace, {})[key] = group
        if len(group.labels) > MANY_LABELS:
            self._many_labels[key] = group
            return group
        keys = self._keys
        for label in group.labels.items():
            self._by_label.setdefault(label, {})[key] = group
            keys[label[0]] = keys.get(label[0], 0) + 1
        return group

    def _new_column(self, key: _ColumnKey) -> _Column:
        self._misses += 1
        column = _Column(*key, self._capacity)
        counts = column.counts
        for group in self._candidates(column):
            if column.matches(group):
                group.columns.append(column)
                for row, count in group.rows.items():
                    counts[row] += count
        self._columns[key] = column
        self._selector_bytes += column.selector_bytes
        for label in _needs(column):
            self._by_need.setdefault(label, {})[column] = None
        self._drop_beyond_limit()
        return column

    def _candidates(self, column: _Column) -> Iterable[_Group]:
        """Return the groups with a needed label, or else of the namespaces that all terms allow."""
        if column.needed is not None:
            # No group appears twice: the needed labels share one key, and a group has it once.
            return [
                *(
                    each
                    for label in column.needed
                    for each in self._by_label.get(label, {}).values()
                ),
                *self._many_labels.values(),
            ]
        named = [each.namespaces for each in column.terms if each.namespaces is not None]
        if not named:
            return list(self._groups.values())
        allowed = frozenset.intersection(*named)
        return [
            group
            for namespace in allowed
            for group in self._by_namespace.get(namespace, {}).values()
        ]

    def _drop_beyond_limit(self) -> None:
        # The newest column is kept regardless of its size, since the caller is about to read it.
        while len(self._columns) > 1 and self._nbytes > self._max_bytes:
            _, dropped = self._columns.popitem(last=False)
            self._selector_bytes -= dropped.selector_bytes
            self._evictions += 1
            for label in _needs(dropped):
                remove_member(self._by_need, label, dropped)
            for group in self._candidates(dropped):
                if dropped in group.columns:
                    group.columns.remove(dropped)

    @property
    def _nbytes(self) -> int:
        return len(self._columns) * self._capacity * 4 + self._selector_bytes

    # -- inspection ------------------------------------------------------------------------------

    def statistics(self) -> SelectorStatistics:
        """Return current sizes."""
        return SelectorStatistics(
            groups=len(self._groups),
            columns=len(self._columns),
            bytes=self._nbytes,
            misses=self._misses,
            evictions=self._evictions,
        )

    def validate(self, placed: Iterable[tuple[int, Pod]]) -> Iterable[str]:
        """Yield a sentence for every difference from a recount over (row, pod)."""
        expected = SelectorCounts(self._capacity)
        for row, pod in placed:
            expected.add(pod, row)
        if {key: group.rows for key, group in self._groups.items()} != {
            key: group.rows for key, group in expected._groups.items()
        }:
            yield "selector counts: groups differ from the pods placed"
        for (terms, terminating, among), column in self._columns.items():
            recount = expected.counts(terms, terminating=terminating, among=among)
            if not np.array_equal(column.counts, recount):
                yield f"selector counts: {terms} differs from the pods placed"
        if sum(map(len, self._by_namespace.values())) != len(self._groups):
            yield "selector counts: namespaces and groups differ"
        indexed = [each for key, each in self._groups.items() if key not in self._many_labels]
        labelled = sum(len(group.labels) for group in indexed)
        if (
            sum(map(len, self._by_label.values())) != labelled
            or sum(self._keys.values()) != labelled
        ):
            yield "selector counts: labels and groups differ"
        if {each for peers in self._by_need.values() for each in peers} != {
            each for each in self._columns.values() if _needs(each)
        }:
            yield "selector counts: needs and columns differ"


def _needs(column: _Column) -> Iterable[Label | None]:
    return (None,) if column.needed is None else column.needed


def _size_of(term: PodTerm) -> int:
    texts = len(term.namespaces or ())
    requirements = term.selector.requirements
    texts += sum(len(each.values) for each in requirements)
    return _BYTES_PER_REQUIREMENT * len(requirements) + _BYTES_PER_TEXT * texts


def _key_of(pod: Pod) -> _Key:
    metadata, spec = pod.metadata, pod.spec
    return (
        metadata.namespace,
        labels_key(metadata.labels),
        metadata.deletion_timestamp is not None,
        spec.priority or 0,
        spec.scheduler_name,
    )
