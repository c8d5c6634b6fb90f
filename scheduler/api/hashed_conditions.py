"""Conditions: thousands of selectors held against one set of labels in one pass.

Labels and label keys are compared by their 64-bit hashes, which Python seeds anew in each process:
that two of them collide by chance does not happen in the life of a cluster, and nobody can bring it
about.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
    """Labels as conditions see them: hashes of the keys and of the (key, value) pairs, sorted."""

    __slots__ = ("items", "keys")

    def __init__(self, labels: Mapping[str, str]) -> None:
        self.keys = np.sort(_hashes(labels))
        self.items = np.sort(_hashes(labels.items()))


class Conditions:
    """Requirements of many terms on one set of labels; what has none accepts everything.

    Keys and values are sorted by hash, each with the terms or requirements they belong to.
    """

    __slots__ = ("_count", "_keys", "_of_value", "_operators", "_terms", "_values")

    def __init__(self, count: int, selectors: Iterable[tuple[int, CompiledLabelSelector]]) -> None:
        """`selectors` by number of their term, of `count` terms."""
        listed: list[tuple[int, Requirement]] = [
            (term, each) for term, selector in selectors for each in selector.requirements
        ]
        self._count = count
        keys = np.array([hash(each.key) for _, each in listed], dtype=np.int64)
        by_key = np.argsort(keys, kind="stable")
        listed = [listed[index] for index in by_key.tolist()]
        self._keys = keys[by_key]
        self._terms = np.array([term for term, _ in listed], dtype=np.int32)
        self._operators = np.array([_OPERATORS[each.operator] for _, each in listed], np.int8)
        sizes = [len(each.values) for _, each in listed]
        values = np.fromiter(
            (hash((each.key, value)) for _, each in listed for value in each.values),
            dtype=np.int64,
            count=sum(sizes),
        )
        by_value = np.argsort(values, kind="stable")
        self._values = values[by_value]
        self._of_value = np.repeat(np.arange(len(listed), dtype=np.int32), sizes)[by_value]

    def __len__(self) -> int:
        return len(self._terms)

    def mentioned(self, labels: HashedLabels) -> bytes:
        """What of the labels matters here: equal for labels that `hold` answers alike."""
        if not len(self._terms):
            return b""
        keys = labels.keys[_among(labels.keys, self._keys)]
        items = labels.items[_among(labels.items, self._values)]
        return keys.tobytes() + b"|" + items.tobytes()

    def hold(self, labels: HashedLabels) -> _BoolColumn:
        """(count,): whether all requirements of a term accept the labels."""
        holds: _BoolColumn = np.ones(self._count, dtype=np.bool_)
        if not len(self._terms):
            return holds
        present = _among(self._keys, labels.keys)
        listed = np.zeros(len(self._terms), dtype=np.bool_)
        listed[self._of_value[_among(self._values, labels.items)]] = True
        accepted = np.choose(self._operators, (listed, ~listed, present, ~present))
        holds[self._terms[~accepted]] = False
        return holds

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        arrays = (self._terms, self._operators, self._keys, self._of_value, self._values)
        return sum(each.nbytes for each in arrays)


def _among(values: NDArray[np.int64], known: NDArray[np.int64]) -> _BoolColumn:
    """Which of `values` are in `known`, which is sorted; of these, either may be the many."""
    if not len(known):
        return np.zeros(len(values), dtype=np.bool_)
    places = np.searchsorted(known, values)
    places[places == len(known)] = 0
    found: _BoolColumn = known[places] == values
    return found


def _hashes(values: Iterable[object]) -> NDArray[np.int64]:
    return np.fromiter(map(hash, values), dtype=np.int64)
