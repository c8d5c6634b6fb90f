"""Durations as Go writes them, the form every duration in a KubeSchedulerConfiguration has.

Conversion between text such as `1m30s` and `datetime.timedelta`. Anything finer than a microsecond
is rounded; no setting of a scheduler needs it.
"""

from __future__ import annotations

import re
from datetime import timedelta
from fractions import Fraction
from typing import Final

GO_BOOLEANS: Final = dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True) | dict.fromkeys(
    ("0", "f", "F", "false", "FALSE", "False"), False
)
"""What Go's ParseBool accepts."""

_UNITS: Final = {
    "ns": Fraction(1, 1000),
    "us": Fraction(1),
    "\u00b5s": Fraction(1),  # micro sign
    "\u03bcs": Fraction(1),  # Greek mu
    "ms": Fraction(1000),
    "s": Fraction(1_000_000),
    "m": Fraction(60_000_000),
    "h": Fraction(3_600_000_000),
}
"""Microseconds in each unit."""

_PART = re.compile("([0-9]+(?:\\.[0-9]*)?|\\.[0-9]+)(ns|us|\u00b5s|\u03bcs|ms|s|m|h)")

#: Go's range: 2^63-1 nanoseconds, about 292 years.
_LARGEST: Final = (2**63 - 1) // 1000


def parse_duration(text: str) -> timedelta:
    """Read `1m30s`, `-2.5h`, `100ms` or `0`. ValueError with the reason for other texts.

    >>> parse_duration("1m30s")
    datetime.timedelta(seconds=90)
    """
    unsigned = text[1:] if text[:1] in {"+", "-"} else text
    if unsigned == "0":
        return timedelta()
    total, position = Fraction(0), 0
    while part := _PART.match(unsigned, position):
        total += Fraction(part[1]) * _UNITS[part[2]]
        position = part.end()
    if position == 0 or position != len(unsigned):
        hint = ": a unit is missing" if re.fullmatch(r"[0-9]+(\.[0-9]+)?", unsigned) else ""
        raise ValueError(f'"{text}" is not a duration such as "1m30s" or "100ms"{hint}')
    if total > _LARGEST:
        raise ValueError(f'"{text}" is longer than a duration can be (292 years)')
    microseconds = round(total)
    return timedelta(microseconds=-microseconds if text.startswith("-") else microseconds)


def format_duration(value: timedelta) -> str:
    """Write a duration as Go prints it.

    >>> format_duration(timedelta(seconds=600)), format_duration(timedelta(milliseconds=1.5))
    ('10m0s', '1.5ms')
    """
    microseconds = value // timedelta(microseconds=1)
    sign, microseconds = ("-" if microseconds < 0 else ""), abs(microseconds)
    if microseconds == 0:
        return "0s"
    if microseconds < 1000:
        return f"{sign}{microseconds}\u00b5s"
    if microseconds < 1_000_000:
        return f"{sign}{_decimal(microseconds, 1000)}ms"
    minutes, rest = divmod(microseconds, 60_000_000)
    hours, minutes = divmod(minutes, 60)
    text = f"{_decimal(rest, 1_000_000)}s"
    if hours or minutes:
        text = f"{minutes}m{text}"
    return f"{sign}{hours}h{text}" if hours else f"{sign}{text}"


def _decimal(number: int, divisor: int) -> str:
    whole, rest = divmod(number, divisor)
    digits = f"{rest:0{len(str(divisor)) - 1}d}".rstrip("0")
    return f"{whole}.{digits}" if digits else str(whole)
