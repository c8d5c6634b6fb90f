"""Functions that expressions can call: signatures for the type check, bodies and costs."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from scheduler.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    UINT,
    Type,
)
from scheduler.cel.values import size_for_cost

Body = Callable[..., Any]
"""The function itself: takes values of the declared types, raises `EvaluationError`.

A metered one takes the `Meter` first."""

Cost = Callable[[Sequence[Any], Any], int]
"""Returns the cost units of a call from its arguments and its result."""

Work = Callable[..., int]
"""Returns the units of work (`metering`) of a call from its arguments."""

STRING_FACTOR: Final = 0.1
"""Cost units per character (cel-go `common/cost.go: StringTraversalCostFactor`)."""

REGEX_FACTOR: Final = 0.25
"""Cost units per character of a regular expression (`RegexStringLengthCostFactor`)."""


@dataclass(frozen=True, slots=True, eq=False)
class Overload:
    """One signature of a function; the target of a method is its first parameter."""

    parameters: tuple[Type, ...]
    result: Type
    body: Body
    is_member: bool = False
    #: None: one unit.
    cost: Cost | None = None
    #: None: the body accounts for its work and for what it makes itself, or all is of fixed size.
    work: Work | None = None
    is_metered: bool = False

    @property
    def is_accounted(self) -> bool:
        """Whether the work of a call is known, whatever the size of its arguments."""
        return (
            self.is_metered
            or self.work is not None
            or all(each in SCALARS or each.name in FIXED for each in self.parameters)
        )

    @property
    def takes_messages(self) -> bool:
        """Whether a parameter is of an object type, of which null is a value for the type check."""
        return any("." in each.name for each in self.parameters)

    @property
    def result_bytes(self) -> Callable[[Any], int] | None:
        """Return the function that returns the bytes of a result; None: accounted for elsewhere."""
        if self.is_metered or self.result in SCALARS or self.work is shared:
            return None
        return sys.getsizeof if self.result in (STRING, BYTES) else _object_bytes


SCALARS: Final = frozenset({BOOL, INT, UINT, DOUBLE, NULL, DURATION, TIMESTAMP})
"""Types whose values have a fixed size."""

FIXED: Final = frozenset({"kubernetes.Quantity", "kubernetes.NamedFormat", "net.IP", "net.CIDR"})
"""Types of libraries whose values have a limited size."""

OBJECT_BYTES: Final = 600
"""Bytes of an address, a quantity, an optional and other values of libraries, without texts."""


def _object_bytes(value: Any) -> int:
    return OBJECT_BYTES


def shared(*arguments: Any) -> int:
    """Return the work of a function that reads or returns a part of its arguments as it is."""
    return 0


def covered(*arguments: Any) -> int:
    """Return the work of a function whose cost is at least its work: a tenth per character.

    It must not fail after it has done work, because a call that fails is not charged.
    """
    return 0


Functions = dict[str, list[Overload]]
"""All overloads by the name of the function."""


def merged(*libraries: Functions) -> Functions:
    """Return the functions of several libraries together."""
    functions: Functions = {}
    for each in libraries:
        for name, overloads in each.items():
            functions.setdefault(name, []).extend(overloads)
    return functions


class Library:
    """Collects the functions of one library."""

    def __init__(self) -> None:
        self.functions: Functions = {}

    def method(
        self,
        name: str,
        parameters: Iterable[Type],
        result: Type,
        body: Body,
        cost: Cost | None = None,
        work: Work | None = None,
        *,
        is_metered: bool = False,
    ) -> None:
        """Add a method; the first parameter is its target."""
        self._add(name, Overload(tuple(parameters), result, body, True, cost, work, is_metered))

    def function(
        self,
        name: str,
        parameters: Iterable[Type],
        result: Type,
        body: Body,
        cost: Cost | None = None,
        work: Work | None = None,
        *,
        is_metered: bool = False,
    ) -> None:
        """Add a global function."""
        self._add(name, Overload(tuple(parameters), result, body, False, cost, work, is_metered))

    def _add(self, name: str, overload: Overload) -> None:
        assert overload.is_accounted, f"{name} does not account for the work of large arguments"
        self.functions.setdefault(name, []).append(overload)


def traversal(value: Any, factor: float = STRING_FACTOR) -> int:
    """Return the cost of one walk over a value."""
    return math.ceil(size_for_cost(value) * factor)


def first_traversal(arguments: Sequence[Any], result: Any) -> int:
    """Return the cost of one walk over the first argument."""
    return traversal(arguments[0])


def first_traversal_twice(arguments: Sequence[Any], result: Any) -> int:
    """Return the cost of a walk over the first argument and of a result of that size."""
    return traversal(arguments[0], 2 * STRING_FACTOR)


def matching(arguments: Sequence[Any], result: Any) -> int:
    """Return the cost of a regular expression (second argument) on a text (first)."""
    text, pattern = arguments[:2]
    walk = math.ceil((1 + size_for_cost(text)) * STRING_FACTOR)
    return walk * traversal(pattern, REGEX_FACTOR)
