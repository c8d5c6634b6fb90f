"""Label sets, interned: one small integer for each distinct set of labels in use.

Invariant: an id stands for the same labels as long as anybody holds a reference to it, and for
nothing afterwards until it is given out again. Freed ids are given out first, so that ids stay
small and can index arrays.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from scheduler.api.packed_labels import PackedLabels, digest_of

_encode: Final = msgspec.msgpack.Encoder(order="deterministic").encode


MAX_PLAIN_LABELS: Final = 64
"""A pod may have 50,000 labels. More than so many are packed, and a key of them is a digest."""


def labels_key(labels: Mapping[str, str]) -> Hashable:
    """Equal for equal labels, in whatever order, and small: to be kept as part of a key."""
    if len(labels) <= MAX_PLAIN_LABELS:
        return frozenset(labels.items())
    return labels.digest if isinstance(labels, PackedLabels) else digest_of(labels)


class UnbalancedReleaseError(RuntimeError):
    """Something was released more often than it was taken; a bug of the caller."""


@dataclass(frozen=True, slots=True)
class LabelSetStatistics:
    """A moment's view of `LabelSets`."""

    sets: int
    """Distinct label sets in use."""
    references: int
    """References to them."""
    capacity: int
    """One more than the largest id ever in use: the size of an array indexed by id."""
    bytes: int
    """Estimate of the memory held."""
    hits: int
    misses: int


class LabelSets:
    """Reference-counted ids for label sets. Touched from one event loop only."""

    __slots__ = ("_bytes", "_free", "_hits", "_ids", "_keys", "_labels", "_misses", "_references")

    def __init__(self) -> None:
        """Start with no set at all; even the empty set gets an id only when asked for."""
        self._ids: dict[bytes, int] = {}
        self._keys: list[bytes] = []
        self._labels: list[dict[str, str] | None] = []
        self._references: list[int] = []
        self._free: list[int] = []
        self._bytes = 0
        self._hits = 0
        self._misses = 0

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def capacity(self) -> int:
        """One more than the largest id ever given out."""
        return len(self._labels)

    def intern(self, labels: dict[str, str]) -> int:
        """The id of a label set; takes one reference. Keeps the dict: leave it as it is."""
        key = _encode(labels)
        found = self._ids.get(key)
        if found is not None:
            self._hits += 1
            self._references[found] += 1
            return found
        self._misses += 1
        return self._add(key, labels)

    def find(self, labels: Mapping[str, str]) -> int | None:
        """The id of a label set in use, None when nobody holds it; takes no reference."""
        return self._ids.get(_encode(labels))

    def labels(self, label_set: int) -> dict[str, str]:
        """The labels of an id in use: one shared dict, to be read only. KeyError for other ids."""
        found = self._labels[label_set] if 0 <= label_set < len(self._labels) else None
        if found is None:
            msg = f"label set {label_set} is not in use"
            raise KeyError(msg)
        return found

    def acquire(self, label_set: int) -> None:
        """Take one more reference to an id in use. KeyError for other ids."""
        self.labels(label_set)
        self._references[label_set] += 1

    def release(self, label_set: int) -> bool:
        """Give one reference back; True when it was the last, so that the id is free again."""
        if not 0 <= label_set < len(self._references) or not self._references[label_set]:
            msg = f"label set {label_set} was released more often than it was interned"
            raise UnbalancedReleaseError(msg)
        self._references[label_set] -= 1
        if self._references[label_set]:
            return False
        self._bytes -= _size(self._keys[label_set])
        del self._ids[self._keys[label_set]]
        self._keys[label_set] = b""
        self._labels[label_set] = None
        self._free.append(label_set)
        return True

    def statistics(self) -> LabelSetStatistics:
        """Counts and sizes; walks over all ids."""
        return LabelSetStatistics(
            sets=len(self._ids),
            references=sum(self._references),
            capacity=self.capacity,
            bytes=self._bytes,
            hits=self._hits,
            misses=self._misses,
        )

    def _add(self, key: bytes, labels: dict[str, str]) -> int:
        self._bytes += _size(key)
        if self._free:
            label_set = self._free.pop()
            self._keys[label_set] = key
            self._labels[label_set] = labels
            self._references[label_set] = 1
        else:
            label_set = len(self._labels)
            self._keys.append(key)
            self._labels.append(labels)
            self._references.append(1)
        self._ids[key] = label_set
        return label_set


def _size(key: bytes) -> int:
    # The dict and its strings weigh several times the packed text; measured, not exact.
    return sys.getsizeof(key) * 5 + 400
