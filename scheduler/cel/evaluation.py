"""One evaluation of a compiled expression: its variables and its cost so far."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from scheduler.cel.errors import (
    COST_LIMIT_EXCEEDED,
    EvaluationCancelledError,
    EvaluationError,
    no_such_key,
    no_such_overload,
)
from scheduler.cel.values import LISTS, map_key

COST_LIMIT: Final = 1_000_000
"""Cost units that one evaluation may take (`resource.k8s.io/v1`,
`CELSelectorExpressionMaxCost`)."""

CHECK_FREQUENCY: Final = 100
"""Iterations of macros between two calls of the check for interruption
(`apis/cel/config.go: CheckFrequency`)."""

EXPENSIVE_UNITS: Final = 100
"""Cost of one call after which the check for interruption is called as well: a regular expression
may take milliseconds, so that counting iterations is not enough."""

Check = Callable[[], None]
"""Raises `EvaluationCancelledError` if the evaluation must end."""


class Evaluation:
    """The state of one evaluation."""

    __slots__ = ("_check", "_iterations", "_limit", "cost", "variables")

    def __init__(
        self, variables: list[Any], check: Check | None = None, limit: int = COST_LIMIT
    ) -> None:
        #: Values of the variables, by the position that the compiler gave them.
        self.variables = variables
        #: Cost units so far.
        self.cost = 0
        self._limit = limit
        self._check = check
        self._iterations = 0

    def charge(self, units: int) -> None:
        """Add to the cost; raises `EvaluationCancelledError` above the limit."""
        self.cost += units
        if self.cost > self._limit:
            raise EvaluationCancelledError(COST_LIMIT_EXCEEDED)
        if units >= EXPENSIVE_UNITS and self._check is not None:
            self._check()

    def iterate(self, units: int) -> None:
        """Add the cost of one iteration of a macro, and look for an interruption now and then."""
        self._iterations += 1
        if self._check is not None and self._iterations % CHECK_FREQUENCY == 0:
            self._check()
        self.charge(units)


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
