"""TermBlocks: affinity terms that are too many to be matched one by one.

2,500 pods with 64 terms each may all select every pod of the cluster; matching and counting them
one by one takes seconds. Here a few thousand terms of many owners form one block of arrays. A block
caches its matches per kind of pod until an owner is added or removed, and the counts of all blocks
are summed per kind of term and topology key.

An owner stands for identical pods: their common terms, priority and schedulerName.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.api.bounded_cache import BoundedCache
from scheduler.cache.label_columns import LabelColumns
from scheduler.cache.term_block import ClassMatch, HashedPod, TermBlock, TermClass
from scheduler.framework.nodes import BoolColumn, Int64Column, PotentialVictims, TermKind

MAX_BLOCK_TERMS: Final = 4096
"""Maximum terms of a block with several owners; adding or removing an owner matches all again."""
MAX_BLOCK_OWNERS: Final = 256
"""Maximum owners of a block; the cost of rebuilding it grows with their number."""

_MAX_CACHE_BYTES: Final = 256 << 10
"""Bytes of cached matches per block."""
_BYTES_PER_RESULT: Final = 300
_BYTES_PER_MATCH: Final = 200
_BYTES_PER_OWNER: Final = 400
_MIN_ENTRIES: Final = 1024
"""Entries of the same owner and row are merged only from this number of entries on."""

_Entries = NDArray[np.int32]
"""(3, n): owner, row, and the change of its number of pods."""

NO_TERMS: Final = TermBlock.of(())


class BlockOwner:
    """An owner whose terms are in a block."""

    __slots__ = ("block", "number", "priority", "scheduler_name", "selects_namespaces")

    def __init__(self, terms: TermBlock, band: tuple[int, str], block: _Block) -> None:
        self.priority, self.scheduler_name = band
        self.selects_namespaces = terms.selects_namespaces
        self.block = block
        #: Its number in the block.
        self.number = len(block.owners)

    def change(self, row: int, by: int) -> None:
        """Add `by` to the owner's pods on a row."""
        self.block.change(self.number, row, by)


class _Block:
    """Terms of some owners, and the rows of their pods."""

    __slots__ = (
        "_counting", "_entries", "_index", "_keys_version", "_matches", "_merge_at", "_pending",
        "owners", "terms",
    )  # fmt: skip

    def __init__(self, index: TermBlocks) -> None:
        self._index = index
        self.owners: list[BlockOwner] = []
        self.terms = NO_TERMS
        #: (classes,): whether any node has the topology key, as of `_keys_version`.
        self._counting: BoolColumn | None = None
        self._keys_version = -1
        self._matches: BoundedCache[bytes, list[ClassMatch]] = BoundedCache(_MAX_CACHE_BYTES)
        self._entries: _Entries = np.zeros((3, 0), dtype=np.int32)
        #: Entries to be appended to `_entries`.
        self._pending: list[tuple[int, int, int]] = []
        self._merge_at = _MIN_ENTRIES

    # -- owners ----------------------------------------------------------------------------------

    def has_room(self, terms: int) -> bool:
        return len(self.owners) < MAX_BLOCK_OWNERS and len(self.terms) + terms <= MAX_BLOCK_TERMS

    def join(self, owner: BlockOwner, terms: TermBlock) -> None:
        self.terms = self.terms.joined(terms) if self.owners else terms
        self.owners.append(owner)
        self._changed()

    def leave(self, owner: BlockOwner) -> None:
        """Remove an owner without pods."""
        self._merge()
        number = owner.number
        self._entries[0][self._entries[0] > number] -= 1
        self.terms = self.terms.without(number)
        del self.owners[number]
        for each in self.owners[number:]:
            each.number -= 1
        self._changed()

    def _changed(self) -> None:
        self._matches.clear()
        self._counting = None

    # -- pods ------------------------------------------------------------------------------------

    def change(self, owner: int, row: int, by: int) -> None:
        self._pending.append((owner, row, by))
        self._index.version += 1

    def entries(self) -> _Entries:
        """Return the entries; the reader must sum those of the same owner and row."""
        if self._pending:
            pending = np.array(self._pending, dtype=np.int32).T
            self._pending.clear()
            self._entries = np.concatenate([self._entries, pending], axis=1)
            if self._entries.shape[1] > self._merge_at:
                self._merge()
                self._merge_at = max(_MIN_ENTRIES, 2 * self._entries.shape[1])
        return self._entries

    def _merge(self) -> None:
        owner, row, pods = self.entries() if self._pending else self._entries
        found, position = np.unique((owner.astype(np.int64) << 32) | row, return_inverse=True)
        left = np.bincount(position, pods, len(found)).astype(np.int32)
        found, left = found[left != 0], left[left != 0]
        self._entries = np.stack(
            [(found >> 32).astype(np.int32), (found & 0xFFFFFFFF).astype(np.int32), left]
        )

    def pods(self) -> dict[tuple[int, int], int]:
        """Return the number of pods by (owner, row), without zeros."""
        self._merge()
        return {(owner, row): pods for owner, row, pods in self._entries.T.tolist()}

    # -- terms -----------------------------------------------------------------------------------

    def matching(self, pod: HashedPod) -> Sequence[ClassMatch]:
        """Return, per kind and topology key, the matching terms of each owner."""
        terms = self.terms
        key = terms.cache_key(pod)
        if key is None:
            return ()
        keys = self._index.node_keys
        if self._keys_version != keys.version:
            self._keys_version = keys.version
            self._changed()
        found = self._matches.get(key)
        if found is None:
            if self._counting is None:
                counting = [keys.has(topology) for _, topology in terms.classes]
                self._counting = np.array(counting, dtype=np.bool_)
            found = terms.matching(pod, self._counting)
            nbytes = _BYTES_PER_RESULT + len(key)
            nbytes += sum(_BYTES_PER_MATCH + each.nbytes for _, each in found)
            self._matches.put(key, found, nbytes)
        return found

    @property
    def nbytes(self) -> int:
        owners = _BYTES_PER_OWNER * len(self.owners)
        return owners + self.terms.nbytes + self._matches.nbytes + self._entries.nbytes


class TermsOfBlocks:
    """Matching terms of one kind and topology key together; implements `ExistingPodTerm`.

    A pod counts once for each of its terms, preferred terms with their weights.
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
        """(capacity,): pods per row, each times the amount of its terms; read only."""
        if self._counts is None or self._version != self._index.version:
            self._version = self._index.version
            rows, amounts = [], []
            for block, per_owner in self._parts:
                owner, row, pods = block.entries()
                rows.append(row)
                amounts.append(pods * per_owner[owner])
            capacity = self._index.capacity
            # bincount sums in float64, which is exact up to 2**53.
            sums = np.bincount(np.concatenate(rows), np.concatenate(amounts), capacity)
            self._counts = sums.astype(np.int64)
        return self._counts

    @property
    def rows(self) -> Mapping[int, int]:
        """`counts` by row, without zeros."""
        counts = self.counts
        found = np.flatnonzero(counts)
        return dict(zip(found.tolist(), counts[found].tolist(), strict=True))

    @property
    def row_count(self) -> int:
        """An upper bound of the number of rows."""
        return sum(block.entries().shape[1] for block, _ in self._parts)

    @property
    def nbytes(self) -> int:
        """Estimate of the memory held, the column included."""
        owners = sum(8 * len(per_owner) for _, per_owner in self._parts)
        return _BYTES_PER_RESULT + owners + 8 * self._index.capacity


class TermBlocks:
    """All blocks, and the matches over them."""

    def __init__(self, capacity: int, node_keys: LabelColumns) -> None:
        self.capacity = capacity
        #: Terms with a topology key that no node has never match.
        self.node_keys = node_keys
        #: Incremented whenever a pod is added or removed.
        self.version = 0
        self._blocks: list[_Block] = []
        #: Owners with terms that select namespaces by label.
        self._selecting = 0

    @property
    def selects_namespaces(self) -> bool:
        """Whether a match depends on the labels of the pod's namespace."""
        return self._selecting > 0

    def add(self, terms: TermBlock, band: tuple[int, str]) -> BlockOwner:
        """Add an owner, without pods."""
        block = next((each for each in self._blocks if each.has_room(len(terms))), None)
        if block is None:
            block = _Block(self)
            self._blocks.append(block)
        owner = BlockOwner(terms, band, block)
        block.join(owner, terms)
        self._selecting += owner.selects_namespaces
        return owner

    def remove(self, owner: BlockOwner) -> None:
        """Remove an owner without pods."""
        owner.block.leave(owner)
        self._selecting -= owner.selects_namespaces
        if not owner.block.owners:
            self._blocks.remove(owner.block)

    def grow(self, capacity: int) -> None:
        """Make room for `capacity` rows."""
        self.capacity = capacity
        self.version += 1

    def matching(self, pod: HashedPod, among: PotentialVictims | None) -> list[TermsOfBlocks]:
        """Return the terms that match a pod; with `among` only those of potential victims."""
        parts: dict[TermClass, list[tuple[_Block, Int64Column]]] = {}
        for block in self._blocks:
            found = block.matching(pod)
            included: Int64Column | None = None
            if among is not None and found:
                bands = [(each.priority, each.scheduler_name) for each in block.owners]
                included = np.array([among.includes(*band) for band in bands], dtype=np.int64)
            for of_class, per_owner in found:
                amounts = per_owner if included is None else per_owner * included
                if included is None or amounts.any():
                    parts.setdefault(of_class, []).append((block, amounts))
        return [TermsOfBlocks(of_class, each, self) for of_class, each in parts.items()]

    def anti_terms_of(self, owner: BlockOwner, pod: HashedPod) -> Mapping[str, int]:
        """Count required anti-affinity terms of an owner that match a pod, by topology key."""
        found = {
            key: int(per_owner[owner.number])
            for (kind, key), per_owner in owner.block.matching(pod)
            if kind is TermKind.REQUIRED_ANTI
        }
        return {key: number for key, number in found.items() if number}

    def validate(self, placed: Mapping[BlockOwner, Mapping[int, int]]) -> Iterable[str]:
        """Yield a sentence for every difference from the rows of the owners' pods."""
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
