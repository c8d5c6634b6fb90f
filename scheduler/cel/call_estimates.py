"""Estimates for calls of functions: the cost without that of the arguments, and the result's size.

Source: as `estimates`. A function that is not named here costs one unit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from scheduler.cel.declarations import REGEX_FACTOR, STRING_FACTOR, Overload
from scheduler.cel.estimates import MAX, ONE, UNKNOWN, Estimate, Size, exactly, scaled
from scheduler.cel.libraries.named_formats import FORMAT
from scheduler.cel.libraries.networks import CIDR, IP, URL
from scheduler.cel.libraries.quantities import QUANTITY
from scheduler.cel.libraries.versions import SEMVER
from scheduler.cel.types import BYTES, STRING

Result = tuple[int, Size | None]
"""Cost, and size if it is known."""

Arguments = Sequence[Estimate]
"""Estimates of the arguments; that of the target of a method is the first."""

_Estimator = Callable[[Overload, Arguments], Result | None]
"""None: the call costs one unit."""

_TEXTS: Final = frozenset({STRING.name, BYTES.name})
_LIST_COST: Final = 11
"""A call, and a new list."""
_ADDRESS: Final = Size(4, 16)
"""Bytes of an IP address."""
_FORMAT_REGEX: Final = 128
"""Characters of the regular expression of a named format (`cel.MaxNameFormatRegexSize`)."""
_FORMAT_NAME: Final = 64
"""Characters of the text of a named format (`cel.MaxFormatSize`)."""


def estimated(name: str, overload: Overload, arguments: Arguments) -> Result:
    """Return the estimate for a call of one overload."""
    estimator = _ESTIMATORS.get(name)
    found = None if estimator is None else estimator(overload, arguments)
    return (1, None) if found is None else found


def sorting(keys: Estimate, kind: str) -> Result:
    """Return the estimate for sorting by keys of a type."""
    square = keys.range.times(keys.range)
    factor = 2 + STRING_FACTOR if kind in _TEXTS else 2.0
    return _list(square, factor)


def _list(size: Size, factor: float = 1) -> Result:
    return min(MAX, size.cost(factor) + _LIST_COST), size


def _walk(size: Size, factor: float = STRING_FACTOR) -> int:
    return size.cost(factor)


def _element_text(target: Estimate) -> tuple[bool, Size] | None:
    """Return whether the elements are texts, and their size; None for what has no elements."""
    if not target.type.parameters:
        return None
    bound = target.bound.element if target.bound is not None else None
    size = UNKNOWN if bound is None else Size(0, bound.most)
    return target.type.parameters[0].name in _TEXTS, size


def _elements(overload: Overload, arguments: Arguments) -> Result | None:
    """A function that compares each element of its target."""
    if not overload.is_member:
        return None
    target = arguments[0]
    found = _element_text(target)
    if found is None:
        return _walk(target.range), None
    is_text, size = found
    each = min(MAX, 1 + _walk(size)) if is_text else 1
    return min(MAX, target.range.most * each), None


def _same_size(overload: Overload, arguments: Arguments) -> Result | None:
    size = arguments[0].range
    return _walk(size), size


def _first(overload: Overload, arguments: Arguments) -> Result | None:
    return _walk(arguments[0].range), None


def _replace(overload: Overload, arguments: Arguments) -> Result | None:
    text, old, new = (each.range for each in arguments[:3])
    most = _replaced(text.most, old.least, is_kept=new.most <= old.least)
    least = _replaced(text.least, old.most, is_kept=old.most <= new.least)
    count, rest = Size(least[0], most[0]), Size(least[1], most[1])
    return _walk(text, 2 * STRING_FACTOR), count.times(new).plus(rest)


def _replaced(characters: int, old: int, *, is_kept: bool) -> tuple[int, int]:
    """Return the number of replacements, and of characters that stay."""
    if old == 0:
        # The replacement is put around each character.
        return min(MAX, characters + 1), characters
    return (0, characters) if is_kept else (math.ceil(characters / old), 0)


def _split(overload: Overload, arguments: Arguments) -> Result | None:
    text, most = arguments[0].range, arguments[0].range.most
    if len(arguments) > 2 and type(arguments[2].value) is int:
        most = arguments[2].value % 2**64
    return _walk(text, 2 * STRING_FACTOR), Size(0, most)


def _join(overload: Overload, arguments: Arguments) -> Result | None:
    number, size = arguments[0].range, exactly(0)
    found = _element_text(arguments[0])
    if found is not None:
        size = number.times(found[1])
    if len(arguments) > 1:
        separators = Size(max(0, number.least - 1), max(0, number.most - 1))
        size = size.plus(arguments[1].range.times(separators))
    return _walk(size), size


def _matching(overload: Overload, arguments: Arguments) -> int:
    text, pattern = arguments[0].range, arguments[1].range
    return min(MAX, _walk(text.plus(ONE)) * _walk(pattern, REGEX_FACTOR))


def _find(overload: Overload, arguments: Arguments) -> Result | None:
    return _matching(overload, arguments), Size(0, arguments[0].range.most)


def _matches(overload: Overload, arguments: Arguments) -> Result | None:
    return _matching(overload, arguments), None


def _contains(overload: Overload, arguments: Arguments) -> Result | None:
    return min(MAX, _walk(arguments[0].range) * _walk(arguments[1].range)), None


def _prefix(overload: Overload, arguments: Arguments) -> Result | None:
    return _walk(arguments[1].range), None


def _ip(overload: Overload, arguments: Arguments) -> Result | None:
    return None if overload.is_member else _first(overload, arguments)


def _canonical(overload: Overload, arguments: Arguments) -> Result | None:
    return _walk(arguments[0].range, 2 * STRING_FACTOR), None


def _contains_address(overload: Overload, arguments: Arguments) -> Result | None:
    return min(MAX, _walk(_ADDRESS.plus(_ADDRESS)) + _parsed(overload, arguments)), None


def _contains_network(overload: Overload, arguments: Arguments) -> Result | None:
    comparison = _walk(_ADDRESS.plus(_ADDRESS)) + _walk(_ADDRESS) + 1
    return min(MAX, comparison + _parsed(overload, arguments)), None


def _parsed(overload: Overload, arguments: Arguments) -> int:
    return _walk(arguments[1].range) if overload.parameters[1] == STRING else 0


def _validate(overload: Overload, arguments: Arguments) -> Result | None:
    return scaled(_walk(arguments[1].range), _FORMAT_REGEX * REGEX_FACTOR), None


def _includes(overload: Overload, arguments: Arguments) -> Result | None:
    return arguments[0].range.most, None


def _equal(overload: Overload, arguments: Arguments) -> Result | None:
    left, right = arguments
    if left.type.name == right.type.name:
        if left.type.name in {QUANTITY.name, SEMVER.name, IP.name, CIDR.name}:
            return None
        if left.type.name == FORMAT.name:
            return scaled(_FORMAT_NAME, STRING_FACTOR), None
        if left.type.name == URL.name:
            return scaled(1 if right.size is None else right.size.most, STRING_FACTOR), None
    return _smaller(overload, arguments)


def _smaller(overload: Overload, arguments: Arguments) -> Result | None:
    """A comparison, which ends with the smaller operand."""
    return scaled(min(each.range.most for each in arguments), STRING_FACTOR), None


def _compare(overload: Overload, arguments: Arguments) -> Result | None:
    is_text = overload.parameters[0].name in _TEXTS
    return _smaller(overload, arguments) if is_text else None


def _add(overload: Overload, arguments: Arguments) -> Result | None:
    kind = overload.parameters[0].name
    size = arguments[0].range.plus(arguments[1].range)
    if kind == "list":
        return 1, size
    return (_walk(size), size) if kind in _TEXTS else None


def _in(overload: Overload, arguments: Arguments) -> Result | None:
    is_list = overload.parameters[1].name == "list"
    return (arguments[1].range.most, None) if is_list else None


def _to_bytes(overload: Overload, arguments: Arguments) -> Result | None:
    if overload.parameters[0] != STRING:
        return None
    text = arguments[0].range
    # A character has up to four bytes.
    return _walk(text), Size(text.least, text.most * 4 % 2**64)


def _to_text(overload: Overload, arguments: Arguments) -> Result | None:
    if overload.parameters[0] != BYTES:
        return None
    encoded = arguments[0].range
    return _walk(encoded), Size(encoded.least // 4, encoded.most)


def _quote(overload: Overload, arguments: Arguments) -> Result | None:
    text = arguments[0].range
    return _walk(text), Size((text.least + 2) % 2**64, (text.most * 2 + 2) % 2**64)


def _sort(overload: Overload, arguments: Arguments) -> Result | None:
    return sorting(arguments[0], overload.parameters[0].parameters[0].name)


def _slice(overload: Overload, arguments: Arguments) -> Result | None:
    start, end = _number(arguments[1], 0), _number(arguments[2], arguments[0].range.most)
    return _list(exactly((end - start) % 2**64))


def _range(overload: Overload, arguments: Arguments) -> Result | None:
    return _list(exactly(_number(arguments[0], MAX)))


def _number(argument: Estimate, default: int) -> int:
    return max(0, argument.value) if type(argument.value) is int else default


def _reverse(overload: Overload, arguments: Arguments) -> Result | None:
    return _list(arguments[0].range)


def _flatten(overload: Overload, arguments: Arguments) -> Result | None:
    depth = _number(arguments[1], MAX) if len(arguments) > 1 else 1
    return _list(arguments[0].range, depth)


def _distinct(overload: Overload, arguments: Arguments) -> Result | None:
    return _list(arguments[0].range.times(arguments[0].range), 2)


def _sets(factor: int) -> _Estimator:
    def estimator(overload: Overload, arguments: Arguments) -> Result | None:
        product = arguments[0].range.times(arguments[1].range)
        return min(MAX, product.cost(factor) + 1), None

    return estimator


_ESTIMATORS: Final[dict[str, _Estimator]] = {
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _elements),
    **dict.fromkeys(("url", "lowerAscii", "upperAscii", "substring", "trim"), _same_size),
    **dict.fromkeys(
        ("cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver", "format"), _first
    ),
    **dict.fromkeys(("find", "findAll"), _find),
    **dict.fromkeys(("startsWith", "endsWith"), _prefix),
    **dict.fromkeys(("_<_", "_<=_", "_>_", "_>=_"), _compare),
    "replace": _replace,
    "split": _split,
    "join": _join,
    "matches": _matches,
    "contains": _contains,
    "ip": _ip,
    "ip.isCanonical": _canonical,
    "containsIP": _contains_address,
    "containsCIDR": _contains_network,
    "validate": _validate,
    "includes": _includes,
    "_==_": _equal,
    "_!=_": _smaller,
    "_+_": _add,
    "_in_": _in,
    "bytes": _to_bytes,
    "string": _to_text,
    "strings.quote": _quote,
    "sort": _sort,
    "slice": _slice,
    "lists.range": _range,
    "reverse": _reverse,
    "flatten": _flatten,
    "distinct": _distinct,
    "sets.contains": _sets(1),
    "sets.intersects": _sets(1),
    "sets.equivalent": _sets(2),
}
