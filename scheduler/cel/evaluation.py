"""One evaluation of a compiled expression: its variables and what it has used so far."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from scheduler.cel.errors import EvaluationError, no_such_key, no_such_overload
from scheduler.cel.metering import Meter
from scheduler.cel.values import LISTS, map_key


class Evaluation(Meter):
    """The state of one evaluation."""

    __slots__ = ()


Code = Callable[[Evaluation], Any]
"""A compiled node: returns its value, or raises `EvaluationError`."""


class MapWithDefault(dict[Any, Any]):
    """A map that has an empty map for every unknown key, but does not list it.

    Upstream (`cel/compile.go: newStringInterfaceMapWithDefault`) wraps the domains of a device so.
    """

    __slots__ = ()

    def __missing__(self, key: object) -> dict[Any, Any]:
        return _EMPTY


_EMPTY: Final[dict[Any, Any]] = {}


def lookup(container: Any, key: Any) -> Any:
    """Return `container[key]` of a list or map."""
    if isinstance(container, dict):
        try:
            return container[key if type(key) is str else map_key(key)]
        except KeyError:
            raise no_such_key(key) from None
    if type(container) in LISTS:
        return container[list_index(container, key)]
    raise no_such_overload()


def list_index(values: Any, key: Any) -> int:
    """Return a position in a list as an integer; raises if it is none."""
    if type(key) is bool or not isinstance(key, (int, float)):
        raise no_such_overload()
    if isinstance(key, float) and not key.is_integer():  # Infinity and NaN included.
        raise no_such_overload()
    if not 0 <= key < len(values):
        raise EvaluationError(f"index out of bounds: {int(key)}")
    return int(key)


def is_present(container: Any, name: str) -> bool:
    """Whether `container.name` has a value."""
    if type(container) is MapWithDefault:
        return True
    if isinstance(container, dict):
        return name in container
    raise no_such_overload()
