"""The method `format` of strings: `"%d of %s".format([1, "x"])` (cel-go's `ext/formatting.go`)."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

from scheduler.cel.errors import CompileError, EvaluationError
from scheduler.cel.libraries import times
from scheduler.cel.metering import REFERENCE_BYTES, Meter, bounded, pieces
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
)
from scheduler.cel.values import (
    Duration,
    Joined,
    Timestamp,
    TypeValue,
    Uint,
    keys,
    type_name,
)

_CLAUSE: Final = re.compile(r"%(?:%|(?:\.([0-9]{1,9}))?([a-zA-Z])?)")
_DEFAULT_PRECISION: Final = 6
_MAX_PRECISION: Final = 1000
_CLAUSE_WORK: Final = 15
_SHOWN_WORK: Final = 6
_ENTRY_WORK: Final = 60
"""Units of work for an entry of a map, which is also sorted."""
_TEXT_BYTES: Final = 300
"""Bytes of a clause, of the text before it and of the text of a number."""


def format_text(meter: Meter, pattern: str, arguments: Sequence[Any]) -> str:
    """Return the pattern with its clauses replaced by the arguments, in order."""
    remaining = iter(arguments)
    parts: list[str] = []
    end = size = 0
    for found in _CLAUSE.finditer(pattern):
        meter.spend(_CLAUSE_WORK)
        part = "%" if found[0] == "%%" else _clause(meter, found, remaining)
        meter.hold(_TEXT_BYTES)
        parts += (pattern[end : found.start()], part)
        end = found.end()
        size += len(part)
        bounded(size)
    parts.append(pattern[end:])
    text = "".join(parts)
    meter.hold(2 * sys.getsizeof(text))
    meter.spend(pieces(len(pattern) + len(text), 50))
    return text


def check_format(pattern: str, arguments: Sequence[AbstractSet[str]]) -> None:
    """Raise `CompileError` if literals cannot be formatted, as cel-go's validator does.

    `arguments` are the names of the types of each, and of those of literals within it.
    """
    number = 0
    for found in _CLAUSE.finditer(pattern):
        if found[0] == "%%":
            continue
        letter = found[2]
        if letter not in _TYPES:
            raise CompileError(f'could not parse formatting clause: unrecognized "{letter}"')
        if number == len(arguments):
            raise CompileError(f"index {number} out of range")
        unsuitable = arguments[number] - _TYPES[letter] - {"dyn"}
        if unsuitable:
            raise CompileError(f"%{letter} cannot format {min(unsuitable)}")
        number += 1
    if number < len(arguments):
        raise CompileError(
            f"too many arguments supplied to string.format (expected {number}, got "
            f"{len(arguments)})"
        )


def _clause(meter: Meter, found: re.Match[str], remaining: Any) -> str:
    precision, letter = found.groups()
    if letter != "s" and letter not in _FORMATTERS:
        raise EvaluationError(f'could not parse formatting clause: unrecognized "{letter}"')
    try:
        value = next(remaining)
    except StopIteration:
        raise EvaluationError("index out of range: too few arguments for format") from None
    digits = _DEFAULT_PRECISION if precision is None else int(precision)
    if digits > _MAX_PRECISION:
        raise EvaluationError(f"precision {digits} exceeds the limit of {_MAX_PRECISION}")
    meter.spend(pieces(digits, 2))
    if letter == "s":
        return _shown(meter, value)
    if type(value) in (str, bytes):
        meter.spend(pieces(len(value), 50))
        meter.hold(8 * len(value))
    return _FORMATTERS[letter](value, digits)


def _shown(meter: Meter, value: Any) -> str:
    match value:
        case str():
            return value
        case bytes():
            meter.spend(pieces(len(value), 10))
            meter.hold(4 * len(value))
            return value.decode(errors="replace")
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case TypeValue():
            return value.name
        case Duration() | Timestamp():
            return times.text(value)
        case float():
            return _decimal_float(value)
        case int():
            return str(int(value))
        case list() | tuple() | range() | Joined():
            shown = (_shown(meter, each) for each in meter.walk(value, _SHOWN_WORK))
            return f"[{_joined(meter, shown)}]"
        case dict():
            entries: list[tuple[str, str]] = []
            for key, entry in zip(keys(value), value.values(), strict=True):
                meter.spend(_ENTRY_WORK)
                meter.hold(_TEXT_BYTES)
                entries.append((_shown(meter, key), _shown(meter, entry)))
            shown = (f"{key}: {entry}" for key, entry in sorted(entries))
            return "{" + _joined(meter, shown) + "}"
        case _:
            raise _unsuitable("string", value)


def _joined(meter: Meter, parts: Iterable[str]) -> str:
    kept: list[str] = []
    size = 0
    for each in parts:
        size += len(each)
        bounded(size)
        # The part, and its share of the result.
        meter.hold(2 * sys.getsizeof(each) + REFERENCE_BYTES)
        meter.spend(_SHOWN_WORK + len(each) // 50)
        kept.append(each)
    return ", ".join(kept)


def _decimal_float(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return f"{value:.15f}".rstrip("0").rstrip(".")


def _decimal(value: Any, precision: int) -> str:
    if type(value) is float:
        return _decimal_float(value)
    return str(_integer(value, "decimal"))


def _integer(value: Any, clause: str) -> int:
    if type(value) in (int, Uint):
        return int(value)
    raise _unsuitable(clause, value)


def _fixed(value: Any, precision: int) -> str:
    return f"{_number(value):.{precision}f}"


def _scientific(value: Any, precision: int) -> str:
    return f"{_number(value):.{precision}e}"


def _number(value: Any) -> float:
    if type(value) in (int, Uint, float):
        return float(value)
    raise _unsuitable("fixed-point", value)


def _hexadecimal(value: Any, precision: int) -> str:
    if type(value) is str:
        return value.encode().hex()
    return value.hex() if type(value) is bytes else f"{_integer(value, 'hex'):x}"


def _binary(value: Any, precision: int) -> str:
    return f"{int(value) if type(value) is bool else _integer(value, 'binary'):b}"


def _octal(value: Any, precision: int) -> str:
    return f"{_integer(value, 'octal'):o}"


def _unsuitable(clause: str, value: Any) -> EvaluationError:
    return EvaluationError(f"error during formatting: {clause} clause given {type_name(value)}")


_FORMATTERS: Final[dict[str, Callable[[Any, int], str]]] = {
    "d": _decimal,
    "f": _fixed,
    "e": _scientific,
    "b": _binary,
    "o": _octal,
    "x": _hexadecimal,
    "X": lambda value, precision: _hexadecimal(value, precision).upper(),
}


_INTEGERS: Final = frozenset({INT.name, UINT.name})
_NUMBERS: Final = frozenset({DOUBLE.name, STRING.name})
_TYPES: Final[dict[str, frozenset[str]]] = {
    "s": _INTEGERS
    | _NUMBERS
    | {each.name for each in (BOOL, BYTES, NULL, DURATION, TIMESTAMP)}
    | {"list", "map", "type"},
    "d": _INTEGERS,
    "f": _NUMBERS,
    "e": _NUMBERS,
    "b": _INTEGERS | {BOOL.name},
    "o": _INTEGERS,
    "x": _INTEGERS | {STRING.name, BYTES.name},
    "X": _INTEGERS | {STRING.name, BYTES.name},
}
"""Types of the literals that each clause can format."""
