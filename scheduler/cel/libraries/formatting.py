"""The method `format` of strings: `"%d of %s".format([1, "x"])` (cel-go's `ext/formatting.go`)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from scheduler.cel.declarations import bounded
from scheduler.cel.errors import EvaluationError
from scheduler.cel.libraries import times
from scheduler.cel.values import Budget, Duration, Timestamp, TypeValue, Uint, keys, type_name

_CLAUSE: Final = re.compile(r"%(?:%|(?:\.([0-9]{1,4}))?([a-zA-Z])?)")
_DEFAULT_PRECISION: Final = 6
_MAX_PRECISION: Final = 1000


def format_text(pattern: str, arguments: Sequence[Any]) -> str:
    """Return the pattern with its clauses replaced by the arguments, in order."""
    remaining = iter(arguments)
    parts: list[str] = []
    end = size = 0
    for found in _CLAUSE.finditer(pattern):
        part = "%" if found[0] == "%%" else _clause(found, remaining)
        parts += (pattern[end : found.start()], part)
        end = found.end()
        size += len(part)
        bounded(size)
    parts.append(pattern[end:])
    return "".join(parts)


def _clause(found: re.Match[str], remaining: Any) -> str:
    precision, letter = found.groups()
    formatter = _FORMATTERS.get(letter or "")
    if formatter is None:
        raise EvaluationError(f'could not parse formatting clause: unrecognized "{letter}"')
    try:
        value = next(remaining)
    except StopIteration:
        raise EvaluationError("index out of range: too few arguments for format") from None
    digits = _DEFAULT_PRECISION if precision is None else int(precision)
    if digits > _MAX_PRECISION:
        raise EvaluationError(f"precision {digits} exceeds the limit of {_MAX_PRECISION}")
    return formatter(value, digits)


def _text(value: Any, precision: int) -> str:
    return _shown(value, Budget())


def _shown(value: Any, budget: Budget) -> str:
    match value:
        case str():
            return value
        case bytes():
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
        case list() | tuple():
            budget.take(len(value))
            return f"[{_joined(_shown(each, budget) for each in value)}]"
        case dict():
            budget.take(len(value))
            shown = sorted(
                (_shown(key, budget), _shown(entry, budget))
                for key, entry in zip(keys(value), value.values(), strict=True)
            )
            return "{" + _joined(f"{key}: {entry}" for key, entry in shown) + "}"
        case _:
            raise _unsuitable("string", value)


def _joined(parts: Iterable[str]) -> str:
    kept: list[str] = []
    size = 0
    for each in parts:
        size += len(each)
        bounded(size)
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
    "s": _text,
    "d": _decimal,
    "f": _fixed,
    "e": _scientific,
    "b": _binary,
    "o": _octal,
    "x": _hexadecimal,
    "X": lambda value, precision: _hexadecimal(value, precision).upper(),
}
