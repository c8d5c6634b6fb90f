"""Lists and sets: the lists of Kubernetes (`library/lists.go`) and of cel-go (`ext/lists.go`).

The sets are those of cel-go (`ext/sets.go`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Final

from scheduler.cel.declarations import STRING_FACTOR, Library, shared
from scheduler.cel.errors import (
    COST_LIMIT_EXCEEDED,
    EvaluationCancelledError,
    EvaluationError,
)
from scheduler.cel.libraries.standard import NUMERIC, ORDERED, add
from scheduler.cel.metering import NUMBER_BYTES, REFERENCE_BYTES, Meter, bounded, pieces
from scheduler.cel.types import BOOL, DURATION, DYN, INT, A, list_of, optional_of
from scheduler.cel.values import (
    EQUAL_WORK,
    LISTS,
    NONE,
    Duration,
    Optional,
    Uint,
    copied,
    equal,
    less,
    section,
    type_name,
)
from scheduler.cel.values import ORDERED as ORDERED_VALUES

_CREATION: Final = 11
"""The call and the list that it makes, `common/cost.go: ListCreateBaseCost`."""

_MAX_QUADRATIC: Final = 700
"""Elements above which the square of their number costs half the limit."""


def is_sorted(meter: Meter, values: Sequence[Any]) -> bool:
    """Whether no element is less than the one before."""
    return not any(less(after, before) for before, after in pairwise(meter.walk(values, 3)))


def total(meter: Meter, values: Sequence[Any], zero: Any) -> Any:
    """Return the sum, `zero` if there are no elements."""
    elements = meter.walk(values, 4)
    result = next(elements, zero)
    for each in elements:
        result = add(meter, result, each)
    return result


def smallest(meter: Meter, values: Sequence[Any]) -> Any:
    """Return the least element; raises for an empty list."""
    return _extreme(meter, values, "min")


def largest(meter: Meter, values: Sequence[Any]) -> Any:
    """Return the greatest element; raises for an empty list."""
    return _extreme(meter, values, "max")


def _extreme(meter: Meter, values: Sequence[Any], function: str) -> Any:
    if not values:
        raise EvaluationError(f"{function} called on empty list")
    result = values[0]
    for each in meter.walk(values, 3):
        if less(each, result) if function == "min" else less(result, each):
            result = each
    return result


def index_of(meter: Meter, values: Sequence[Any], element: Any) -> int:
    """Return the first position of an element, -1 without any."""
    return _position(meter, values, element, range(len(values)))


def last_index_of(meter: Meter, values: Sequence[Any], element: Any) -> int:
    """Return the last position of an element, -1 without any."""
    return _position(meter, values, element, range(len(values) - 1, -1, -1))


def _position(meter: Meter, values: Sequence[Any], element: Any, positions: range) -> int:
    found = (i for i in meter.walk(positions, EQUAL_WORK) if equal(meter, values[i], element))
    return next(found, -1)


def part(meter: Meter, values: Sequence[Any], start: int, end: int) -> Sequence[Any]:
    """Return the elements from `start` to before `end`."""
    if start < 0 or end < 0:
        raise EvaluationError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise EvaluationError(
            f"cannot slice({start}, {end}), start index must be less than or equal to end index"
        )
    if end > len(values):
        raise EvaluationError(f"cannot slice({start}, {end}), list is length {len(values)}")
    if type(values) is range:
        meter.forgive(end - start)
        return values[start:end]
    return section(meter, values, start, end)


def flatten(meter: Meter, values: Sequence[Any], depth: int = 1) -> Sequence[Any]:
    """Replace lists among the elements by theirs, `depth` times."""
    if depth < 0:
        raise EvaluationError("level must be non-negative")
    for _ in range(depth):
        if not any(type(each) in LISTS for each in meter.walk(values)):
            break
        flat: list[Any] = []
        for each in meter.walk(values):
            inner = copied(meter, each) if type(each) in LISTS else [each]
            bounded(len(flat) + len(inner))
            meter.make(len(inner))
            flat += inner
        values = flat
    return values


def backwards(meter: Meter, values: Sequence[Any]) -> Sequence[Any]:
    """Return the elements in the opposite order."""
    if type(values) is range:
        meter.forgive(len(values))
        return values[::-1]
    result = copied(meter, values)
    result.reverse()
    return result


def sort(meter: Meter, values: Sequence[Any]) -> list[Any]:
    """Return the elements in order; they must be of one ordered type."""
    return sort_by(meter, values, values)


def sort_by(meter: Meter, values: Sequence[Any], sort_keys: Sequence[Any]) -> list[Any]:
    """Return the elements in the order of their keys, which must be of one ordered type."""
    if len(values) > _MAX_QUADRATIC:
        raise EvaluationCancelledError(COST_LIMIT_EXCEEDED)
    kinds = {type(each) for each in sort_keys}
    if not kinds <= ORDERED_VALUES:
        raise EvaluationError("list elements must be comparable")
    if len(kinds) > 1:
        raise EvaluationError("list elements must have the same type")
    characters = sum(map(len, sort_keys)) if kinds <= {str, bytes} else 0
    steps = len(values).bit_length()
    meter.spend(steps * (len(values) + pieces(characters, 1000)))
    meter.make(len(values), REFERENCE_BYTES + NUMBER_BYTES)
    return [values[i] for i in sorted(range(len(values)), key=sort_keys.__getitem__)]


def distinct(meter: Meter, values: Sequence[Any]) -> list[Any]:
    """Return the elements without repetitions."""
    if len(values) > _MAX_QUADRATIC:
        raise EvaluationCancelledError(COST_LIMIT_EXCEEDED)
    meter.make(len(values), REFERENCE_BYTES + NUMBER_BYTES)
    result: list[Any] = []
    for each in values:
        if not any(_same(meter, each, kept) for kept in meter.walk(result, EQUAL_WORK)):
            result.append(each)
    return result


def _same(meter: Meter, one: Any, other: Any) -> bool:
    return type_name(one) == type_name(other) and equal(meter, one, other)


def first(values: Sequence[Any]) -> Any:
    """Return the first element as an optional, without a value for an empty list."""
    return Optional(values[0]) if values else NONE


def last(values: Sequence[Any]) -> Any:
    """Return the last element as an optional, without a value for an empty list."""
    return Optional(values[len(values) - 1]) if values else NONE


def numbers(meter: Meter, count: int) -> Sequence[int]:
    """Return the integers from 0 to before `count`."""
    if count < 0:
        raise EvaluationError(f"lists.range: size must be non-negative, got {count}")
    bounded(count)
    meter.forgive(count)
    return range(count)


MAX_INCLUDES: Final = 48
"""Elements of a list that `includes` looks through."""


def set_contains(meter: Meter, container: Sequence[Any], elements: Sequence[Any]) -> bool:
    """Whether one list has every element of another."""
    return all(
        any(equal(meter, each, other) for other in meter.walk(container, EQUAL_WORK))
        for each in meter.walk(elements, EQUAL_WORK)
    )


def set_intersects(meter: Meter, one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Whether two lists have an element in common."""
    return any(
        any(equal(meter, each, element) for element in meter.walk(other, EQUAL_WORK))
        for each in meter.walk(one, EQUAL_WORK)
    )


def set_equivalent(meter: Meter, one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Whether two lists have the same elements."""
    return set_contains(meter, one, other) and set_contains(meter, other, one)


def includes(meter: Meter, value: Any, element: Any) -> bool:
    """Whether a list has an element; any other value is taken for a list of itself."""
    if type(value) not in LISTS:
        meter.charge(_walked(value))
        return equal(meter, value, element)
    if len(value) > MAX_INCLUDES:
        raise EvaluationError(f"includes: more than {MAX_INCLUDES} elements")
    meter.charge(_elements(meter, value))
    return any(equal(meter, each, element) for each in meter.walk(value, EQUAL_WORK))


def _elements(meter: Meter, values: Sequence[Any]) -> int:
    """Return the cost of a walk over all elements, as `library/cost.go: traversalCost`."""
    if type(values) is range:
        return len(values)
    return sum(_walked(each) for each in meter.walk(values, 2))


def _walked(value: Any) -> int:
    # Upstream truncates the cost of each string.
    return math.floor(len(value) * STRING_FACTOR) if isinstance(value, (str, bytes)) else 1


def _traversing(body: Callable[..., Any]) -> Callable[..., Any]:
    """Return a metered function that is charged for a walk over its first argument."""

    def charged(meter: Meter, values: Sequence[Any], *rest: Any) -> Any:
        result = body(meter, values, *rest)
        meter.charge(_elements(meter, values))
        return result

    return charged


def _charged(arguments: Sequence[Any], result: Any) -> int:
    return 0


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
    method = partial(library.method, is_metered=True)
    for each in ORDERED:
        values = list_of(each)
        method("isSorted", (values,), BOOL, _traversing(is_sorted), _charged)
        method("min", (values,), each, _traversing(smallest), _charged)
        method("max", (values,), each, _traversing(largest), _charged)
        method("sort", (values,), values, sort, _self_comparison)
    for each, zero in zip((*NUMERIC, DURATION), _ZEROS, strict=True):

        def summed(meter: Meter, values: Sequence[Any], zero: Any = zero) -> Any:
            return total(meter, values, zero)

        method("sum", (list_of(each),), each, _traversing(summed), _charged)
    any_list = list_of(A)
    method("indexOf", (any_list, A), INT, _traversing(index_of), _charged)
    method("lastIndexOf", (any_list, A), INT, _traversing(last_index_of), _charged)
    method("includes", (DYN, DYN), BOOL, includes, _charged)
    method("slice", (any_list, INT, INT), any_list, part, _output)
    method("flatten", (list_of(any_list),), any_list, flatten, _flattening)
    method("flatten", (list_of(DYN), INT), list_of(DYN), flatten, _flattening)
    method("reverse", (any_list,), any_list, backwards, _output)
    method("distinct", (any_list,), any_list, distinct, _self_comparison)
    library.method("first", (any_list,), optional_of(A), first, work=shared)
    library.method("last", (any_list,), optional_of(A), last, work=shared)
    library.function("lists.range", (INT,), list_of(INT), numbers, _output, is_metered=True)
    for name, body, cost in (
        ("sets.contains", set_contains, _product),
        ("sets.intersects", set_intersects, _product),
        ("sets.equivalent", set_equivalent, _two_products),
    ):
        library.function(name, (any_list, any_list), BOOL, body, cost, is_metered=True)
    return library


_ZEROS: Final = (0, Uint(0), 0.0, Duration(0))
FUNCTIONS: Final = _library().functions
