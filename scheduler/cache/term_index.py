"""TermIndex: the affinity terms of placed pods; identical terms are counted together.

A cycle looks up the terms that match its pod. The cost of a lookup is per distinct term, never per
pod, and its result is cached until a distinct term is added or removed. A term whose counts are
read gets a column of pods per row, which is then kept up to date. This suits terms that are few and
selective. The terms of pods with very many of them, and terms that share their index entry with
very many others, are kept in blocks: see `term_blocks`.

Invariant, checked by `validate`: terms and their counts equal a recount over all placed pods.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

import numpy as np

from scheduler.api.bounded_cache import BoundedCache
from scheduler.api.packed_labels import labels_key
from scheduler.api.pod import Affinity, Pod
from scheduler.api.pod_affinity import AffinityTerm
from scheduler.api.signatures.signature import PodSignature
from scheduler.cache.counting import add_count, remove_member
from scheduler.cache.label_columns import LabelColumns
from scheduler.cache.term_block import HashedPod, TermBlock
from scheduler.cache.term_blocks import BlockOwner, TermBlocks
from scheduler.framework.nodes import ExistingPodTerm, Int32Column, PotentialVictims, TermKind

MAX_COLUMNS: Final = 512
"""Maximum number of columns of counts; the least recently read is dropped."""
_MAX_CACHE_BYTES: Final = 8 << 20
_BYTES_PER_RESULT: Final = 1000
_BYTES_PER_MATCH: Final = 100
_BYTES_PER_TERM: Final = 1600
"""Measured for a term with one label and one namespace."""

MANY_TERMS: Final = 16
"""A signature with more terms has them in a block. Workloads have one to five."""

MANY_VALUES: Final = 512
"""A signature whose terms list more values and namespaces has them in a block: one term may have
14,000 values, which take 2 MB as strings and 0.2 MB in a block."""

MANY_ALIKE: Final = 64
"""A term goes into a block if its index entry has this many terms already: all of these would be
matched one by one with every pod that has the label."""

_TermKey = tuple[TermKind, int, AffinityTerm, int, str]
"""Kind, weight, term, and priority and schedulerName of its owners."""
_ListedTerm = tuple[TermKind, int, AffinityTerm]
"""Kind, weight, term."""
_OwnerKey = tuple[PodSignature, str]
_Need = tuple[str | None, tuple[str, str] | None]
"""A namespace, None for any; and a label, None for any."""
_Matches = tuple[ExistingPodTerm, ...]


class _Term:
    """A distinct term and the pods that have it; implements `framework.ExistingPodTerm`."""

    __slots__ = (
        "_counts", "_index", "key", "kind", "priority", "rows", "scheduler_name", "term",
        "topology_key", "weight",
    )  # fmt: skip

    def __init__(self, key: _TermKey, index: TermIndex) -> None:
        self.key = key
        self.kind, self.weight, self.term, self.priority, self.scheduler_name = key
        self.topology_key = self.term.topology_key
        #: Row to number of pods, without zeros.
        self.rows: dict[int, int] = {}
        self._counts: Int32Column | None = None
        self._index = index

    @property
    def row_count(self) -> int:
        """Number of `rows`."""
        return len(self.rows)

    @property
    def counts(self) -> Int32Column:
        """(capacity,): pods per row that have the term; live, read only."""
        if self._counts is None:
            self._counts = self._column()
        self._index.used(self)
        return self._counts

    def consistent(self) -> bool:
        """Whether the column, if there is one, equals `rows`."""
        return self._counts is None or np.array_equal(self._counts, self._column())

    def _column(self) -> Int32Column:
        counts = np.zeros(self._index.capacity, dtype=np.int32)
        for row, count in self.rows.items():
            counts[row] = count
        return counts

    def change(self, row: int, by: int) -> None:
        left = add_count(self.rows, row, by)
        if self._counts is not None:
            self._counts[row] = left

    def forget_counts(self) -> None:
        self._counts = None


@dataclass(slots=True, eq=False)
class _Owner:
    """The pods of one signature and namespace: their terms, or their owner in a block."""

    terms: Sequence[_Term]
    in_block: BlockOwner | None = None
    pods: int = 0

    def change(self, row: int, by: int) -> None:
        self.pods += by
        if self.in_block is not None:
            self.in_block.change(row, by)
        for term in self.terms:
            term.change(row, by)


@dataclass(frozen=True, slots=True)
class TermStatistics:
    """Sizes of a `TermIndex`."""

    terms: int
    """Distinct terms outside of blocks."""
    blocks: int
    """Number of blocks."""
    block_terms: int
    bytes: int
    """Estimate of the memory held."""


class TermIndex:
    """Affinity terms of placed pods. Written by the node table only."""

    def __init__(self, capacity: int, node_keys: LabelColumns) -> None:
        self.capacity = capacity
        #: Terms with a topology key that no node has never match.
        self.node_keys = node_keys
        self._owners: dict[_OwnerKey, _Owner] = {}
        self._terms: dict[_TermKey, _Term] = {}
        #: Terms by (namespace, label) that a matching pod must have; None for any namespace (the
        #: term selects namespaces by label), and for any label (the selector needs none).
        self._by_need: dict[_Need, dict[_TermKey, _Term]] = {}
        #: Number of terms that select namespaces by label.
        self._selecting = 0
        self._blocks = TermBlocks(capacity, node_keys)
        self._columns: OrderedDict[int, _Term] = OrderedDict()
        self._matches: BoundedCache[tuple[object, ...], _Matches]
        self._matches = BoundedCache(_MAX_CACHE_BYTES)
        #: Version of the nodes' label keys for which the cached matches hold.
        self._keys_version = node_keys.version

    # -- pods ------------------------------------------------------------------------------------

    def add(self, pod: Pod, row: int) -> None:
        """Count the terms of a pod on a row."""
        affinity = pod.interned.spec.affinity
        if affinity is None or not _has_terms(affinity):
            return
        key = (pod.signature, pod.metadata.namespace)
        owner = self._owners.get(key)
        if owner is None:
            owner = self._owners[key] = self._new_owner(pod)
        owner.change(row, 1)

    def remove(self, pod: Pod, row: int) -> None:
        """Stop counting the terms of a pod; its signature must be that of when it was counted."""
        if not self._owners:
            return
        key = (pod.signature, pod.metadata.namespace)
        owner = self._owners.get(key)
        if owner is None:
            return
        owner.change(row, -1)
        for term in owner.terms:
            if not term.rows:
                self._columns.pop(id(term), None)
                self._forget(term)
        if not owner.pods:
            del self._owners[key]
            if owner.in_block is not None:
                self._matches.clear()
                self._blocks.remove(owner.in_block)

    def grow(self, capacity: int) -> None:
        """Make room for `capacity` rows."""
        self.capacity = capacity
        self._blocks.grow(capacity)
        for term in self._columns.values():
            term.forget_counts()
        self._columns.clear()

    # -- lookups ---------------------------------------------------------------------------------

    @property
    def empty(self) -> bool:
        """Whether no placed pod has a term."""
        return not self._terms and not self._blocks

    def matching_terms(
        self,
        namespace: str,
        labels: Mapping[str, str],
        namespace_labels: Mapping[str, str],
        among: PotentialVictims | None = None,
    ) -> _Matches:
        """Return the distinct terms that match a pod; with `among` those of potential victims."""
        if not self._terms and not self._blocks:
            return ()
        if self._keys_version != self.node_keys.version:
            self._keys_version = self.node_keys.version
            self._matches.clear()
        # Namespace labels matter only where some term selects by them.
        selecting = self._selecting or self._blocks.selects_namespaces
        seen = labels_key(namespace_labels) if selecting else None
        key = (namespace, labels_key(labels), seen, among)
        cached = self._matches.get(key)
        if cached is not None:
            return cached
        has = self.node_keys.has
        found: list[ExistingPodTerm] = [
            each
            for each in self._candidates(namespace, labels)
            if has(each.topology_key)
            and (among is None or among.includes(each.priority, each.scheduler_name))
            and each.term.matches(namespace, namespace_labels, labels)
        ]
        nbytes = _BYTES_PER_RESULT + _BYTES_PER_MATCH * len(found)
        if self._blocks:
            pod = HashedPod(namespace, labels, namespace_labels)
            in_blocks = self._blocks.matching(pod, among)
            found += in_blocks
            nbytes += sum(each.nbytes for each in in_blocks)
        matches = tuple(found)
        self._matches.put(key, matches, nbytes)
        return matches

    def anti_terms_of(
        self,
        owner: Pod,
        namespace: str,
        labels: Mapping[str, str],
        namespace_labels: Mapping[str, str],
    ) -> Mapping[str, int] | None:
        """Count required anti-affinity terms of a placed pod that match another, by topology key.

        None: the terms of `owner` are not in a block.
        """
        found = self._owners.get((owner.signature, owner.metadata.namespace))
        if found is None or found.in_block is None:
            return None
        pod = HashedPod(namespace, labels, namespace_labels)
        return self._blocks.anti_terms_of(found.in_block, pod)

    def _candidates(self, namespace: str, labels: Mapping[str, str]) -> Iterator[_Term]:
        by_need = self._by_need
        for named in (namespace, None) if self._selecting else (namespace,):
            for label in (None, *labels.items()):
                found = by_need.get((named, label))
                if found is not None:
                    yield from found.values()

    def used(self, term: _Term) -> None:
        """Mark a column as read; drop the least recently read column beyond `MAX_COLUMNS`."""
        columns = self._columns
        columns[id(term)] = term
        columns.move_to_end(id(term))
        if len(columns) > MAX_COLUMNS:
            columns.popitem(last=False)[1].forget_counts()

    # -- internals -------------------------------------------------------------------------------

    def _new_owner(self, pod: Pod) -> _Owner:
        compiled = pod.signature.pod_affinity_terms(pod.metadata.namespace)
        listed: list[_ListedTerm] = [
            *((TermKind.REQUIRED, 0, each) for each in compiled.required),
            *((TermKind.REQUIRED_ANTI, 0, each) for each in compiled.required_anti),
            *((TermKind.PREFERRED, weight, each) for weight, each in compiled.preferred),
            *((TermKind.PREFERRED_ANTI, weight, each) for weight, each in compiled.preferred_anti),
        ]
        if not listed:
            return _Owner(())
        self._matches.clear()
        # From the signature, like the key under which the pod is removed again.
        spec = pod.signature.spec
        band = spec.priority or 0, spec.scheduler_name
        keys: list[_TermKey] = [(*each, *band) for each in listed]
        if (
            len(listed) > MANY_TERMS
            or sum(_values_of(term) for _, _, term in listed) > MANY_VALUES
            or any(map(self._is_one_of_many, keys))
        ):
            # As objects they would take thirty times the memory while the pod exists.
            pod.signature.forget_terms(pod.metadata.namespace)
            return _Owner((), self._blocks.add(TermBlock.of(listed), band))
        return _Owner([self._term(each) for each in keys])

    def _is_one_of_many(self, key: _TermKey) -> bool:
        """Whether a new term would share an index entry with `MANY_ALIKE` others."""
        if key in self._terms:
            return False
        needs = self._by_need
        return any(len(needs.get(need, ())) >= MANY_ALIKE for need in _needs(key[2]))

    def _term(self, key: _TermKey) -> _Term:
        found = self._terms.get(key)
        if found is None:
            found = self._terms[key] = _Term(key, self)
            self._selecting += found.term.namespace_selector is not None
            for need in _needs(found.term):
                self._by_need.setdefault(need, {})[key] = found
        return found

    def _forget(self, term: _Term) -> None:
        key = term.key
        if self._terms.pop(key, None) is None:
            # The pod has the same term twice; the first occurrence removed it.
            return
        self._matches.clear()
        self._selecting -= term.term.namespace_selector is not None
        for need in _needs(term.term):
            remove_member(self._by_need, need, key)

    # -- inspection ------------------------------------------------------------------------------

    def statistics(self) -> TermStatistics:
        """Return current sizes."""
        blocks = self._blocks
        columns = 4 * self.capacity * len(self._columns)
        terms = _BYTES_PER_TERM * len(self._terms)
        return TermStatistics(
            terms=len(self._terms),
            blocks=len(blocks),
            block_terms=blocks.terms,
            bytes=terms + blocks.nbytes + columns + self._matches.nbytes,
        )

    def validate(self, placed: Iterable[tuple[int, Pod]]) -> Iterable[str]:
        """Yield a sentence for every difference from a recount over (row, pod)."""
        recount: dict[_OwnerKey, Counter[int]] = {}
        for row, pod in placed:
            affinity = pod.signature.spec.affinity
            if affinity is not None and _has_terms(affinity):
                key = (pod.signature, pod.metadata.namespace)
                recount.setdefault(key, Counter())[row] += 1
        if {key: owner.pods for key, owner in self._owners.items()} != {
            key: rows.total() for key, rows in recount.items()
        }:
            yield "owners of affinity terms differ from the pods placed"
            return
        expected: dict[_Term, Counter[int]] = {}
        in_blocks: dict[BlockOwner, Counter[int]] = {}
        for key, owner in self._owners.items():
            for term in owner.terms:
                expected.setdefault(term, Counter()).update(recount[key])
            if owner.in_block is not None:
                in_blocks[owner.in_block] = recount[key]
        if {term: term.rows for term in self._terms.values()} != expected:
            yield "affinity terms differ from those of the pods placed"
        yield from self._blocks.validate(in_blocks)
        for term in self._columns.values():
            if not term.consistent():
                yield f"{term}: the column differs from the counts"


def _needs(term: AffinityTerm) -> Iterable[_Need]:
    """Return the index entries of a term; a matching pod looks into exactly one of them."""
    namespaces = term.namespaces if term.namespace_selector is None else (None,)
    labels = term.selector.needed_labels
    return product(namespaces, (None,) if labels is None else labels)


def _values_of(term: AffinityTerm) -> int:
    """Count the values and namespaces that a term lists."""
    selectors = (term.selector, term.namespace_selector)
    return len(term.namespaces) + sum(
        len(each.values)
        for selector in selectors
        if selector is not None
        for each in selector.requirements
    )


def _has_terms(affinity: Affinity) -> bool:
    return affinity.pod_affinity is not None or affinity.pod_anti_affinity is not None
