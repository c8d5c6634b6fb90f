"""SelectorCounts: how many pods each selector in use matches, per row (DESIGN section 4).

Pods are grouped by namespace, labels, whether they are being deleted, priority and schedulerName;
a group knows how many pods it has on each row. A selector that is asked for gets a column, summed
once over the groups it matches; from then on a pod's coming or going touches the columns of its
group and nothing else.

A selector that matches no pod, or excludes none, is reduced to what it says of the pods there are,
and gets no column of its own. The terms of a pod that has very many are summed up in one walk over
the groups, and nothing is kept.

Invariant, checked by `validate`: groups and columns equal a recount over all placed pods. Columns
that nobody asked for lately are dropped. The class does not know nodes: rows are the table's.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np

from scheduler.api.many_terms import ManyTerms
from scheduler.api.packed_labels import PackedLabels
from scheduler.api.pod import Pod
from scheduler.api.selectors import EXISTS, IN, NOT_IN, CompiledLabelSelector, Requirement
from scheduler.cache.counting import add_count, remove_member
from scheduler.framework.nodes import Int32Column, Int64Column, PodTerm, PotentialVictims

DEFAULT_MAX_BYTES: Final = 32 << 20
"""Bytes of columns to keep; at 8192 rows that is a thousand selectors."""

_ABOUT_VALUES: Final = (IN, NOT_IN)
_NEED_LABEL: Final = (IN, EXISTS)

MANY_LABELS: Final = 64
"""A group with more labels is in no index by label, but looked at for every new column."""

_BYTES_PER_COLUMN: Final = 1200
"""A column without its counts and requirements; measured, as the following."""
_BYTES_PER_REQUIREMENT: Final = 900
_BYTES_PER_TEXT: Final = 150
"""A value of a requirement, or the name of a namespace."""

_encode: Final = msgspec.msgpack.Encoder(order="deterministic").encode

Label = tuple[str, str]
"""Key and value."""

_Key = tuple[str, bytes, bool, int, str]
_ColumnKey = tuple[tuple[PodTerm, ...], bool, PotentialVictims | None]


class _Group:
    """Pods that no selector and no preemption can tell apart."""

    __slots__ = (
        "columns",
        "key",
        "labels",
        "namespace",
        "priority",
        "rows",
        "scheduler_name",
        "terminating",
    )

    def __init__(self, key: _Key, pod: Pod) -> None:
        self.key = key
        self.namespace = pod.metadata.namespace
        self.labels = pod.metadata.labels
        self.terminating = pod.terminating
        self.priority = pod.priority
        self.scheduler_name = pod.spec.scheduler_name
        #: Row to number of pods, without zeros.
        self.rows: dict[int, int] = {}
        #: Columns that count this group.
        self.columns: list[_Column] = []


class _Column:
    """The count per row of one conjunction of terms."""

    __slots__ = ("among", "counts", "needed", "selector_bytes", "terminating", "terms")

    def __init__(
        self,
        terms: tuple[PodTerm, ...],
        terminating: bool,
        among: PotentialVictims | None,
        capacity: int,
    ) -> None:
        self.terms = terms
        #: Whether pods being deleted count.
        self.terminating = terminating
        #: None: pods of every priority and schedulerName count.
        self.among = among
        self.counts: Int32Column = np.zeros(capacity, dtype=np.int32)
        #: What it holds besides the counts.
        self.selector_bytes = _BYTES_PER_COLUMN + sum(map(_size_of, terms))
        told = [selector.needed_labels for _, selector in terms]
        #: Labels of which every pod counted has one; None where nobody knows.
        self.needed = min((each for each in told if each is not None), key=len, default=None)

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
    """Sizes, and how columns fared since start."""

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
        #: Label key to the number of groups that have it.
        self._keys: dict[str, int] = {}
        self._nothing: Int32Column = np.zeros(capacity, dtype=np.int32)
        #: Columns by the labels they need, and those without any: a thousand selectors, each for
        #: another label, need not be held against a thousand groups.
        self._by_need: dict[Label | None, dict[_Column, None]] = {}
        #: Groups with `MANY_LABELS`.
        self._many_labels: dict[_Key, _Group] = {}
        self._columns: OrderedDict[_ColumnKey, _Column] = OrderedDict()
        #: Of columns, counts left out.
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
        """Stop counting a pod, given with the labels it was counted with."""
        group = self._groups[_key_of(pod)]
        # The very object: an equal key is compared byte by byte, for each of its labels.
        key = group.key
        add_count(group.rows, row, -1)
        for column in group.columns:
            column.counts[row] -= 1
        if not group.rows:
            del self._groups[key]
            remove_member(self._by_namespace, group.namespace, key)
            if self._many_labels.pop(key, None) is None:
                self._leave_labels(key, group)

    def grow(self, capacity: int) -> None:
        """Make room for `capacity` rows."""
        self._capacity = capacity
        self._nothing = np.zeros(capacity, dtype=np.int32)
        for column in self._columns.values():
            grown = np.zeros(capacity, dtype=np.int32)
            grown[: len(column.counts)] = column.counts
            column.counts = grown
        self._drop_beyond_limit()

    # -- columns ---------------------------------------------------------------------------------

    def counts(
        self, terms: Sequence[PodTerm], *, terminating: bool, among: PotentialVictims | None = None
    ) -> Int32Column:
        """(capacity,): pods per row that match every term; to be read only, before a pod comes."""
        key = (tuple(terms), terminating, among)
        column = self._columns.get(key)
        if column is None:
            reduced = self._reduced(key[0])
            if reduced is None:
                return self._nothing
            key = (reduced, terminating, among)
            column = self._columns.get(key)
            if column is None:
                return self._new_column(key).counts
        self._columns.move_to_end(key)
        return column.counts

    def summed(
        self, terms: ManyTerms, *, among: PotentialVictims | None = None
    ) -> tuple[Int64Column, Int64Column]:
        """(capacity,) each: pods per row, once for each term that matches, and with its weight.

        Terminating ones included. Not remembered.
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
        return self._added_up(rows, numbers), self._added_up(rows, weights)

    def _added_up(self, rows: list[int], amounts: list[int]) -> Int64Column:
        index = np.array(rows, dtype=np.intp)
        # float64 is exact up to 2**53.
        added: Int64Column = np.bincount(index, amounts, self._capacity).astype(np.int64)
        return added

    def _reduced(self, terms: tuple[PodTerm, ...]) -> tuple[PodTerm, ...] | None:
        """Terms that say the same of the pods there are; None when these match no pod."""
        reduced: dict[PodTerm, None] = {}
        for namespaces, selector in terms:
            if selector.nothing or (
                namespaces is not None and namespaces.isdisjoint(self._by_namespace)
            ):
                return None
            told = [self._tells_apart(each) for each in selector.requirements]
            if None in told:
                return None
            kept = selector
            if not all(told):
                kept = CompiledLabelSelector(
                    each
                    for each, matters in zip(selector.requirements, told, strict=True)
                    if matters
                )
            reduced[PodTerm(namespaces, kept)] = None
        return tuple(reduced)

    def _tells_apart(self, requirement: Requirement) -> bool | None:
        """Whether pods there are may differ in it; None: none satisfies it, False: all do."""
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
        namespace = pod.metadata.namespace
        group = _Group(key, pod)
        group.columns = [
            each
            for label in (None, *group.labels.items())
            for each in self._by_need.get(label, ())
            if each.matches(group)
        ]
        self._groups[key] = group
        self._by_namespace.setdefault(namespace, {})[key] = group
        if len(group.labels) > MANY_LABELS:
            self._many_labels[key] = group
            return group
        keys = self._keys
        for label in group.labels.items():
            self._by_label.setdefault(label, {})[key] = group
            keys[label[0]] = keys.get(label[0], 0) + 1
        return group

    def _leave_labels(self, key: _Key, group: _Group) -> None:
        for label in group.labels.items():
            remove_member(self._by_label, label, key)
            add_count(self._keys, label[0], -1)

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
        """Groups with a label that the column needs, or of the namespaces that all terms allow."""
        if column.needed is not None:
            # No label twice in one group: its keys are unique, and so are those of one requirement.
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
        # The newest column stays whatever it weighs: its reader holds it.
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
        """Current sizes."""
        return SelectorStatistics(
            groups=len(self._groups),
            columns=len(self._columns),
            bytes=self._nbytes,
            misses=self._misses,
            evictions=self._evictions,
        )

    def validate(self, placed: Iterable[tuple[int, Pod]]) -> Iterable[str]:
        """Every difference from a recount over (row, pod), as a sentence."""
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
    labels: Mapping[str, str] = metadata.labels
    return (
        metadata.namespace,
        labels.digest if type(labels) is PackedLabels else _encode(labels),
        metadata.deletion_timestamp is not None,
        spec.priority or 0,
        spec.scheduler_name,
    )
