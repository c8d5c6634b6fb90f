"""TermBlocks: the affinity terms of owners that have very many, or very many others like them.

2,500 pods with 64 terms each may all be about every pod of the cluster. Held against a pod one by
one, and counted one by one, they take seconds. Here a few thousand terms of many owners make one
block of arrays; a block remembers what it answered to a kind of pods until one of its owners comes
or goes, and what all blocks say is added up per kind of term and topology key.

An owner is what identical pods share: their terms, priority and schedulerName.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from scheduler.api.bounded_cache import BoundedCache
from scheduler.cache.term_block import ClassMatch, HashedPod, TermBlock, TermClass
from scheduler.framework.nodes import BoolColumn, Int64Column, PotentialVictims, TermKind

MAX_BLOCK_TERMS: Final = 4096
"""Terms of a block with several owners: all are looked at again when one of these comes or goes."""
MAX_BLOCK_OWNERS: Final = 256
"""What it takes to put a block together again grows with them."""

_MAX_ANSWER_BYTES: Final = 256 << 10
"""Of what a block remembers."""
_BYTES_PER_ANSWER: Final = 300
_BYTES_PER_MATCH: Final = 200
_BYTES_PER_OWNER: Final = 400
_MIN_ENTRIES: Final = 1024
"""Entries below which it is not worth adding up those of the same owner and row."""

_Entries = NDArray[np.int32]
"""(3, n): owner, row, and pods more or less there."""


NO_TERMS: Final = TermBlock.of(())


class NodeKeys(Protocol):
    """The label keys that nodes have."""

    @property
    def version(self) -> int:
        """Another whenever a key came or went."""
        ...

    def has(self, key: str) -> bool:
        """Whether some node has a key."""
        ...


class BlockOwner:
    """An owner whose terms are in a block."""

    __slots__ = ("block", "number", "priority", "scheduler_name", "selects_namespaces")

    def __init__(self, terms: TermBlock, band: tuple[int, str], block: _Block) -> None:
        self.priority, self.scheduler_name = band
        self.selects_namespaces = terms.selects_namespaces
        self.block = block
        #: Its place in the block.
        self.number = len(block.owners)

    def change(self, row: int, by: int) -> None:
        """Pods of this owner came to a row, or left it."""
        self.block.change(self.number, row, by)


class _Block:
    """Terms of some owners, and where the pods of these are."""

    __slots__ = (
        "_answers", "_arrived", "_counting", "_entries", "_index", "_keys_version",
        "_worth_adding_up", "owners", "terms",
    )  # fmt: skip

    def __init__(self, index: TermBlocks) -> None:
        self._index = index
        self.owners: list[BlockOwner] = []
        self.terms = NO_TERMS
        #: (classes,): whether nodes have the topology key; as of a version of the nodes' keys.
        self._counting: BoolColumn | None = None
        self._keys_version = -1
        self._answers: BoundedCache[bytes, list[ClassMatch]] = BoundedCache(_MAX_ANSWER_BYTES)
        self._entries: _Entries = np.zeros((3, 0), dtype=np.int32)
        #: What is not in `_entries` yet.
        self._arrived: list[tuple[int, int, int]] = []
        self._worth_adding_up = _MIN_ENTRIES

    # -- owners ----------------------------------------------------------------------------------

    def has_room(self, terms: int) -> bool:
        return len(self.owners) < MAX_BLOCK_OWNERS and len(self.terms) + terms <= MAX_BLOCK_TERMS

    def join(self, owner: BlockOwner, terms: TermBlock) -> None:
        self.terms = self.terms.joined(terms) if self.owners else terms
        self.owners.append(owner)
        self._changed()

    def leave(self, owner: BlockOwner) -> None:
        """Forget an owner without pods."""
        self._add_up()
        number = owner.number
        self._entries[0][self._entries[0] > number] -= 1
        self.terms = self.terms.without(number)
        del self.owners[number]
        for each in self.owners[number:]:
            each.number -= 1
        self._changed()

    def _changed(self) -> None:
        self._answers.clear()
        self._counting = None

    # -- pods ------------------------------------------------------------------------------------

    def change(self, owner: int, row: int, by: int) -> None:
        self._arrived.append((owner, row, by))
        self._index.version += 1

    def entries(self) -> _Entries:
        """Where the pods are; several entries of one owner and row add up."""
        if self._arrived:
            arrived = np.array(self._arrived, dtype=np.int32).T
            self._arrived.clear()
            self._entries = np.concatenate([self._entries, arrived], axis=1)
            if self._entries.shape[1] > self._worth_adding_up:
                self._add_up()
                self._worth_adding_up = max(_MIN_ENTRIES, 2 * self._entries.shape[1])
        return self._entries

    def _add_up(self) -> None:
        owner, row, pods = self.entries() if self._arrived else self._entries
        found, place = np.unique((owner.astype(np.int64) << 32) | row, return_inverse=True)
        left = np.bincount(place, pods, len(found)).astype(np.int32)
        found, left = found[left != 0], left[left != 0]
        self._entries = np.stack(
            [(found >> 32).astype(np.int32), (found & 0xFFFFFFFF).astype(np.int32), left]
        )

    def pods(self) -> dict[tuple[int, int], int]:
        """By owner and row, without zeros."""
        self._add_up()
        return {(owner, row): pods for owner, row, pods in self._entries.T.tolist()}

    # -- terms -----------------------------------------------------------------------------------

    def matching(self, pod: HashedPod) -> Sequence[ClassMatch]:
        """Per kind and topology key, what of each owner's terms matches a pod."""
        terms = self.terms
        mentioned = terms.mentioned(pod)
        if mentioned is None:
            return ()
        keys = self._index.node_keys
        if self._keys_version != keys.version:
            self._keys_version = keys.version
            self._changed()
        answer = self._answers.get(mentioned)
        if answer is None:
            if self._counting is None:
                counting = [keys.has(key) for _, key in terms.classes]
                self._counting = np.array(counting, dtype=np.bool_)
            answer = terms.matching(pod, self._counting)
            nbytes = _BYTES_PER_ANSWER + len(mentioned)
            nbytes += sum(_BYTES_PER_MATCH + each.nbytes for _, each in answer)
            self._answers.put(mentioned, answer, nbytes)
        return answer

    @property
    def nbytes(self) -> int:
        owners = _BYTES_PER_OWNER * len(self.owners)
        return owners + self.terms.nbytes + self._answers.nbytes + self._entries.nbytes


class TermsOfBlocks:
    """Matching terms of one kind and topology key, of any number of owners; an `ExistingPodTerm`.

    A pod counts once for each of its terms, with the weights of preferred ones.
    """

    __slots__ = ("_counts", "_index", "_parts", "_version", "kind", "topology_key", "weight")

    def __init__(
        self, of_class: TermClass, parts: Sequence[tuple[_Block, Int64Column]], index: TermBlocks
    ) -> None:
        self.kind, self.topology_key = of_class
        self.weight = 1 if self.kind in (TermKind.PREFERRED, TermKind.PREFERRED_ANTI) else 0
        self._parts = parts
        self._index = index
        self._counts: Int64Column | None = None
        self._version = -1

    @property
    def counts(self) -> Int64Column:
        """(capacity,): pods per row, each with the amount of its terms; to be read only."""
        if self._counts is None or self._version != self._index.version:
            self._version = self._index.version
            self._counts = self._added_up()
        return self._counts

    @property
    def rows(self) -> Mapping[int, int]:
        """As `counts`, by row and without zeros."""
        counts = self.counts
        found = np.flatnonzero(counts)
        return dict(zip(found.tolist(), counts[found].tolist(), strict=True))

    @property
    def row_count(self) -> int:
        """How many rows there are at most."""
        return sum(block.entries().shape[1] for block, _ in self._parts)

    def _added_up(self) -> Int64Column:
        rows, amounts = [], []
        for block, per_owner in self._parts:
            owner, row, pods = block.entries()
            rows.append(row)
            amounts.append(pods * per_owner[owner])
        capacity = self._index.capacity
        # float64 is exact up to 2**53.
        added = np.bincount(np.concatenate(rows), np.concatenate(amounts), capacity)
        counts: Int64Column = added.astype(np.int64)
        return counts

    @property
    def nbytes(self) -> int:
        """Estimate of the memory held, the column included."""
        owners = sum(8 * len(per_owner) for _, per_owner in self._parts)
        return _BYTES_PER_ANSWER + owners + 8 * self._index.capacity


class TermBlocks:
    """All blocks."""

    __slots__ = ("_blocks", "_selecting", "capacity", "node_keys", "version")

    def __init__(self, capacity: int, node_keys: NodeKeys) -> None:
        self.capacity = capacity
        #: Terms about a topology that no node has are no answer.
        self.node_keys = node_keys
        #: Grows whenever a pod comes or goes.
        self.version = 0
        self._blocks: list[_Block] = []
        #: Owners with terms that select namespaces by label.
        self._selecting = 0

    @property
    def selects_namespaces(self) -> bool:
        """Whether an answer depends on the labels of the pod's namespace."""
        return self._selecting > 0

    def add(self, terms: TermBlock, band: tuple[int, str]) -> BlockOwner:
        """Take in an owner, without pods."""
        block = next((each for each in self._blocks if each.has_room(len(terms))), None)
        if block is None:
            block = _Block(self)
            self._blocks.append(block)
        owner = BlockOwner(terms, band, block)
        block.join(owner, terms)
        self._selecting += owner.selects_namespaces
        return owner

    def remove(self, owner: BlockOwner) -> None:
        """Forget an owner whose pods are gone."""
        owner.block.leave(owner)
        self._selecting -= owner.selects_namespaces
        if not owner.block.owners:
            self._blocks.remove(owner.block)

    def grow(self, capacity: int) -> None:
        """Make room for `capacity` rows."""
        self.capacity = capacity
        self.version += 1

    def matching(self, pod: HashedPod, among: PotentialVictims | None) -> list[TermsOfBlocks]:
        """The terms that match a pod; of some owners, or of all."""
        parts: dict[TermClass, list[tuple[_Block, Int64Column]]] = {}
        for block in self._blocks:
            found = block.matching(pod)
            included = None if among is None or not found else _included(block.owners, among)
            for of_class, per_owner in found:
                amounts = per_owner if included is None else per_owner * included
                if included is None or amounts.any():
                    parts.setdefault(of_class, []).append((block, amounts))
        return [TermsOfBlocks(of_class, each, self) for of_class, each in parts.items()]

    def anti_terms_of(self, owner: BlockOwner, pod: HashedPod) -> Mapping[str, int]:
        """By topology key: required anti-affinity terms of an owner that match a pod."""
        found = {
            key: int(per_owner[owner.number])
            for (kind, key), per_owner in owner.block.matching(pod)
            if kind is TermKind.REQUIRED_ANTI
        }
        return {key: number for key, number in found.items() if number}

    def validate(self, placed: Mapping[BlockOwner, Mapping[int, int]]) -> Iterable[str]:
        """Every difference from the rows that the owners' pods are on, as a sentence."""
        counted: dict[BlockOwner, dict[int, int]] = {}
        for block in self._blocks:
            for (number, row), pods in block.pods().items():
                counted.setdefault(block.owners[number], {})[row] = pods
        if counted != placed:
            yield "blocks of affinity terms differ from those of the pods placed"

    def __len__(self) -> int:
        return len(self._blocks)

    @property
    def terms(self) -> int:
        """Number of terms."""
        return sum(len(each.terms) for each in self._blocks)

    @property
    def nbytes(self) -> int:
        """Estimate of the memory held."""
        return sum(each.nbytes for each in self._blocks)


def _included(owners: Iterable[BlockOwner], among: PotentialVictims) -> Int64Column:
    """(owners,): 1 for those that are among the removable, else 0."""
    return np.array(
        [among.includes(each.priority, each.scheduler_name) for each in owners], dtype=np.int64
    )
