"""Collection of all errors of a configuration, and the wording of each.

Invariant: no check stops at the first error. Each check adds its errors under their YAML paths, and
loading raises them all together at its end. This module knows nothing of the schema.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from scheduler.framework.status import ConfigurationError

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*\Z")


@dataclass(frozen=True, slots=True)
class FieldError:
    """One error: the YAML path of the field, and a sentence about it."""

    path: str
    message: str


class FieldErrors:
    """The errors found so far. `places` maps a path to a position such as `line 12`."""

    def __init__(self, places: Mapping[str, str] | None = None) -> None:
        self._places = places if places is not None else {}
        self._found: list[FieldError] = []
        self._paths: set[str] = set()

    def add(self, path: str, message: str) -> None:
        """Record an error; the same sentence at the same path is recorded once."""
        problem = FieldError(path, message)
        if problem not in self._found:
            self._found.append(problem)
            self._paths.add(path)

    def has(self, path: str) -> bool:
        """Whether there is an error exactly at `path`; later checks then skip it."""
        return path in self._paths

    def __bool__(self) -> bool:
        return bool(self._found)

    def lines(self) -> list[str]:
        """Return one line per error: path, sentence, and position in the file."""
        return [self._line(problem) for problem in self._found]

    def raise_if_any(self) -> None:
        """Raise a ConfigurationError with all errors, if there are any."""
        if self._found:
            raise ConfigurationError(self.lines())

    def _line(self, problem: FieldError) -> str:
        text = f"{problem.path}: {problem.message}" if problem.path else problem.message
        place = self._place(problem.path)
        return f"{text} ({place})" if place else text

    def _place(self, path: str) -> str | None:
        # A missing field has no position, so show that of the nearest enclosing mapping.
        while path:
            place = self._places.get(path)
            if place is not None:
                return place
            path = parent(path)
        return None


def child(path: str, key: str) -> str:
    """Return the path of a mapping entry.

    >>> child("profiles[0]", "schedulerName"), child("labels", "a.b/c")
    ('profiles[0].schedulerName', 'labels["a.b/c"]')
    """
    if not _PLAIN_KEY.match(key):
        return f"{path}[{json.dumps(key)}]"
    return f"{path}.{key}" if path else key


def item(path: str, index: int) -> str:
    """Return the path of a list entry."""
    return f"{path}[{index}]"


def below(path: str, relative: str) -> str:
    """Join two paths: `below("a", "b[0]")` is `a.b[0]`."""
    if not relative:
        return path
    return f"{path}{relative}" if relative.startswith("[") or not path else f"{path}.{relative}"


def parent(path: str) -> str:
    """Return the path of the enclosing mapping or list; empty at the top.

    >>> parent("profiles[0].plugins"), parent("profiles[0]"), parent("profiles")
    ('profiles[0]', 'profiles', '')
    """
    if path.endswith("]"):
        return path[: path.rindex("[")]
    return path.rpartition(".")[0]


def did_you_mean(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """Return `; did you mean "X"?`; empty if no known name is similar: 1 is equal, 0 different."""
    found = nearest(name, known, cutoff=cutoff)
    return f'; did you mean "{found}"?' if found else ""


def nearest(name: str, known: Iterable[str], *, cutoff: float) -> str:
    """Return the known name that is most similar; empty if none is."""
    by_lower = {candidate.lower(): candidate for candidate in sorted(known)}
    found = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=cutoff)
    return by_lower[found[0]] if found else ""


def invalid(value: object, detail: str) -> str:
    """Return upstream's wording for a well-formed but wrong value."""
    return f"Invalid value: {_shown(value)}: {detail}"


def required(detail: str = "") -> str:
    """Return upstream's wording for a missing value."""
    return f"Required value: {detail}" if detail else "Required value"


def duplicate(value: object) -> str:
    """Return upstream's wording for a repeated value that must be unique."""
    return f"Duplicate value: {_shown(value)}"


def forbidden(detail: str) -> str:
    """Return upstream's wording for a value that is not allowed here."""
    return f"Forbidden: {detail}"


def unsupported(value: object, supported: Iterable[object]) -> str:
    """Return upstream's wording for a value outside a fixed set, and the most similar member."""
    allowed = [str(one) for one in supported]
    names = ", ".join(json.dumps(one) for one in allowed)
    hint = did_you_mean(value, allowed) if isinstance(value, str) else ""
    return f"Unsupported value: {_shown(value)}: supported values: {names}{hint}"


def _shown(value: object) -> str:
    if isinstance(value, str | bool | int | float | list | dict) or value is None:
        return json.dumps(value, ensure_ascii=False)
    return json.dumps(str(value), ensure_ascii=False)
