"""Quantities (`library/quantity.go` of Kubernetes)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from scheduler.api.quantity import MAX_INT64, NANO, Quantity, QuantityError
from scheduler.api.quantity import parse as parse_quantity
from scheduler.cel.declarations import Library, first_traversal
from scheduler.cel.errors import EvaluationError
from scheduler.cel.types import BOOL, DOUBLE, INT, STRING, Type

QUANTITY: Final = Type("kubernetes.Quantity")

_INVALID: Final = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)


def quantity(text: str) -> Quantity:
    """Parse a quantity; raises `EvaluationError`."""
    try:
        return parse_quantity(text)
    except QuantityError:
        raise EvaluationError(_INVALID) from None


def is_quantity(text: str) -> bool:
    """Whether a text is a quantity."""
    try:
        parse_quantity(text)
    except QuantityError:
        return False
    return True


def is_integer(amount: Quantity) -> bool:
    """Whether the amount is whole and has at most 64 bits."""
    return amount.nano % NANO == 0 and -MAX_INT64 - 1 <= amount.nano // NANO <= MAX_INT64


def as_integer(amount: Quantity) -> int:
    """Return the amount as an integer; raises if it is none."""
    if not is_integer(amount):
        raise EvaluationError("cannot convert value to integer")
    return amount.nano // NANO


def as_float(amount: Quantity) -> float:
    """Return the amount as the nearest double, infinite beyond the range of doubles."""
    try:
        return amount.nano / NANO
    except OverflowError:
        return math.inf if amount.nano > 0 else -math.inf


def compare(one: Quantity, other: Quantity) -> int:
    """Return -1, 0 or 1."""
    return (one.nano > other.nano) - (one.nano < other.nano)


def _parsing(text: str) -> int:
    return 10


def _with_integer(body: Callable[[Any, Any], Any]) -> Callable[[Quantity, int], Any]:
    return lambda amount, number: body(amount, Quantity(number * NANO))


def _library() -> Library:
    library = Library()
    method = library.method
    library.function("quantity", (STRING,), QUANTITY, quantity, first_traversal, _parsing)
    library.function("isQuantity", (STRING,), BOOL, is_quantity, first_traversal, _parsing)
    # A function where one expects a method, as in Kubernetes.
    library.function("sign", (QUANTITY,), INT, lambda amount: amount.sign)
    method("isInteger", (QUANTITY,), BOOL, is_integer)
    method("asInteger", (QUANTITY,), INT, as_integer)
    method("asApproximateFloat", (QUANTITY,), DOUBLE, as_float)
    for name, body in (("add", Quantity.__add__), ("sub", Quantity.__sub__)):
        method(name, (QUANTITY, QUANTITY), QUANTITY, body)
        method(name, (QUANTITY, INT), QUANTITY, _with_integer(body))
    two = (QUANTITY, QUANTITY)
    method("isLessThan", two, BOOL, lambda one, other: one.nano < other.nano)
    method("isGreaterThan", two, BOOL, lambda one, other: one.nano > other.nano)
    method("compareTo", two, INT, compare)
    return library


FUNCTIONS: Final = _library().functions
