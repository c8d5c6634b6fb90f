"""Functions of optional values (cel-go's `cel/library.go: optionalLib`).

The operators `.?` and `[?]`, and the macros `optMap` and `optFlatMap`, are compiled by `program`.
"""

from __future__ import annotations

from typing import Any, Final

from scheduler.cel.declarations import Library
from scheduler.cel.errors import EvaluationError
from scheduler.cel.types import BOOL, A, list_of, optional_of
from scheduler.cel.values import NONE, Optional, Uint


def of_non_zero(value: Any) -> Optional:
    """Return an optional with the value, without one for 0, false, empty and null."""
    is_zero = value is None or (
        isinstance(value, (bool, int, Uint, float, str, bytes, list, tuple, dict)) and not value
    )
    return NONE if is_zero else Optional(value)


def value(optional: Optional) -> Any:
    """Return the value; raises if there is none."""
    if not optional.has_value:
        raise EvaluationError("optional.none() dereference")
    return optional.value


def unwrap(optionals: list[Optional]) -> list[Any]:
    """Return the values of those that have one."""
    return [each.value for each in optionals if each.has_value]


def _library() -> Library:
    library = Library()
    optional = optional_of(A)
    library.function("optional.of", (A,), optional, Optional)
    library.function("optional.none", (), optional, lambda: NONE)
    library.function("optional.ofNonZeroValue", (A,), optional, of_non_zero)
    library.function("optional.unwrap", (list_of(optional),), list_of(A), unwrap)
    library.method("unwrapOpt", (list_of(optional),), list_of(A), unwrap)
    library.method("hasValue", (optional,), BOOL, lambda each: each.has_value)
    library.method("value", (optional,), A, value)
    # Declared for the type check: `program` compiles them, because they evaluate the second
    # argument only if the first has no value.
    library.method("or", (optional, optional), optional, lambda one, other: one)
    library.method("orValue", (optional, A), A, lambda one, other: one)
    return library


FUNCTIONS: Final = _library().functions
