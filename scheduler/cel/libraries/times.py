"""Durations and timestamps: parsing, printing, arithmetic and fields.

Source: the CEL language definition, "Abstract Types"; Go's `time.ParseDuration`.
"""

from __future__ import annotations

import datetime as dt
import re
from typing import Any, Final

from scheduler.cel.declarations import Library
from scheduler.cel.errors import EvaluationError, no_such_overload
from scheduler.cel.types import DURATION, INT, STRING, TIMESTAMP
from scheduler.cel.values import MAX_INT, MIN_INT, Duration, Timestamp

SECOND: Final = 1_000_000_000
_UNITS: Final = {
    "ns": 1, "us": 1000, "µs": 1000, "μs": 1000, "ms": 1_000_000, "s": SECOND,
    "m": 60 * SECOND, "h": 3600 * SECOND,
}  # fmt: skip
_PART: Final = re.compile(r"([0-9]{0,20})(?:\.([0-9]{0,30}))?(ns|us|µs|μs|ms|s|m|h)")
_TIMESTAMP: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:[.,](\d{1,30}))?(Z|[+-]\d\d:\d\d)", re.ASCII
)
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_FIRST: Final = -62_135_596_800 * SECOND  # 0001-01-01
_LAST: Final = 253_402_300_800 * SECOND - 1  # 9999-12-31
_OFFSET: Final = re.compile(r"([+-]?)(\d\d):(\d\d)", re.ASCII)


def to_duration(value: Any) -> Duration:
    """Convert a text such as `1h30m`. An integer is of a type that is declared, but not converted.

    Source: cel-go `common/types/int.go: ConvertToType`.
    """
    if type(value) is int:
        raise EvaluationError(f"type conversion error from 'int' to '{DURATION}'")
    return _parsed_duration(value) if type(value) is str else Duration(value)


def to_timestamp(value: Any) -> Timestamp:
    """Convert a text in RFC 3339 or a number of seconds since 1970."""
    if type(value) is str:
        return _parsed_timestamp(value)
    return _timestamp(value if type(value) is Timestamp else value * SECOND)


def _parsed_duration(text: str) -> Duration:
    unsigned = text[1:] if text[:1] in ("+", "-") else text
    total, position = 0, 0
    if unsigned == "0":
        return Duration(0)
    while position < len(unsigned):
        found = _PART.match(unsigned, position)
        if found is None or not (found[1] or found[2]):
            break
        unit = _UNITS[found[3]]
        total += int(found[1] or 0) * unit
        if found[2]:
            total += int(found[2]) * unit // 10 ** len(found[2])
        position = found.end()
    if not unsigned or position < len(unsigned) or total > MAX_INT:
        raise EvaluationError(f"time: invalid duration {text[:80]!r}")
    return Duration(-total if text[0] == "-" else total)


def _parsed_timestamp(text: str) -> Timestamp:
    found = _TIMESTAMP.fullmatch(text)
    if found is not None:
        *fields, fraction, zone = found.groups()
        try:
            moment = dt.datetime(*map(int, fields), tzinfo=_fixed_zone(zone))  # type: ignore[arg-type,misc]
        except ValueError:
            pass
        else:
            seconds = (moment - _EPOCH) // dt.timedelta(seconds=1)
            nanoseconds = int(f"{fraction or '':0<9}"[:9])
            return _timestamp(seconds * SECOND + nanoseconds)
    raise EvaluationError(f"parsing time {text[:80]!r}: not a timestamp of RFC 3339")


def _fixed_zone(text: str) -> dt.timezone:
    if text == "Z":
        return dt.UTC
    offset = dt.timedelta(hours=int(text[1:3]), minutes=int(text[4:6]))
    return dt.timezone(-offset if text[0] == "-" else offset)


def _timestamp(nanoseconds: int) -> Timestamp:
    if _FIRST <= nanoseconds <= _LAST:
        return Timestamp(nanoseconds)
    raise EvaluationError("timestamp overflow")


def _duration(nanoseconds: int) -> Duration:
    if MIN_INT <= nanoseconds <= MAX_INT:
        return Duration(nanoseconds)
    raise EvaluationError("duration overflow")


def add(left: Any, right: Any) -> Any:
    """Return the sum of a duration and a duration or timestamp."""
    kinds = {type(left), type(right)}
    total = int(left) + int(right) if kinds <= {Duration, Timestamp} else 0
    if kinds == {Duration}:
        return _duration(total)
    if kinds == {Duration, Timestamp}:
        return _timestamp(total)
    raise no_such_overload()


def subtract(left: Any, right: Any) -> Any:
    """Return the difference of two durations or timestamps, or a timestamp before another."""
    kinds = type(left), type(right)
    if kinds in ((Duration, Duration), (Timestamp, Timestamp)):
        return _duration(int(left) - int(right))
    if kinds == (Timestamp, Duration):
        return _timestamp(int(left) - int(right))
    raise no_such_overload()


def text(value: Any) -> str:
    """Return the text of a duration in seconds, or of a timestamp in RFC 3339."""
    if type(value) is Duration:
        whole, rest = divmod(abs(value), SECOND)
        fraction = f".{rest:09d}".rstrip("0") if rest else ""
        return f"{'-' if value < 0 else ''}{whole}{fraction}s"
    whole, rest = divmod(value, SECOND)
    moment = _EPOCH + dt.timedelta(seconds=int(whole))
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    return f"{moment:%Y-%m-%dT%H:%M:%S}".rjust(19, "0") + f"{fraction}Z"


def _local(value: Timestamp, zone: str = "UTC") -> dt.datetime:
    moment = _EPOCH + dt.timedelta(microseconds=value // 1000)
    found = _OFFSET.fullmatch(zone)
    if zone in ("", "UTC"):
        return moment
    if found is None:
        # The names of other zones stand in files, which the core does not read.
        raise EvaluationError(f"unknown time zone {zone[:80]}")
    try:
        offset = dt.timedelta(hours=int(found[2]), minutes=int(found[3]))
        return moment.astimezone(dt.timezone(-offset if found[1] == "-" else offset))
    except (ValueError, OverflowError):
        raise EvaluationError(f"unknown time zone {zone[:80]}") from None


def _reading(*arguments: Any) -> int:
    return 20


def declare(library: Library) -> None:
    """Add the methods that read fields of timestamps, and the length of durations."""
    fields = {
        "getFullYear": lambda moment: moment.year,
        "getMonth": lambda moment: moment.month - 1,
        "getDate": lambda moment: moment.day,
        "getDayOfMonth": lambda moment: moment.day - 1,
        "getDayOfWeek": lambda moment: moment.isoweekday() % 7,
        "getDayOfYear": lambda moment: moment.timetuple().tm_yday - 1,
        "getHours": lambda moment: moment.hour,
        "getMinutes": lambda moment: moment.minute,
        "getSeconds": lambda moment: moment.second,
        "getMilliseconds": lambda moment: moment.microsecond // 1000,
    }
    for name, read in fields.items():

        def body(value: Timestamp, zone: str = "UTC", read: Any = read) -> int:
            return int(read(_local(value, zone)))

        library.method(name, (TIMESTAMP,), INT, body, work=_reading)
        library.method(name, (TIMESTAMP, STRING), INT, body, work=_reading)
    per_unit = {"getHours": 3600 * SECOND, "getMinutes": 60 * SECOND, "getSeconds": SECOND}
    per_unit["getMilliseconds"] = SECOND // 1000
    for name, unit in per_unit.items():

        def length(value: Duration, unit: int = unit) -> int:
            return -int(-value // unit) if value < 0 else int(value // unit)

        library.method(name, (DURATION,), INT, length)
