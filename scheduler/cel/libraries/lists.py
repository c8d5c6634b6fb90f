"""Lists and sets: the lists of Kubernetes (`library/lists.go`) and of cel-go (`ext/lists.go`).

The sets are those of cel-go (`ext/sets.go`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cmp_to_key
from itertools import pairwise
from typing import Any, Final

from scheduler.cel.declarations import STRING_FACTOR, Library, bounded
from scheduler.cel.errors import (
    COST_LIMIT_EXCEEDED,
    EvaluationCancelledError,
    EvaluationError,
)
from scheduler.cel.libraries.standard import NUMERIC, ORDERED, add
from scheduler.cel.types import BOOL, DURATION, DYN, INT, A, list_of, optional_of
from scheduler.cel.values import (
    LISTS,
    NONE,
    Budget,
    Duration,
    Optional,
    Uint,
    equal,
    less,
    type_name,
)
from scheduler.cel.values import ORDERED as ORDERED_VALUES

_CREATION: Final = 11
"""The call and the list that it makes, `common/cost.go: ListCreateBaseCost`."""

_MAX_QUADRATIC: Final = 700
"""Elements above which the square of their number costs half the limit."""


def is_sorted(values: Sequence[Any]) -> bool:
    """Whether no element is less than the one before."""
    return not any(less(after, before) for before, after in pairwise(values))


def total(values: Sequence[Any], zero: Any) -> Any:
    """Return the sum, `zero` if there are no elements."""
    if not values:
        return zero
    result = values[0]
    for each in values[1:]:
        result = add(result, each)
    return result


def smallest(values: Sequence[Any]) -> Any:
    """Return the least element; raises for an empty list."""
    return _extreme(values, "min")


def largest(values: Sequence[Any]) -> Any:
    """Return the greatest element; raises for an empty list."""
    return _extreme(values, "max")


def _extreme(values: Sequence[Any], function: str) -> Any:
    if not values:
        raise EvaluationError(f"{function} called on empty list")
    result = values[0]
    for each in values[1:]:
        if less(each, result) if function == "min" else less(result, each):
            result = each
    return result


def index_of(values: Sequence[Any], element: Any) -> int:
    """Return the first position of an element, -1 without any."""
    budget = Budget()
    return next((i for i, each in enumerate(values) if equal(each, element, budget)), -1)


def last_index_of(values: Sequence[Any], element: Any) -> int:
    """Return the last position of an element, -1 without any."""
    position = index_of(values[::-1], element)
    return -1 if position < 0 else len(values) - 1 - position


def part(values: Sequence[Any], start: int, end: int) -> list[Any]:
    """Return the elements from `start` to before `end`."""
    if start < 0 or end < 0:
        raise EvaluationError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise EvaluationError(
            f"cannot slice({start}, {end}), start index must be less than or equal to end index"
        )
    if end > len(values):
        raise EvaluationError(f"cannot slice({start}, {end}), list is length {len(values)}")
    return list(values[start:end])


def flatten(values: Sequence[Any], depth: int = 1) -> list[Any]:
    """Replace lists among the elements by theirs, `depth` times."""
    if depth < 0:
        raise EvaluationError("level must be non-negative")
    result = list(values)
    for _ in range(depth):
        if not any(type(each) in LISTS for each in result):
            break
        bounded(sum(len(each) if type(each) in LISTS else 1 for each in result))
        result = [inner for each in result for inner in (each if type(each) in LISTS else (each,))]
    return result


def sort(values: Sequence[Any]) -> list[Any]:
    """Return the elements in order; they must be of one ordered type."""
    return sort_by(values, values)


def sort_by(values: Sequence[Any], sort_keys: Sequence[Any]) -> list[Any]:
    """Return the elements in the order of their keys, which must be of one ordered type."""
    kinds = {type(each) for each in sort_keys}
    if not kinds <= ORDERED_VALUES:
        raise EvaluationError("list elements must be comparable")
    if len(kinds) > 1:
        raise EvaluationError("list elements must have the same type")

    def compare(one: int, other: int) -> int:
        return less(sort_keys[other], sort_keys[one]) - less(sort_keys[one], sort_keys[other])

    return [values[i] for i in sorted(range(len(values)), key=cmp_to_key(compare))]


def distinct(values: Sequence[Any]) -> list[Any]:
    """Return the elements without repetitions."""
    if len(values) > _MAX_QUADRATIC:
        raise EvaluationCancelledError(COST_LIMIT_EXCEEDED)
    result: list[Any] = []
    budget = Budget()
    for each in values:
        if not any(_same(each, kept, budget) for kept in result):
            result.append(each)
    return result


def _same(one: Any, other: Any, budget: Budget) -> bool:
    return type_name(one) == type_name(other) and equal(one, other, budget)


def first(values: Sequence[Any]) -> Any:
    """Return the first element; raises for an empty list."""
    return _end(values, 0)


def last(values: Sequence[Any]) -> Any:
    """Return the last element; raises for an empty list."""
    return _end(values, -1)


def _end(values: Sequence[Any], index: int) -> Any:
    return Optional(values[index]) if values else NONE


def numbers(count: int) -> list[int]:
    """Return the integers from 0 to before `count`."""
    if count < 0:
        raise EvaluationError(f"lists.range: size must be non-negative, got {count}")
    bounded(count)
    return list(range(count))


def set_contains(container: Sequence[Any], elements: Sequence[Any]) -> bool:
    """Whether one list has every element of another."""
    _limit_product(container, elements)
    budget = Budget()
    return all(any(equal(each, other, budget) for other in container) for each in elements)


def set_intersects(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Whether two lists have an element in common."""
    _limit_product(one, other)
    budget = Budget()
    return any(any(equal(each, element, budget) for element in other) for each in one)


def set_equivalent(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Whether two lists have the same elements."""
    return set_contains(one, other) and set_contains(other, one)


def _limit_product(one: Sequence[Any], other: Sequence[Any]) -> None:
    if len(one) * len(other) > _MAX_QUADRATIC**2 * 2:
        raise EvaluationCancelledError(COST_LIMIT_EXCEEDED)


def _elements(arguments: Sequence[Any], result: Any) -> int:
    # As `library/cost.go: traversalCost`, which truncates the cost of each string.
    return sum(
        math.floor(len(each) * STRING_FACTOR) if isinstance(each, (str, bytes)) else 1
        for each in arguments[0]
    )


def _output(arguments: Sequence[Any], result: Any) -> int:
    return _CREATION + len(result)


def _flattening(arguments: Sequence[Any], result: Any) -> int:
    depth = arguments[1] if len(arguments) > 1 else 1
    return _CREATION + len(arguments[0]) * depth


def comparisons_cost(values: Sequence[Any]) -> int:
    """Return the cost of comparing each element with each other."""
    factor = 2.0
    if values and isinstance(values[0], (str, bytes)):
        factor += STRING_FACTOR
    return _CREATION + int(len(values) ** 2 * factor)


def _self_comparison(arguments: Sequence[Any], result: Any) -> int:
    return comparisons_cost(arguments[0])


def _product(arguments: Sequence[Any], result: Any) -> int:
    return 1 + len(arguments[0]) * len(arguments[1])


def _two_products(arguments: Sequence[Any], result: Any) -> int:
    return 1 + 2 * len(arguments[0]) * len(arguments[1])


def _library() -> Library:
    library = Library()
    method = library.method
    for each in ORDERED:
        values = list_of(each)
        method("isSorted", (values,), BOOL, is_sorted, _elements)
        method("min", (values,), each, smallest, _elements)
        method("max", (values,), each, largest, _elements)
        method("sort", (values,), values, sort, _self_comparison)
    for each, zero in zip((*NUMERIC, DURATION), _ZEROS, strict=True):

        def summed(values: Sequence[Any], zero: Any = zero) -> Any:
            return total(values, zero)

        method("sum", (list_of(each),), each, summed, _elements)
    any_list = list_of(A)
    method("indexOf", (any_list, A), INT, index_of, _elements)
    method("lastIndexOf", (any_list, A), INT, last_index_of, _elements)
    method("slice", (any_list, INT, INT), any_list, part, _output)
    method("flatten", (list_of(any_list),), any_list, flatten, _flattening)
    method("flatten", (list_of(DYN), INT), list_of(DYN), flatten, _flattening)
    method("reverse", (any_list,), any_list, lambda values: list(reversed(values)), _output)
    method("distinct", (any_list,), any_list, distinct, _self_comparison)
    method("first", (any_list,), optional_of(A), first)
    method("last", (any_list,), optional_of(A), last)
    library.function("lists.range", (INT,), list_of(INT), numbers, _output)
    for name, body, cost in (
        ("sets.contains", set_contains, _product),
        ("sets.intersects", set_intersects, _product),
        ("sets.equivalent", set_equivalent, _two_products),
    ):
        library.function(name, (any_list, any_list), BOOL, body, cost)
    return library


_ZEROS: Final = (0, Uint(0), 0.0, Duration(0))
FUNCTIONS: Final = _library().functions
