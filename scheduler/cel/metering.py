"""The account of one evaluation: its cost, the work really done, and the memory taken.

The API server's cost is an estimate for another implementation: `format` and the concatenation of
lists are charged one unit, however large their arguments are. Work is counted beside it, in units
of 0.1 to 0.4 µs: a step of the evaluation, an element that a loop in Python looks at, a hundred
bytes that are copied. Both limits and the check for interruption share one comparison, `_stop`,
because most calls cost one unit and do no other work.

Memory is counted when a value is made and given back when the iteration of a loop that returns no
part of it has ended, so it is never less than what is alive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from scheduler.cel.errors import (
    COST_LIMIT_EXCEEDED,
    MEMORY_LIMIT_EXCEEDED,
    WORK_LIMIT_EXCEEDED,
    EvaluationCancelledError,
)

COST_LIMIT: Final = 1_000_000
"""Cost units that one evaluation may take (`resource.k8s.io/v1`,
`CELSelectorExpressionMaxCost`)."""

MAX_WORK: Final = 150_000
"""Units of work and cost together that one evaluation may take, some 15 to 60 ms."""

MAX_COMPILE_WORK: Final = 1_000_000
"""Units of work that one expression may take to parse, and to compile; each some 80 ms."""

MAX_PIECE: Final = 50_000
"""Units of work that may be done without a check for interruption, some 5 to 20 ms."""

WORK_PER_CHECK: Final = 20_000
"""Units of work and cost between two calls of the check for interruption, some 2 to 8 ms."""

MAX_MEMORY: Final = 32 << 20
"""Bytes that the values of one evaluation may take."""

MAX_RESULT_SIZE: Final = 1_000_000
"""Characters of a string and elements of a list that one call may make. To walk over that many
costs the whole limit in bytes, or a tenth of it in characters."""

LIST_BYTES: Final = 72
REFERENCE_BYTES: Final = 9
"""Bytes of an empty list, and of each reference in one that grows."""
NUMBER_BYTES: Final = 32
"""Bytes of a number."""

_CHUNK: Final = 500
_WALK_WORK: Final = 8

Check = Callable[[], None]
"""Raises `EvaluationCancelledError` if the evaluation must end."""


class Meter:
    """Cost, work and memory of one evaluation; raises `EvaluationCancelledError` at a limit."""

    __slots__ = ("_begin", "_check", "_max_work", "_stop", "cost", "memory", "variables", "work")

    def __init__(
        self, variables: list[Any], check: Check | None = None, max_work: int = MAX_WORK
    ) -> None:
        #: Values of the variables, by the position that the compiler gave them.
        self.variables = variables
        #: Cost units so far.
        self.cost = 0
        #: Units of work before the last look, without the cost.
        self.work = 0
        #: Bytes of the values that may be alive.
        self.memory = 0
        self._check = check
        self._max_work = max_work
        # The cost from which on limits and check are looked at; work lowers it.
        self._begin = self._stop = WORK_PER_CHECK

    def charge(self, units: int) -> None:
        """Add to the cost."""
        self.cost += units
        if self.cost > self._stop:
            self._look()

    def spend(self, units: int) -> None:
        """Add to the work, before it is done; refuses a piece that takes too long."""
        if units > MAX_PIECE:
            raise EvaluationCancelledError(WORK_LIMIT_EXCEEDED)
        self._stop -= units
        if self.cost > self._stop:
            self._look()

    def forgive(self, units: int) -> None:
        """Take from the work what a call is charged, but does not do."""
        self._stop = min(COST_LIMIT, self._stop + units)

    def iterate(self, units: int, work: int) -> None:
        """Add the cost and the work of one iteration of a macro."""
        self.cost += units
        self._stop -= work
        if self.cost > self._stop:
            self._look()

    def _look(self) -> None:
        self.work += self._begin - self._stop
        if self.cost > COST_LIMIT:
            raise EvaluationCancelledError(COST_LIMIT_EXCEEDED)
        if self.cost + self.work > self._max_work:
            raise EvaluationCancelledError(WORK_LIMIT_EXCEEDED)
        if self._check is not None:
            self._check()
        self._begin = self._stop = min(COST_LIMIT, self.cost + WORK_PER_CHECK)

    def hold(self, size: int) -> None:
        """Add bytes to the memory, if possible before they are taken."""
        self.memory += size
        if self.memory > MAX_MEMORY:
            raise EvaluationCancelledError(MEMORY_LIMIT_EXCEEDED)

    def make(self, elements: int, size: int = REFERENCE_BYTES) -> None:
        """Account for a new list, with the bytes of each element."""
        bounded(elements)
        self.hold(LIST_BYTES + elements * size)

    def walk(self, values: Sequence[Any], units: int = 1) -> Iterator[Any]:
        """Yield the elements of a list, and account for each with `units` of work."""
        self.spend(_WALK_WORK)
        for start in range(0, len(values), _CHUNK):
            chunk = values[start : start + _CHUNK]
            self.spend(len(chunk) * units)
            yield from chunk


def bounded(size: int) -> None:
    """Refuse a result that is too large, before it is made."""
    if size > MAX_RESULT_SIZE:
        raise EvaluationCancelledError(COST_LIMIT_EXCEEDED)


def pieces(characters: int, per_unit: float) -> int:
    """Return the units of work of an operation, of which one unit handles `per_unit` characters."""
    return int(characters / per_unit) + 1
