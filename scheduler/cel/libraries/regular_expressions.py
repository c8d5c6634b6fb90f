"""Regular expressions, and the library `regex` of Kubernetes.

RE2 matches in linear time, whatever the pattern. Source: the CEL language definition, "Regular
Expressions", and `library/regex.go`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import re2

from scheduler.cel.declarations import Library, matching
from scheduler.cel.errors import COST_LIMIT_EXCEEDED, EvaluationCancelledError, EvaluationError
from scheduler.cel.types import INT, STRING, list_of

MAX_MEMORY: Final = 256 << 10
"""Bytes that one compiled pattern may take, some 10,000 states.

A match cannot be interrupted and takes time in proportion to the states and the text. With RE2's
default of 8 MiB, a pattern of 300 characters takes 1.5 s on a text of 4,000."""

MAX_MATCHES: Final = 10_000
"""Matches that one call may return, some 70 ms. A text can have as many as it has characters."""

_OPTIONS: Final = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.max_mem = MAX_MEMORY


@lru_cache(maxsize=64)
def compiled(pattern: str) -> Any:
    """Return the compiled pattern; raises `EvaluationError` if RE2 does not accept it. Cached."""
    try:
        return re2.compile(pattern, _OPTIONS)
    except re2.error as error:
        reason = error.args[0] if error.args else "unknown"
        shown = reason.decode(errors="replace") if isinstance(reason, bytes) else reason
        raise EvaluationError(f"error parsing regexp: {shown}") from None


def matches(text: str, pattern: str) -> bool:
    """Whether a part of the text matches."""
    return compiled(pattern).search(text) is not None


def find(text: str, pattern: str) -> str:
    """Return the first match, or an empty string."""
    found = compiled(pattern).search(text)
    return found[0] if found else ""


def find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    """Return the first `limit` matches, all if it is negative; raises if they are too many."""
    found: list[str] = []
    for each in compiled(pattern).finditer(text):
        if 0 <= limit <= len(found):
            break
        if len(found) == MAX_MATCHES:
            raise EvaluationCancelledError(COST_LIMIT_EXCEEDED)
        found.append(each[0])
    return found


def _library() -> Library:
    library = Library()
    library.method("find", (STRING, STRING), STRING, find, matching)
    library.method("findAll", (STRING, STRING), list_of(STRING), find_all, matching)
    library.method("findAll", (STRING, STRING, INT), list_of(STRING), find_all, matching)
    return library


FUNCTIONS: Final = _library().functions
