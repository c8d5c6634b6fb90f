"""Functions that expressions can call: signatures for the type check, bodies and costs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from scheduler.cel.errors import COST_LIMIT_EXCEEDED, EvaluationCancelledError
from scheduler.cel.types import Type
from scheduler.cel.values import size_for_cost

Body = Callable[..., Any]
"""The function itself: takes values of the declared types, raises `EvaluationError`."""

Cost = Callable[[Sequence[Any], Any], int]
"""Returns the cost units of a call from its arguments and its result."""

MAX_RESULT_SIZE: Final = 1_000_000
"""Characters of a string and elements of a list that one call may make. To walk over so many costs
the whole limit in bytes, or a tenth of it in characters."""

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
    ) -> None:
        """Add a method; the first parameter is its target."""
        self._add(name, Overload(tuple(parameters), result, body, is_member=True, cost=cost))

    def function(
        self,
        name: str,
        parameters: Iterable[Type],
        result: Type,
        body: Body,
        cost: Cost | None = None,
    ) -> None:
        """Add a global function."""
        self._add(name, Overload(tuple(parameters), result, body, cost=cost))

    def _add(self, name: str, overload: Overload) -> None:
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


def bounded(size: int) -> None:
    """Refuse a result that is too large, before it is made."""
    if size > MAX_RESULT_SIZE:
        raise EvaluationCancelledError(COST_LIMIT_EXCEEDED)
