"""Functions of optional values (cel-go's `cel/library.go: optionalLib`).

The operators `.?` and `[?]`, and the macros `optMap` and `optFlatMap`, are compiled by `program`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from scheduler.cel.declarations import Library, covered, shared
from scheduler.cel.errors import EvaluationError, no_such_overload
from scheduler.cel.metering import Meter
from scheduler.cel.types import BOOL, A, list_of, optional_of
from scheduler.cel.values import NONE, SIZED, Optional


def of_non_zero(value: Any) -> Optional:
    """Return an optional with the value, without one for 0, false, empty and null."""
    is_zero = value is None or (isinstance(value, (bool, int, float, *SIZED)) and not value)
    return NONE if is_zero else Optional(value)


def value(optional: Optional) -> Any:
    """Return the value; raises if there is none."""
    if not optional.has_value:
        raise EvaluationError("optional.none() dereference")
    return optional.value


def unwrap(meter: Meter, optionals: Sequence[Optional]) -> list[Any]:
    """Return the values of those that have one."""
    meter.make(len(optionals))
    result: list[Any] = []
    for each in meter.walk(optionals, 2):
        if type(each) is not Optional:
            raise no_such_overload()
        if each.has_value:
            result.append(each.value)
    return result


def _library() -> Library:
    library = Library()
    optional = optional_of(A)
    library.function("optional.of", (A,), optional, Optional, work=covered)
    library.function("optional.none", (), optional, lambda: NONE)
    library.function("optional.ofNonZeroValue", (A,), optional, of_non_zero, work=covered)
    library.function("optional.unwrap", (list_of(optional),), list_of(A), unwrap, is_metered=True)
    library.method("unwrapOpt", (list_of(optional),), list_of(A), unwrap, is_metered=True)
    library.method("hasValue", (optional,), BOOL, lambda each: each.has_value, work=shared)
    library.method("value", (optional,), A, value, work=shared)
    # Declared for the type check: `program` compiles them, because they evaluate the second
    # argument only if the first has no value.
    library.method("or", (optional, optional), optional, lambda one, other: one, work=shared)
    library.method("orValue", (optional, A), A, lambda one, other: one, work=shared)
    return library


FUNCTIONS: Final = _library().functions
