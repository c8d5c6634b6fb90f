"""The library `strings` of cel-go, version 2 (`ext/strings.go`)."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

from scheduler.cel.declarations import (
    STRING_FACTOR,
    Library,
    covered,
    first_traversal,
    first_traversal_twice,
    traversal,
)
from scheduler.cel.errors import EvaluationError
from scheduler.cel.libraries.formatting import format_text
from scheduler.cel.metering import REFERENCE_BYTES, Meter, bounded, pieces
from scheduler.cel.types import DYN, INT, STRING, list_of

_SPACE: Final = " \t\n\v\f\r\x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)
_QUOTED: Final = str.maketrans(
    {
        "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t",
        "\v": "\\v", "\\": "\\\\", '"': '\\"',
    }
)  # fmt: skip


_AT_ONCE: Final = 100_000


def char_at(text: str, index: int) -> str:
    """Return the character at a position; an empty string at the end."""
    if not 0 <= index <= len(text):
        raise EvaluationError(f"index out of range: {index}")
    return text[index : index + 1]


def index_of(text: str, part: str, offset: int = 0) -> int:
    """Return the position of the first occurrence from `offset` on, -1 without any."""
    if part == "":
        return offset
    if not 0 <= offset <= len(text):
        raise EvaluationError(f"index out of range: {offset}")
    return text.find(part, offset)


def last_index_of(text: str, part: str, offset: int | None = None) -> int:
    """Return the position of the last occurrence at `offset` or before, -1 without any."""
    if offset is None:
        return _last(text, part)
    if part == "":
        return offset
    if not 0 <= offset <= len(text):
        raise EvaluationError(f"index out of range: {offset}")
    return _last(text[: offset + len(part)], part)


def _last(text: str, part: str) -> int:
    # Python searches forwards in linear time, backwards in that of both lengths multiplied.
    position = text[::-1].find(part[::-1])
    return -1 if position < 0 else len(text) - position - len(part)


def _searching(text: str, part: str, *rest: Any) -> int:
    """Return the work of a search; Python compares naively in short texts (`fastsearch.h`)."""
    length, size = len(text), len(part)
    is_naive = length < 2500 or size < 6 or (size < 100 and length < 30_000)
    return pieces(length * max(size, 1), 100) if is_naive else pieces(length + size, 10)


def _lower(text: str) -> str:
    return _ascii_case(text, bytes.lower)


def _upper(text: str) -> str:
    return _ascii_case(text, bytes.upper)


def _ascii_case(text: str, change: Callable[[bytes], bytes]) -> str:
    # Bytes, because `str.translate` takes 50 ns for each character that is not ASCII. In parts,
    # because they take up to 20 bytes for each on the way.
    if len(text) > _AT_ONCE:
        parts = (text[i : i + _AT_ONCE] for i in range(0, len(text), _AT_ONCE))
        return "".join(_ascii_case(each, change) for each in parts)
    return change(text.encode(errors="surrogatepass")).decode(errors="surrogatepass")


def join(meter: Meter, parts: Sequence[Any], separator: str = "") -> str:
    """Return the strings one after another."""
    size = len(separator) * len(parts)
    for each in meter.walk(parts, 3):
        if type(each) is not str:
            raise EvaluationError("no such overload")
        size += len(each)
    bounded(size)
    return _made(meter, separator.join(parts))


def replace(meter: Meter, text: str, old: str, new: str, limit: int = -1) -> str:
    """Replace the first `limit` occurrences, all if it is negative."""
    meter.spend(2 * _searching(text, old))
    occurrences = text.count(old)
    replaced = occurrences if limit < 0 else min(occurrences, limit)
    bounded(len(text) + replaced * (len(new) - len(old)))
    meter.spend(pieces(replaced, 4))
    return _made(meter, text.replace(old, new, limit))


def _made(meter: Meter, text: str) -> str:
    size = sys.getsizeof(text)
    meter.hold(size)
    meter.spend(size // 200)
    return text


_TEXT_BYTES: Final = 76
"""Bytes of a text without its characters."""


def split(meter: Meter, text: str, separator: str, limit: int = -1) -> list[str]:
    """Split into at most `limit` parts, without a limit if it is negative."""
    meter.spend(2 * _searching(text, separator))
    parts = text.count(separator) + 1
    parts = parts if limit < 0 else min(parts, limit)
    meter.spend(pieces(parts, 2))
    meter.make(parts, REFERENCE_BYTES + _TEXT_BYTES)
    meter.hold(sys.getsizeof(text))
    if limit == 0:
        return []
    if separator == "":
        head = text if limit < 0 or limit >= len(text) else text[: limit - 1]
        return [*head, text[len(head) :]] if len(head) < len(text) else list(head)
    return text.split(separator, limit - 1 if limit > 0 else -1)


def substring(text: str, start: int, end: int | None = None) -> str:
    """Return the characters from `start` to before `end`."""
    if end is None:
        end = len(text)
    if start > end:
        raise EvaluationError(f"invalid substring range. start: {start}, end: {end}")
    for each in (start, end):
        if not 0 <= each <= len(text):
            raise EvaluationError(f"index out of range: {each}")
    return text[start:end]


def quote(text: str) -> str:
    """Return the text in double quotes, with escapes."""
    bounded(2 * len(text))
    return f'"{text.translate(_QUOTED)}"'


def _quoting(text: str) -> int:
    return pieces(len(text), 2)


def _walk(arguments: Sequence[Any], result: Any) -> int:
    # Truncated, as `library/cost.go: traversalCost`.
    return math.floor(len(arguments[0]) * STRING_FACTOR)


def _result_twice(arguments: Sequence[Any], result: Any) -> int:
    return traversal(result, 2 * STRING_FACTOR)


def _library() -> Library:
    library = Library()
    add = library.method
    add("charAt", (STRING, INT), STRING, char_at, work=covered)
    add("indexOf", (STRING, STRING), INT, index_of, _walk, _searching)
    add("indexOf", (STRING, STRING, INT), INT, index_of, _walk, _searching)
    add("lastIndexOf", (STRING, STRING), INT, last_index_of, _walk, _searching)
    add("lastIndexOf", (STRING, STRING, INT), INT, last_index_of, _walk, _searching)
    add("join", (list_of(STRING),), STRING, join, _result_twice, is_metered=True)
    add("join", (list_of(STRING), STRING), STRING, join, _result_twice, is_metered=True)
    add("lowerAscii", (STRING,), STRING, _lower, first_traversal, covered)
    add("upperAscii", (STRING,), STRING, _upper, first_traversal, covered)
    for rest in ((), (INT,)):
        replacing = (STRING, STRING, STRING, *rest)
        add("replace", replacing, STRING, replace, first_traversal_twice, is_metered=True)
        splitting = (STRING, STRING, *rest)
        add("split", splitting, list_of(STRING), split, first_traversal_twice, is_metered=True)
        add("substring", (STRING, INT, *rest), STRING, substring, first_traversal, covered)
    add("trim", (STRING,), STRING, lambda text: text.strip(_SPACE), first_traversal, covered)
    add("format", (STRING, list_of(DYN)), STRING, format_text, is_metered=True)
    library.function("strings.quote", (STRING,), STRING, quote, work=_quoting)
    return library


FUNCTIONS: Final = _library().functions
