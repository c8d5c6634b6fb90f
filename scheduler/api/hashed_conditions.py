"""Conditions: thousands of selectors matched with one set of labels in one pass.

Labels and label keys are compared by 64-bit hashes. Python seeds them per process, so a collision
cannot be provoked, and by chance none is to be expected in the life of a cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.api.selectors import (
    DOES_NOT_EXIST,
    EXISTS,
    IN,
    NOT_IN,
    CompiledLabelSelector,
    Requirement,
)

_OPERATORS: Final = {IN: 0, NOT_IN: 1, EXISTS: 2, DOES_NOT_EXIST: 3}
_BoolColumn = NDArray[np.bool_]


class HashedLabels:
    """Sorted int64 hashes of the keys and of the (key, value) pairs of labels."""

    __slots__ = ("items", "keys")

    def __init__(self, labels: Mapping[str, str]) -> None:
        self.keys = np.sort(_hashes(labels))
        self.items = np.sort(_hashes(labels.items()))


@dataclass(frozen=True, slots=True, eq=False)
class Conditions:
    """Requirements of many terms on one set of labels; a term without any accepts everything.

    `keys` and `values` are sorted by hash; the other arrays are parallel to one of them.
    """

    count: int
    """Number of terms, including those without requirements."""
    keys: NDArray[np.int64]
    """(requirements,): hash of the key."""
    terms: NDArray[np.int32]
    """(requirements,): number of the term."""
    operators: NDArray[np.int8]
    """(requirements,): index into `_OPERATORS`."""
    values: NDArray[np.int64]
    """(values,): hash of (key, value), of all requirements."""
    of_value: NDArray[np.int32]
    """(values,): index of the requirement that lists the value."""

    @classmethod
    def of(cls, count: int, selectors: Iterable[tuple[int, CompiledLabelSelector]]) -> Conditions:
        """Build the conditions of `count` terms from (number of the term, selector)."""
        listed: list[tuple[int, Requirement]] = [
            (term, each) for term, selector in selectors for each in selector.requirements
        ]
        keys = np.array([hash(each.key) for _, each in listed], dtype=np.int64)
        by_key = np.argsort(keys, kind="stable")
        listed = [listed[index] for index in by_key.tolist()]
        sizes = [len(each.values) for _, each in listed]
        values = np.fromiter(
            (hash((each.key, value)) for _, each in listed for value in each.values),
            dtype=np.int64,
            count=sum(sizes),
        )
        by_value = np.argsort(values, kind="stable")
        return cls(
            count=count,
            keys=keys[by_key],
            terms=np.array([term for term, _ in listed], dtype=np.int32),
            operators=np.array([_OPERATORS[each.operator] for _, each in listed], np.int8),
            values=values[by_value],
            of_value=np.repeat(np.arange(len(listed), dtype=np.int32), sizes)[by_value],
        )

    @classmethod
    def joined(cls, parts: Sequence[Conditions]) -> Conditions:
        """Concatenate parts; terms are numbered one part after the other."""
        keys = np.concatenate([each.keys for each in parts])
        by_key = np.argsort(keys, kind="stable")
        # Position of each requirement after sorting.
        place = np.empty(len(keys), dtype=np.int32)
        place[by_key] = np.arange(len(keys), dtype=np.int32)
        values = np.concatenate([each.values for each in parts])
        by_value = np.argsort(values, kind="stable")
        of_value = consecutive([each.of_value for each in parts], map(len, parts))
        return cls(
            count=sum(each.count for each in parts),
            keys=keys[by_key],
            terms=consecutive([each.terms for each in parts], [each.count for each in parts])[
                by_key
            ],
            operators=np.concatenate([each.operators for each in parts])[by_key],
            values=values[by_value],
            of_value=place[of_value[by_value]],
        )

    def of_terms(self, kept: _BoolColumn) -> Conditions:
        """Return the conditions of the terms in the mask `kept`, renumbered."""
        keep = kept[self.terms]
        keep_value = keep[self.of_value]
        return Conditions(
            count=int(kept.sum()),
            keys=self.keys[keep],
            terms=renumbered(kept)[self.terms[keep]],
            operators=self.operators[keep],
            values=self.values[keep_value],
            of_value=renumbered(keep)[self.of_value[keep_value]],
        )

    def __len__(self) -> int:
        return len(self.terms)

    def cache_key(self, labels: HashedLabels) -> bytes:
        """Return the hashes of labels that conditions mention: equal keys have equal `hold`."""
        if not len(self.terms):
            return b""
        keys = labels.keys[_among(labels.keys, self.keys)]
        items = labels.items[_among(labels.items, self.values)]
        return keys.tobytes() + b"|" + items.tobytes()

    def hold(self, labels: HashedLabels) -> _BoolColumn:
        """Return (count,): whether all requirements of a term accept the labels."""
        holds: _BoolColumn = np.ones(self.count, dtype=np.bool_)
        if not len(self.terms):
            return holds
        present = _among(self.keys, labels.keys)
        listed = np.zeros(len(self.terms), dtype=np.bool_)
        listed[self.of_value[_among(self.values, labels.items)]] = True
        accepted = np.choose(self.operators, (listed, ~listed, present, ~present))
        holds[self.terms[~accepted]] = False
        return holds

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        arrays = (self.terms, self.operators, self.keys, self.of_value, self.values)
        return sum(each.nbytes for each in arrays)


def _among(values: NDArray[np.int64], known: NDArray[np.int64]) -> _BoolColumn:
    """Return (len(values),): whether each value is in the sorted array `known`."""
    if not len(known):
        return np.zeros(len(values), dtype=np.bool_)
    positions = np.searchsorted(known, values)
    positions[positions == len(known)] = 0
    found: _BoolColumn = known[positions] == values
    return found


def consecutive(numbers: Sequence[NDArray[np.int32]], sizes: Iterable[int]) -> NDArray[np.int32]:
    """Concatenate numbers that start at 0 in each part, offset by the `sizes` before it."""
    first = np.cumsum([0, *sizes], dtype=np.int32)
    moved = [part + start for part, start in zip(numbers, first[:-1], strict=True)]
    return np.concatenate(moved)


def renumbered(kept: _BoolColumn) -> NDArray[np.int32]:
    """Return the new number of each element in the mask `kept`."""
    numbers: NDArray[np.int32] = np.cumsum(kept, dtype=np.int32) - np.int32(1)
    return numbers


def _hashes(values: Iterable[object]) -> NDArray[np.int64]:
    return np.fromiter(map(hash, values), dtype=np.int64)
