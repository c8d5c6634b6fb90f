"""Regular expressions, and the library `regex` of Kubernetes.

RE2 matches in linear time, whatever the pattern. Source: the CEL language definition, "Regular
Expressions", and `library/regex.go`.
"""

from __future__ import annotations

import re
import sys
from functools import partial
from typing import Any, Final

import re2

from scheduler.api.bounded_cache import BoundedCache
from scheduler.cel.declarations import Library, matching
from scheduler.cel.errors import EvaluationError
from scheduler.cel.metering import REFERENCE_BYTES, Meter
from scheduler.cel.types import INT, STRING, list_of

MAX_MEMORY: Final = 256 << 10
"""Bytes that one compiled pattern may take, some 10,000 states.

A match cannot be interrupted and takes time in proportion to the states and the text. With RE2's
default of 8 MiB, a pattern of 300 characters takes 1.5 s on a text of 4,000."""

MAX_STATES: Final = 20_000
"""Estimated states of a pattern that RE2 is asked to compile. It refuses some 10,000, but only
after it has expanded all repetitions, which takes 170 ms for a thousand times `a{0,1000}`."""

_CACHE_BYTES: Final = 16 << 20
_TEXT_BYTES: Final = 76
_CALL_WORK: Final = 35
_MATCH_WORK: Final = 70
"""Units of work to return a match, as measured for texts of characters that are not ASCII."""

_OPTIONS: Final = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.max_mem = MAX_MEMORY


_cache: Final[BoundedCache[str, tuple[Any, int]]] = BoundedCache(_CACHE_BYTES)


def compiled(meter: Meter, pattern: str) -> tuple[Any, int]:
    """Return the compiled pattern and the number of its states; cached.

    Raises `EvaluationError` if RE2 does not accept it.
    """
    found = _cache.get(pattern)
    if found is not None:
        return found
    meter.spend(100 + 6 * len(pattern))
    states = _states(pattern)
    if states > MAX_STATES:
        raise EvaluationError("error parsing regexp: pattern too large - compile failed")
    meter.spend(2 * states)
    program = _compiled(pattern)
    found = (program, program.programsize)
    _cache.put(pattern, found, MAX_MEMORY + sys.getsizeof(pattern))
    return found


_PART: Final = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]|\{(\d{1,4})(?:,(\d{0,4}))?\}|.", re.DOTALL)
_CLASS_STATES: Final = 100
"""States of a class of Unicode, such as `\\pL`; the largest have some hundreds."""


def _states(pattern: str) -> int:
    """Estimate the states of a pattern after its repetitions are expanded."""
    groups = [0]
    last = 0
    for found in _PART.finditer(pattern):
        part = found[0]
        if part == "(":
            groups.append(0)
            last = 0
        elif part == ")":
            last = groups.pop() if len(groups) > 1 else 1
            groups[-1] += last
        elif found[1]:
            times = max(int(found[1]), int(found[2] or 0))
            groups[-1] += last * max(times - 1, 0)
            last *= max(times, 1)
        else:
            last = len(part) + _CLASS_STATES * part.lower().count("\\p")
            groups[-1] += last
    return sum(groups)


def _compiled(pattern: str) -> Any:
    try:
        return re2.compile(pattern, _OPTIONS)
    except re2.error as error:
        reason = error.args[0] if error.args else "unknown"
        shown = reason.decode(errors="replace") if isinstance(reason, bytes) else reason
        raise EvaluationError(f"error parsing regexp: {shown}") from None


def _ready(meter: Meter, text: str, pattern: str) -> tuple[Any, int]:
    """Return the compiled pattern and its states, and account for the work of one match."""
    program, states = compiled(meter, pattern)
    meter.spend(_CALL_WORK + _work(states, len(text)))
    return program, states


def _work(states: int, characters: int) -> int:
    """Return the work of a match: RE2 may try all states at each character, 10 ns for each."""
    return states * characters // 10


def matches(meter: Meter, text: str, pattern: str) -> bool:
    """Whether a part of the text matches."""
    program, _ = _ready(meter, text, pattern)
    return program.search(text) is not None


def find(meter: Meter, text: str, pattern: str) -> str:
    """Return the first match, or an empty string."""
    program, _ = _ready(meter, text, pattern)
    found = program.search(text)
    meter.hold(sys.getsizeof(text))
    return found[0] if found else ""


def find_all(meter: Meter, text: str, pattern: str, limit: int = -1) -> list[str]:
    """Return the first `limit` matches, all if it is negative."""
    found: list[str] = []
    program, states = _ready(meter, text, pattern)
    meter.hold(sys.getsizeof(text))
    for each in program.finditer(text):
        if 0 <= limit <= len(found):
            break
        # The search for the next match may reach the end of the text.
        meter.spend(_MATCH_WORK + _work(states, len(text) - each.start()))
        meter.make(1, _TEXT_BYTES + REFERENCE_BYTES)
        found.append(each[0])
    return found


def _library() -> Library:
    library = Library()
    method = partial(library.method, cost=matching, is_metered=True)
    method("find", (STRING, STRING), STRING, find)
    method("findAll", (STRING, STRING), list_of(STRING), find_all)
    method("findAll", (STRING, STRING, INT), list_of(STRING), find_all)
    return library


FUNCTIONS: Final = _library().functions
