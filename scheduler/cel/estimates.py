"""Estimates of sizes and costs, as an API server makes them before it stores an expression.

They are upper bounds for any device: of sizes both ends of the range are known, of costs the upper
one, which the limit is compared with. Arithmetic is that of 64-bit numbers that do not overflow.
Source: cel-go `checker/cost.go` (v0.29), with the estimators of `ext/lists.go` and `ext/sets.go`,
and `pkg/cel/library/cost.go` of k8s.io/apiserver v0.37.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from scheduler.cel.types import BOOL, DOUBLE, DURATION, INT, TIMESTAMP, UINT, Type

MAX: Final = 2**64 - 1
"""The largest number, which stands for everything above it too."""


class Size(NamedTuple):
    """Range of characters of a string, bytes, elements of a list, or entries of a map."""

    least: int
    most: int

    def plus(self, other: Size) -> Size:
        """Return the size of both together."""
        return Size(min(MAX, self.least + other.least), min(MAX, self.most + other.most))

    def times(self, other: Size) -> Size:
        """Return the product: as many times `other` as this size says."""
        return Size(min(MAX, self.least * other.least), min(MAX, self.most * other.most))

    def union(self, other: Size) -> Size:
        """Return the range that has both."""
        return Size(min(self.least, other.least), max(self.most, other.most))

    def cost(self, factor: float) -> int:
        """Return the cost at most if each unit of the size costs so much."""
        return scaled(self.most, factor)


UNKNOWN: Final = Size(0, MAX)


def exactly(number: int) -> Size:
    """Return the range of one size."""
    return Size(number, number)


ONE: Final = exactly(1)


def scaled(number: int, factor: float) -> int:
    """Return the product, rounded up as a 64-bit floating-point number."""
    return min(MAX, math.ceil(number * factor))


@dataclass(frozen=True, slots=True, eq=False)
class Bound:
    """The size at most of a part of a variable, with those of its parts."""

    most: int = 0
    fields: Mapping[str, Bound] = field(default_factory=dict)
    key: Bound | None = None
    element: Bound | None = None
    #: Whether fields of a map that are not known have the bound of its elements.
    is_open: bool = False

    def named(self, name: str) -> Bound | None:
        """Return the bound of a field."""
        return self.fields.get(name, self.element if self.is_open else None)


class Entries(NamedTuple):
    """Sizes of the keys and values of a map, or of the elements of a list."""

    is_list: bool
    key: Size
    value: Size

    def union(self, other: Entries | None) -> Entries | None:
        """Return what holds for the entries of both; None if nothing is known of one."""
        if other is None:
            return None
        return Entries(self.is_list, self.key.union(other.key), self.value.union(other.value))


class Estimate(NamedTuple):
    """The cost of a node, with type and size of its value."""

    cost: int
    type: Type
    #: None: unknown.
    size: Size | None = None
    entries: Entries | None = None
    bound: Bound | None = None
    #: The value of a literal.
    value: Any = None

    @property
    def range(self) -> Size:
        """The size, even if it is unknown."""
        return UNKNOWN if self.size is None else self.size


_SCALARS: Final = frozenset(
    {BOOL.name, DOUBLE.name, DURATION.name, INT.name, TIMESTAMP.name, UINT.name}
)


def size_of(kind: Type, bound: Bound | None = None) -> Size | None:
    """Return the size of a value that has a bound, or a type with values of one size."""
    if bound is not None:
        return Size(0, bound.most)
    while kind.name == "optional_type":
        kind = kind.parameters[0]
    return ONE if kind.name in _SCALARS else None
