"""Values at run time: which Python type stands for which type of CEL, equality, order and size.

| CEL | Python |
|---|---|
| bool, int, double, string, bytes, null | bool, int, float, str, bytes, None |
| uint | `Uint` |
| list | list, tuple, range or `Joined` |
| map | dict |
| duration, timestamp | `Duration`, `Timestamp`: integers of nanoseconds |
| optional, type | `Optional`, `TypeValue` |
| quantity | `scheduler.api.quantity.Quantity` |

Equal keys of different numeric types are one key of a map, as in CEL and in Python. Boolean keys
are kept as `BoolKey`, because Python takes `True` for 1.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Any, ClassVar, Final, overload

from scheduler.api.quantity import Quantity
from scheduler.cel.errors import (
    WORK_LIMIT_EXCEEDED,
    EvaluationCancelledError,
    no_such_overload,
)
from scheduler.cel.metering import NUMBER_BYTES, REFERENCE_BYTES, Meter, bounded, pieces

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

    @property
    def work(self) -> int:
        """Units of work to compare it with another."""
        return 1


class Joined(Sequence[Any]):
    """A concatenation of lists that shares them, as cel-go's (`common/types/list.go: concatList`).

    Its parts are no concatenations themselves, so neither depth nor number of the concatenations
    that led to it matter to a reader.
    """

    __slots__ = ("_ends", "_size", "parts")

    def __init__(self, parts: tuple[Sequence[Any], ...]) -> None:
        self.parts = parts
        self._ends = list(accumulate(map(len, parts)))
        self._size = self._ends[-1]

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return chain.from_iterable(self.parts)

    @overload
    def __getitem__(self, index: int) -> Any: ...

    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...

    def __getitem__(self, index: int | slice) -> Any:
        """Return an element, or a list of elements next to each other."""
        if isinstance(index, slice):
            start, stop, _ = index.indices(self._size)
            return self._between(start, stop)
        number = bisect_right(self._ends, index)
        return self.parts[number][index - self._ends[number]]

    def _between(self, start: int, stop: int) -> list[Any]:
        found: list[Any] = []
        number = bisect_right(self._ends, start)
        while start < stop:
            part, end = self.parts[number], self._ends[number]
            begin = end - len(part)
            found += part[start - begin : stop - begin]
            start, number = end, number + 1
        return found


SMALL: Final = 64
"""Elements up to which a concatenation is a list of its own."""
MAX_PARTS: Final = 64
"""Parts of a concatenation; with more, it becomes a list of its own."""


def joined(meter: Meter, left: Sequence[Any], right: Sequence[Any]) -> Sequence[Any]:
    """Return the elements of one list and then those of another."""
    size = len(left) + len(right)
    bounded(size)
    if size <= SMALL:
        meter.make(size)
        return [*left, *right]
    if not left or not right:
        return left or right
    parts = (*_parts(left), *_parts(right))
    first = len(_parts(left))
    if len(parts[first - 1]) + len(parts[first]) <= SMALL:
        # Otherwise a list to which one element after another is added had as many parts.
        meter.make(SMALL)
        parts = (*parts[: first - 1], [*parts[first - 1], *parts[first]], *parts[first + 1 :])
    if len(parts) > MAX_PARTS:
        return copied(meter, Joined(parts))
    meter.make(len(parts), 2 * _PART_BYTES)
    return Joined(parts)


_PART_BYTES: Final = REFERENCE_BYTES + 32
"""Bytes of a reference to a part, and of the position where it ends."""


def _parts(values: Sequence[Any]) -> tuple[Sequence[Any], ...]:
    return values.parts if type(values) is Joined else (values,)


def copied(meter: Meter, values: Sequence[Any]) -> list[Any]:
    """Return the elements as a new list."""
    return section(meter, values, 0, len(values))


def section(meter: Meter, values: Sequence[Any], start: int, end: int) -> list[Any]:
    """Return the elements from `start` to before `end` as a new list."""
    is_computed = any(type(each) is range for each in _parts(values))
    meter.make(end - start, REFERENCE_BYTES + (NUMBER_BYTES if is_computed else 0))
    result: list[Any] = []
    for begin in range(start, end, _COPIED_AT_ONCE):
        chunk = values[begin : min(begin + _COPIED_AT_ONCE, end)]
        meter.spend(pieces(len(chunk), 4))
        result += chunk
    return result


_COPIED_AT_ONCE: Final = 1000


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
    Joined: "list",
    dict: "map",
    Duration: "google.protobuf.Duration",
    Timestamp: "google.protobuf.Timestamp",
    Optional: "optional_type",
    TypeValue: "type",
    Quantity: "kubernetes.Quantity",
}
NUMBERS: Final = frozenset({int, Uint, float})
"""Types that compare with each other by value."""

LISTS: Final = frozenset({list, tuple, range, Joined})

_SCALARS: Final = frozenset({bool, int, Uint, float, str, bytes, Duration, Timestamp, TypeValue})
SIZED: Final = (str, bytes, list, tuple, dict, range, Joined)
"""Types of values that consist of characters, bytes, elements or entries."""


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
    if isinstance(value, SIZED):
        return len(value)
    return value.size if isinstance(value, Opaque) else 1


MAX_KEY: Final = 10_000
"""Characters of a key of a map: a look-up may compare all of them, and is charged little."""


def map_key(value: object) -> object:
    """Return a value as the key of a dict; raises for types that are no keys."""
    kind = type(value)
    if kind is str:
        if len(value) > MAX_KEY:  # type: ignore[arg-type]
            raise EvaluationCancelledError(WORK_LIMIT_EXCEEDED)
        return value
    if kind is int or kind is Uint:
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


def equal(meter: Meter, left: object, right: object) -> bool:
    """Whether two values are equal; values of different types are not, but for numbers.

    Raises `EvaluationError` if the left one is of a library's type and the right one is not.
    """
    kind, other = type(left), type(right)
    if kind is other and kind in _SCALARS:
        if (kind is str or kind is bytes) and len(left) > _LONG:  # type: ignore[arg-type]
            meter.spend(len(left) // _LONG)  # type: ignore[arg-type]
        return left == right
    if kind in NUMBERS and other in NUMBERS:
        return left == right
    if left is None or right is None:
        return left is right
    if kind in LISTS and other in LISTS:
        return _equal_lists(meter, left, right)  # type: ignore[arg-type]
    if isinstance(left, dict) and isinstance(right, dict):
        return _equal_maps(meter, left, right)
    if isinstance(left, Optional) and isinstance(right, Optional):
        if left.has_value and right.has_value:
            meter.spend(EQUAL_WORK)
            return equal(meter, left.value, right.value)
        return left.has_value == right.has_value
    if isinstance(left, (Opaque, Quantity)):
        if kind is not other:
            raise no_such_overload()
        if isinstance(left, Opaque):
            meter.spend(left.work)
        return left == right
    return kind is other and left == right


_LONG: Final = 1000
"""Characters that are compared within one unit of work."""
EQUAL_WORK: Final = 6
"""Units of work to compare two elements."""
_LIST_WORK: Final = 15
"""Units of work to compare two lists, without their elements."""


def contains(meter: Meter, values: Sequence[object], element: object) -> bool:
    """Whether a list has an element."""
    return any(equal(meter, element, each) for each in meter.walk(values, EQUAL_WORK))


def _equal_lists(meter: Meter, left: Sequence[object], right: Sequence[object]) -> bool:
    if len(left) != len(right):
        return False
    meter.spend(_LIST_WORK)
    pairs = zip(meter.walk(left, EQUAL_WORK), right, strict=True)
    return all(equal(meter, one, other) for one, other in pairs)


def _equal_maps(meter: Meter, left: dict[object, object], right: dict[object, object]) -> bool:
    if len(left) != len(right):
        return False
    for key, each in left.items():
        meter.spend(EQUAL_WORK)
        if key not in right or not equal(meter, each, right[key]):
            return False
    return True


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
