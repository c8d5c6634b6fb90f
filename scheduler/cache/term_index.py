"""TermIndex: the affinity terms of placed pods, identical ones counted together (DESIGN section 4).

A cycle asks which terms speak of its pod; the answer is found per distinct term, never per pod, and
remembered until a distinct term comes or goes. A term that is read gets a column of pods per row,
kept up to date after. The terms of a pod that has very many are not told apart from those of other
pods: they make one block.

Invariant, checked by `validate`: terms and their counts equal a recount over all placed pods.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final, Protocol

import numpy as np

from scheduler.api.bounded_memory import BoundedMemory
from scheduler.api.label_sets import labels_key
from scheduler.api.pod import Affinity, Pod
from scheduler.api.pod_affinity import AffinityTerm
from scheduler.api.shape import PodShape
from scheduler.cache.term_block import ClassMatch, HashedPod, TermBlock
from scheduler.framework.nodes import BoolColumn, Int32Column, OwnedTerm, TermKind

MAX_COLUMNS: Final = 512
_MAX_ANSWER_BYTES: Final = 4 << 20
_BYTES_PER_ANSWER: Final = 1000
_BYTES_PER_MATCH: Final = 100
_BYTES_PER_TERM: Final = 1600
"""Measured for a term with one label and one namespace."""

MANY_TERMS: Final = 64
"""A shape with more terms keeps them as a block. What people write has one to five."""

MANY_VALUES: Final = 512
"""The same for the values and namespaces that all its terms list: one term may have 14,000 values,
which take 2 MB as texts and 0.2 MB in a block."""

_MAX_BLOCK_ANSWERS: Final = 16
"""Of one block: kinds of pods told apart by what its terms mention."""

_TermKey = tuple[TermKind, int, AffinityTerm, int, str]
"""Kind, weight, term, and of its owners priority and schedulerName."""
_OwnerKey = tuple[PodShape, str]
_Need = tuple[str | None, tuple[str, str] | None]
"""A namespace, None for any; and a label, None for any."""
_Answer = tuple[OwnedTerm, ...]


class NodeKeys(Protocol):
    """The label keys that nodes have."""

    @property
    def version(self) -> int:
        """Another whenever a key came or went."""
        ...

    def has(self, key: str) -> bool:
        """Whether some node has a key."""
        ...


class _Counted:
    """Pods per row that have something."""

    __slots__ = ("_counts", "_index", "rows")

    def __init__(self, index: TermIndex) -> None:
        #: Row to number of pods, without zeros.
        self.rows: dict[int, int] = {}
        self._counts: Int32Column | None = None
        self._index = index

    @property
    def counts(self) -> Int32Column:
        """(capacity,): pods per row that have the term; live, to be read only."""
        if self._counts is None:
            self._counts = self._made()
        self._index.used(self)
        return self._counts

    def consistent(self) -> bool:
        """Whether the column, if there is one, says what `rows` says."""
        return self._counts is None or np.array_equal(self._counts, self._made())

    def _made(self) -> Int32Column:
        counts = np.zeros(self._index.capacity, dtype=np.int32)
        for row, count in self.rows.items():
            counts[row] = count
        return counts

    def change(self, row: int, by: int) -> None:
        left = self.rows.get(row, 0) + by
        if left:
            self.rows[row] = left
        else:
            del self.rows[row]
        if self._counts is not None:
            self._counts[row] = left

    def forget_counts(self) -> None:
        self._counts = None


class _Term(_Counted):
    """One distinct term and the pods that have it; implements `framework.OwnedTerm`."""

    __slots__ = ("key", "kind", "priority", "scheduler_name", "term", "weight")

    def __init__(self, key: _TermKey, index: TermIndex) -> None:
        super().__init__(index)
        self.key = key
        self.kind, self.weight, self.term, self.priority, self.scheduler_name = key

    @property
    def topology_key(self) -> str:
        return self.term.topology_key


class _Block(_Counted):
    """Many terms of one shape and namespace, and the pods that have them."""

    __slots__ = ("_answers", "_counting", "_keys_version", "band", "block")

    def __init__(self, block: TermBlock, band: tuple[int, str], index: TermIndex) -> None:
        super().__init__(index)
        self.block = block
        self.band = band
        self._answers: dict[bytes, list[_TermOfBlock]] = {}
        #: (classes,): whether nodes have the topology key; as of a version of the nodes' keys.
        self._counting = self._counting_classes()
        self._keys_version = index.node_keys.version

    def matching(self, pod: HashedPod) -> Sequence[_TermOfBlock]:
        """Its terms that match a pod."""
        mentioned = self.block.mentioned(pod)
        if mentioned is None:
            return ()
        keys = self._index.node_keys
        if self._keys_version != keys.version:
            self._keys_version = keys.version
            self._counting = self._counting_classes()
            self._answers.clear()
        answer = self._answers.get(mentioned)
        if answer is None:
            if len(self._answers) >= _MAX_BLOCK_ANSWERS:
                self._answers.clear()
            found = self.block.matching(pod, self._counting)
            answer = self._answers[mentioned] = [_TermOfBlock(self, each) for each in found]
        return answer

    def _counting_classes(self) -> BoolColumn:
        has = self._index.node_keys.has
        return np.array([has(key) for _, key in self.block.classes], dtype=np.bool_)


class _TermOfBlock:
    """Matching terms of a block, of one kind and topology key; implements `OwnedTerm`."""

    __slots__ = ("_of", "kind", "number", "priority", "scheduler_name", "topology_key", "weight")

    def __init__(self, of: _Block, match: ClassMatch) -> None:
        self._of = of
        (self.kind, self.topology_key), number, self.weight = match
        # Preferred terms are summed up in their weight.
        self.number = 1 if self.weight else number
        self.priority, self.scheduler_name = of.band

    @property
    def rows(self) -> Mapping[int, int]:
        """Row to number of pods, each counted with every one of the terms."""
        rows, number = self._of.rows, self.number
        return rows if number == 1 else {row: pods * number for row, pods in rows.items()}

    @property
    def counts(self) -> Int32Column:
        """(capacity,): pods per row, each counted with every one of the terms."""
        counts = self._of.counts
        return counts if self.number == 1 else counts * self.number


class _Owner:
    """What pods of one shape and namespace own."""

    __slots__ = ("pods", "terms")

    def __init__(self, terms: Sequence[_Term | _Block]) -> None:
        self.terms = terms
        self.pods = 0


@dataclass(frozen=True, slots=True)
class TermStatistics:
    """Sizes of a `TermIndex`."""

    terms: int
    """Distinct terms, those in blocks left out."""
    blocks: int
    """Shapes with very many terms."""
    block_terms: int
    bytes: int
    """Estimate of the memory held."""


class TermIndex:
    """Affinity terms of placed pods. Written by the node table only."""

    def __init__(self, capacity: int, node_keys: NodeKeys) -> None:
        self.capacity = capacity
        #: Terms about a topology that no node has are no answer.
        self.node_keys = node_keys
        self._owners: dict[_OwnerKey, _Owner] = {}
        self._terms: dict[_TermKey, _Term] = {}
        #: Terms by each namespace they list, or None where they select namespaces by label; and by
        #: the labels they need, or None: others need not be held against a pod.
        self._by_need: dict[_Need, dict[_TermKey, _Term]] = {}
        #: How many of them select namespaces by label.
        self._selecting = 0
        self._blocks: dict[_OwnerKey, _Block] = {}
        #: How many of them select namespaces by label.
        self._selecting_blocks = 0
        self._columns: OrderedDict[int, _Counted] = OrderedDict()
        self._answers: BoundedMemory[tuple[object, ...], _Answer]
        self._answers = BoundedMemory(_MAX_ANSWER_BYTES)
        #: Of the nodes' label keys, which the answers follow from.
        self._keys_version = node_keys.version

    # -- pods ------------------------------------------------------------------------------------

    def add(self, pod: Pod, row: int) -> None:
        """Count the terms of a pod on a row."""
        affinity = pod.shape.spec.affinity
        if affinity is None or not _has_terms(affinity):
            return
        key = (pod.shape, pod.metadata.namespace)
        owner = self._owners.get(key)
        if owner is None:
            owner = self._owners[key] = self._new_owner(pod, key)
        owner.pods += 1
        for term in owner.terms:
            term.change(row, 1)

    def remove(self, pod: Pod, row: int) -> None:
        """Stop counting the terms of a pod, given with the shape it was counted with."""
        if not self._owners:
            return
        key = (pod.shape, pod.metadata.namespace)
        owner = self._owners.get(key)
        if owner is None:
            return
        owner.pods -= 1
        if not owner.pods:
            del self._owners[key]
            block = self._blocks.pop(key, None)
            if block is not None:
                self._answers.clear()
                self._selecting_blocks -= block.block.selects_namespaces
        for term in owner.terms:
            term.change(row, -1)
            if term.rows:
                continue
            self._columns.pop(id(term), None)
            if isinstance(term, _Term):
                self._forget(term)

    def grow(self, capacity: int) -> None:
        """Make room for `capacity` rows."""
        self.capacity = capacity
        for term in self._columns.values():
            term.forget_counts()
        self._columns.clear()

    # -- questions -------------------------------------------------------------------------------

    @property
    def empty(self) -> bool:
        """Whether no placed pod has a term."""
        return not self._terms and not self._blocks

    def speaking_of(
        self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]
    ) -> _Answer:
        """The distinct terms that match a pod."""
        if not self._terms and not self._blocks:
            return ()
        if self._keys_version != self.node_keys.version:
            self._keys_version = self.node_keys.version
            self._answers.clear()
        # Namespace labels matter only where some term selects by them.
        selecting = self._selecting or self._selecting_blocks
        seen = labels_key(namespace_labels) if selecting else None
        key = (namespace, labels_key(labels), seen)
        answer = self._answers.get(key)
        if answer is None:
            answer = self._matching(namespace, labels, namespace_labels)
            nbytes = _BYTES_PER_ANSWER + _BYTES_PER_MATCH * len(answer)
            self._answers.put(key, answer, nbytes)
        return answer

    def anti_terms_of(
        self,
        owner: Pod,
        namespace: str,
        labels: Mapping[str, str],
        namespace_labels: Mapping[str, str],
    ) -> Mapping[str, int] | None:
        """By topology key: required anti-affinity terms of a placed pod that match another.

        None: the terms of that pod are no block.
        """
        block = self._blocks.get((owner.shape, owner.metadata.namespace))
        if block is None:
            return None
        return {
            each.topology_key: each.number
            for each in block.matching(HashedPod(namespace, labels, namespace_labels))
            if each.kind is TermKind.REQUIRED_ANTI
        }

    def _matching(
        self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]
    ) -> _Answer:
        has = self.node_keys.has
        answer: list[OwnedTerm] = [
            each
            for each in self._candidates(namespace, labels)
            if has(each.term.topology_key)
            and each.term.matches(namespace, namespace_labels, labels)
        ]
        if self._blocks:
            pod = HashedPod(namespace, labels, namespace_labels)
            for block in self._blocks.values():
                answer += block.matching(pod)
        return tuple(answer)

    def _candidates(self, namespace: str, labels: Mapping[str, str]) -> Iterator[_Term]:
        by_need = self._by_need
        for named in (namespace, None) if self._selecting else (namespace,):
            for label in (None, *labels.items()):
                found = by_need.get((named, label))
                if found is not None:
                    yield from found.values()

    def used(self, term: _Counted) -> None:
        """Remember that a column was read; the ones read longest ago are dropped."""
        columns = self._columns
        columns[id(term)] = term
        columns.move_to_end(id(term))
        if len(columns) > MAX_COLUMNS:
            columns.popitem(last=False)[1].forget_counts()

    # -- internals -------------------------------------------------------------------------------

    def _new_owner(self, pod: Pod, key: _OwnerKey) -> _Owner:
        compiled = pod.shape.pod_affinity_terms(pod.metadata.namespace)
        listed: list[tuple[TermKind, int, AffinityTerm]] = [
            *((TermKind.REQUIRED, 0, each) for each in compiled.required),
            *((TermKind.REQUIRED_ANTI, 0, each) for each in compiled.required_anti),
            *((TermKind.PREFERRED, weight, each) for weight, each in compiled.preferred),
            *((TermKind.PREFERRED_ANTI, weight, each) for weight, each in compiled.preferred_anti),
        ]
        # From the shape, which is what the pod is taken out with again.
        spec = pod.shape.spec
        band = spec.priority or 0, spec.scheduler_name
        if listed:
            self._answers.clear()
        values = sum(_values_of(term) for _, _, term in listed)
        if len(listed) > MANY_TERMS or values > MANY_VALUES:
            made = self._blocks[key] = _Block(TermBlock(listed), band, self)
            self._selecting_blocks += made.block.selects_namespaces
            return _Owner([made])
        return _Owner([self._term((*each, *band)) for each in listed])

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
            # The same term twice on one pod: forgotten with its first occurrence.
            return
        self._answers.clear()
        self._selecting -= term.term.namespace_selector is not None
        for need in _needs(term.term):
            peers = self._by_need[need]
            del peers[key]
            if not peers:
                del self._by_need[need]

    # -- inspection ------------------------------------------------------------------------------

    def statistics(self) -> TermStatistics:
        """Current sizes."""
        blocks = sum(each.block.nbytes for each in self._blocks.values())
        columns = 4 * self.capacity * len(self._columns)
        return TermStatistics(
            terms=len(self._terms),
            blocks=len(self._blocks),
            block_terms=sum(len(each.block) for each in self._blocks.values()),
            bytes=_BYTES_PER_TERM * len(self._terms) + blocks + columns + self._answers.nbytes,
        )

    def validate(self, placed: Iterable[tuple[int, Pod]]) -> Iterable[str]:
        """Every difference from a recount over (row, pod), as a sentence."""
        expected = TermIndex(self.capacity, self.node_keys)
        for row, pod in placed:
            expected.add(pod, row)
        if {key: term.rows for key, term in self._terms.items()} != {
            key: term.rows for key, term in expected._terms.items()
        }:
            yield "affinity terms differ from those of the pods placed"
        if {key: block.rows for key, block in self._blocks.items()} != {
            key: block.rows for key, block in expected._blocks.items()
        }:
            yield "blocks of affinity terms differ from those of the pods placed"
        for term in self._columns.values():
            if not term.consistent():
                yield f"{term}: the column differs from the counts"
        if {key: owner.pods for key, owner in self._owners.items()} != {
            key: owner.pods for key, owner in expected._owners.items()
        }:
            yield "owners of affinity terms differ from the pods placed"


def _needs(term: AffinityTerm) -> Iterable[_Need]:
    """Where a term is kept: a pod that it matches looks into exactly one of them."""
    namespaces = term.namespaces if term.namespace_selector is None else (None,)
    labels = term.selector.needed_labels
    return product(namespaces, (None,) if labels is None else labels)


def _values_of(term: AffinityTerm) -> int:
    """How many values and namespaces a term lists."""
    selectors = (term.selector, term.namespace_selector)
    return len(term.namespaces) + sum(
        len(each.values)
        for selector in selectors
        if selector is not None
        for each in selector.requirements
    )


def _has_terms(affinity: Affinity) -> bool:
    return affinity.pod_affinity is not None or affinity.pod_anti_affinity is not None
