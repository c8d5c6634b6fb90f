"""The library `strings` of cel-go, version 2 (`ext/strings.go`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from scheduler.cel.declarations import (
    STRING_FACTOR,
    Library,
    bounded,
    first_traversal,
    first_traversal_twice,
    traversal,
)
from scheduler.cel.errors import EvaluationError
from scheduler.cel.libraries.formatting import format_text
from scheduler.cel.types import DYN, INT, STRING, list_of

_SPACE: Final = " \t\n\v\f\r\x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)
_UPPER: Final = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}
_LOWER: Final = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_QUOTED: Final = str.maketrans(
    {
        "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t",
        "\v": "\\v", "\\": "\\\\", '"': '\\"',
    }
)  # fmt: skip


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
        return text.rfind(part)
    if part == "":
        return offset
    if not 0 <= offset <= len(text):
        raise EvaluationError(f"index out of range: {offset}")
    return text.rfind(part, 0, offset + len(part))


def join(parts: Sequence[Any], separator: str = "") -> str:
    """Return the strings one after another."""
    if not all(type(each) is str for each in parts):
        raise EvaluationError("no such overload")
    bounded(sum(map(len, parts)) + len(separator) * len(parts))
    return separator.join(parts)


def replace(text: str, old: str, new: str, limit: int = -1) -> str:
    """Replace the first `limit` occurrences, all if it is negative."""
    occurrences = text.count(old)
    replaced = occurrences if limit < 0 else min(occurrences, limit)
    bounded(len(text) + replaced * (len(new) - len(old)))
    return text.replace(old, new, limit)


def split(text: str, separator: str, limit: int = -1) -> list[str]:
    """Split into at most `limit` parts, without a limit if it is negative."""
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


def _walk(arguments: Sequence[Any], result: Any) -> int:
    # Truncated, as `library/cost.go: traversalCost`.
    return math.floor(len(arguments[0]) * STRING_FACTOR)


def _result_twice(arguments: Sequence[Any], result: Any) -> int:
    return traversal(result, 2 * STRING_FACTOR)


def _library() -> Library:
    library = Library()
    add = library.method
    add("charAt", (STRING, INT), STRING, char_at)
    add("indexOf", (STRING, STRING), INT, index_of, _walk)
    add("indexOf", (STRING, STRING, INT), INT, index_of, _walk)
    add("lastIndexOf", (STRING, STRING), INT, last_index_of, _walk)
    add("lastIndexOf", (STRING, STRING, INT), INT, last_index_of, _walk)
    add("join", (list_of(STRING),), STRING, join, _result_twice)
    add("join", (list_of(STRING), STRING), STRING, join, _result_twice)
    add("lowerAscii", (STRING,), STRING, lambda text: text.translate(_LOWER), first_traversal)
    add("upperAscii", (STRING,), STRING, lambda text: text.translate(_UPPER), first_traversal)
    add("replace", (STRING, STRING, STRING), STRING, replace, first_traversal_twice)
    add("replace", (STRING, STRING, STRING, INT), STRING, replace, first_traversal_twice)
    add("split", (STRING, STRING), list_of(STRING), split, first_traversal_twice)
    add("split", (STRING, STRING, INT), list_of(STRING), split, first_traversal_twice)
    add("substring", (STRING, INT), STRING, substring, first_traversal)
    add("substring", (STRING, INT, INT), STRING, substring, first_traversal)
    add("trim", (STRING,), STRING, lambda text: text.strip(_SPACE), first_traversal)
    add("format", (STRING, list_of(DYN)), STRING, format_text)
    library.function("strings.quote", (STRING,), STRING, quote)
    return library


FUNCTIONS: Final = _library().functions
