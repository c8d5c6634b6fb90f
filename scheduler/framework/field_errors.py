"""Collecting what is wrong with a configuration.

Invariant: nothing in this package stops at the first mistake. Every check adds a problem under
the YAML path it belongs to, and only the end of loading raises, once, with all of them. It knows
no schema.
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
    """One mistake: the YAML path it is at, and a sentence."""

    path: str
    message: str


class FieldErrors:
    """The mistakes found so far. `places` maps a path to words such as `line 12`."""

    def __init__(self, places: Mapping[str, str] | None = None) -> None:
        self._places = places if places is not None else {}
        self._found: list[FieldError] = []
        self._paths: set[str] = set()

    def add(self, path: str, message: str) -> None:
        """Record a mistake. The same sentence at the same path is recorded once."""
        problem = FieldError(path, message)
        if problem not in self._found:
            self._found.append(problem)
            self._paths.add(path)

    def has(self, path: str) -> bool:
        """Whether something is wrong exactly at `path`; later checks leave it alone then."""
        return path in self._paths

    def __bool__(self) -> bool:
        return bool(self._found)

    def lines(self) -> list[str]:
        """One sentence per mistake: path, what is wrong, and where the path is in the file."""
        return [self._line(problem) for problem in self._found]

    def raise_if_any(self) -> None:
        """ConfigurationError with every mistake, if there is one."""
        if self._found:
            raise ConfigurationError(self.lines())

    def _line(self, problem: FieldError) -> str:
        text = f"{problem.path}: {problem.message}" if problem.path else problem.message
        place = self._place(problem.path)
        return f"{text} ({place})" if place else text

    def _place(self, path: str) -> str | None:
        # What is missing has no line of its own; its nearest enclosing mapping has.
        while path:
            place = self._places.get(path)
            if place is not None:
                return place
            path = parent(path)
        return None


def child(path: str, key: str) -> str:
    """The path of a mapping entry.

    >>> child("profiles[0]", "schedulerName"), child("labels", "a.b/c")
    ('profiles[0].schedulerName', 'labels["a.b/c"]')
    """
    if not _PLAIN_KEY.match(key):
        return f"{path}[{json.dumps(key)}]"
    return f"{path}.{key}" if path else key


def item(path: str, index: int) -> str:
    """The path of a list entry."""
    return f"{path}[{index}]"


def below(path: str, relative: str) -> str:
    """A path below another, given as text: `below("a", "b[0]")` is `a.b[0]`."""
    if not relative:
        return path
    return f"{path}{relative}" if relative.startswith("[") or not path else f"{path}.{relative}"


def parent(path: str) -> str:
    """The path of the enclosing mapping or list; empty at the top.

    >>> parent("profiles[0].plugins"), parent("profiles[0]"), parent("profiles")
    ('profiles[0]', 'profiles', '')
    """
    if path.endswith("]"):
        return path[: path.rindex("[")]
    return path.rpartition(".")[0]


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that `name` was probably meant to be, or None."""
    by_lower = {candidate.lower(): candidate for candidate in sorted(known)}
    found = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[found[0]] if found else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`; did you mean "X"?`, or nothing when no known name is close."""
    found = nearest(name, known)
    return f'; did you mean "{found}"?' if found else ""


def invalid(value: object, detail: str) -> str:
    """Upstream's wording for a value that is well-formed and wrong."""
    return f"Invalid value: {_shown(value)}: {detail}"


def required(detail: str = "") -> str:
    """Upstream's wording for a value that is not there."""
    return f"Required value: {detail}" if detail else "Required value"


def duplicate(value: object) -> str:
    """Upstream's wording for a value that must be unique and is not."""
    return f"Duplicate value: {_shown(value)}"


def forbidden(detail: str) -> str:
    """Upstream's wording for a value that may not be given here."""
    return f"Forbidden: {detail}"


def unsupported(value: object, supported: Iterable[object]) -> str:
    """Upstream's wording for a value outside a fixed set, with the nearest one."""
    allowed = [str(one) for one in supported]
    names = ", ".join(json.dumps(one) for one in allowed)
    hint = did_you_mean(value, allowed) if isinstance(value, str) else ""
    return f"Unsupported value: {_shown(value)}: supported values: {names}{hint}"


def _shown(value: object) -> str:
    if isinstance(value, str | bool | int | float | list | dict) or value is None:
        return json.dumps(value, ensure_ascii=False)
    return json.dumps(str(value), ensure_ascii=False)
