"""Values at run time: which Python type stands for which type of CEL, equality, order and size.

| CEL | Python |
|---|---|
| bool, int, double, string, bytes, null | bool, int, float, str, bytes, None |
| uint | `Uint` |
| list, map | list or tuple, dict |
| duration, timestamp | `Duration`, `Timestamp`: integers of nanoseconds |
| optional, type | `Optional`, `TypeValue` |
| quantity | `scheduler.api.quantity.Quantity` |

Equal keys of different numeric types are one key of a map, as in CEL and in Python. Boolean keys
are kept as `BoolKey`, because Python takes `True` for 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from scheduler.api.quantity import Quantity
from scheduler.cel.errors import (
    COST_LIMIT_EXCEEDED,
    EvaluationCancelledError,
    no_such_overload,
)

MAX_INT: Final = (1 << 63) - 1
MIN_INT: Final = -(1 << 63)
MAX_UINT: Final = (1 << 64) - 1


class Uint(int):
    """An unsigned integer of 64 bits."""

    __slots__ = ()


class Duration(int):
    """A length of time in nanoseconds."""

    __slots__ = ()


class Timestamp(int):
    """A point in time, in nanoseconds since 1970 UTC."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class BoolKey:
    """A boolean as the key of a map."""

    value: bool


@dataclass(frozen=True, slots=True)
class TypeValue:
    """A type as a value (`type(1)`)."""

    name: str


@dataclass(frozen=True, slots=True)
class Optional:
    """A value that may be absent."""

    value: object = None
    has_value: bool = True


NONE: Final = Optional(has_value=False)
"""The optional without a value (`optional.none()`)."""


class Opaque:
    """Base of the values of libraries: equality with other types is an error."""

    __slots__ = ()
    type_name: ClassVar[str]
    #: What the cost model takes for its size.
    size: ClassVar[int] = 1


_NAMES: Final[dict[type, str]] = {
    bool: "bool",
    int: "int",
    Uint: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    type(None): "null_type",
    list: "list",
    tuple: "list",
    range: "list",
    dict: "map",
    Duration: "google.protobuf.Duration",
    Timestamp: "google.protobuf.Timestamp",
    Optional: "optional_type",
    TypeValue: "type",
    Quantity: "kubernetes.Quantity",
}
NUMBERS: Final = frozenset({int, Uint, float})
"""Types that compare with each other by value."""

LISTS: Final = frozenset({list, tuple})
MAX_COMPARED: Final = 100_000
"""Elements of lists and maps within each other that one call compares, some 30 ms."""

_SCALARS: Final = frozenset({bool, int, Uint, float, str, bytes, Duration, Timestamp, TypeValue})
_SIZED: Final = (str, bytes, list, tuple, dict)


def type_name(value: object) -> str:
    """Return the CEL name of the type of a value."""
    name = _NAMES.get(type(value))
    if name is not None:
        return name
    if isinstance(value, Opaque):
        return value.type_name
    return "map" if isinstance(value, Mapping) else "kubernetes.DRADevice"


def size_for_cost(value: object) -> int:
    """Return the size that the cost model counts: characters, bytes, elements, else 1."""
    if isinstance(value, _SIZED):
        return len(value)
    return value.size if isinstance(value, Opaque) else 1


def map_key(value: object) -> object:
    """Return a value as the key of a dict; raises for types that are no keys."""
    kind = type(value)
    if kind is str or kind is int or kind is Uint:
        return value
    if kind is bool:
        return BoolKey(bool(value))
    if kind is float:
        # Equal to the integer, if it is whole.
        return value
    raise no_such_overload()


def keys(values: Mapping[object, object]) -> Iterator[object]:
    """Yield the keys of a map as CEL values."""
    for key in values:
        yield key.value if type(key) is BoolKey else key


class Budget:
    """The elements of nested lists and maps that one call may still compare.

    A list may hold another several times, and that a third one: the cost of a comparison counts
    only the elements of the outermost.
    """

    __slots__ = ("_remaining",)

    def __init__(self, elements: int = MAX_COMPARED) -> None:
        self._remaining = elements

    def take(self, elements: int) -> None:
        """Use a part; raises `EvaluationCancelledError` if less remains."""
        self._remaining -= elements
        if self._remaining < 0:
            raise EvaluationCancelledError(COST_LIMIT_EXCEEDED)


def equal(left: object, right: object, budget: Budget | None = None) -> bool:
    """Whether two values are equal; values of different types are not, but for numbers.

    Raises `EvaluationError` if the left one is of a library's type and the right one is not, and
    `EvaluationCancelledError` beyond the budget.
    """
    kind, other = type(left), type(right)
    if kind is other and kind in _SCALARS:
        return left == right
    if kind in NUMBERS and other in NUMBERS:
        return left == right
    if left is None or right is None:
        return left is right
    if kind in LISTS and other in LISTS:
        return _equal_lists(left, right, budget or Budget())  # type: ignore[arg-type]
    if isinstance(left, dict) and isinstance(right, dict):
        return _equal_maps(left, right, budget or Budget())
    if isinstance(left, Optional) and isinstance(right, Optional):
        if left.has_value and right.has_value:
            return equal(left.value, right.value, budget)
        return left.has_value == right.has_value
    if isinstance(left, (Opaque, Quantity)):
        if kind is not other:
            raise no_such_overload()
        return left == right
    return kind is other and left == right


def _equal_lists(left: list[object], right: list[object], budget: Budget) -> bool:
    if len(left) != len(right):
        return False
    budget.take(len(left))
    return all(equal(one, other, budget) for one, other in zip(left, right, strict=True))


def _equal_maps(left: dict[object, object], right: dict[object, object], budget: Budget) -> bool:
    if len(left) != len(right):
        return False
    budget.take(len(left))
    return all(key in right and equal(each, right[key], budget) for key, each in left.items())


ORDERED: Final = frozenset({bool, str, bytes, Duration, Timestamp}) | NUMBERS


def less(left: object, right: object) -> bool:
    """Whether one value is less than another of an ordered type; raises for all others."""
    kind, other = type(left), type(right)
    if (kind is other and kind in ORDERED) or (kind in NUMBERS and other in NUMBERS):
        if kind is str:
            # Go compares bytes of UTF-8, whose order is that of the code points.
            return str(left) < str(right)
        return left < right  # type: ignore[operator,no-any-return]
    raise no_such_overload()
