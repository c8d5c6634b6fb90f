"""The limit of a search for devices (upstream: gate DRASchedulerFilterTimeout, `filterTimeout`).

A search may take exponentially many steps, and an expression may be expensive on each of thousands
of devices, while everything else waits. So there are three limits for all nodes of an attempt
together (upstream has a timeout per node): the budget of the scheduling cycle, the timeout, and a
number of steps, since the clock of a simulation stands still during a search. Results found before
a limit was reached are kept for the next attempt.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, Protocol

MAX_STEPS: Final = 2_000_000
"""Maximum number of steps of an attempt; they take two to ten seconds."""
_STEPS_PER_READING: Final = 64
EXPENSIVE_STEPS: Final = 500
"""Steps that some 2 ms of parsing, compiling or evaluating one expression count as."""
MAX_EXPENSIVE: Final = 5
"""Such calls after which an attempt begins nothing else.

What is under way is not interrupted, so that every attempt makes progress: it takes at most 100 ms
(`scheduler.cel.metering`)."""


class Check(Protocol):
    """A callback that raises its own exception if the search must end."""

    def __call__(self, steps: int = 1) -> None:
        """Account for `steps` steps of the search."""
        ...


class SearchTimeoutError(Exception):
    """Raised when the budget is exhausted."""


class ExpensiveSelectorsError(SearchTimeoutError):
    """Raised when expensive expressions have taken their share of an attempt."""


class SearchBudget:
    """Limits the searches of one attempt; implements `Check`."""

    __slots__ = (
        "_check_time", "_deadline", "_expensive", "_monotonic", "_next_reading", "_seconds",
        "_steps",
    )  # fmt: skip

    def __init__(
        self,
        monotonic: Callable[[], float],
        seconds: float,
        check_time: Callable[[], None] = lambda: None,
    ) -> None:
        """Create a budget of `seconds` (0: no limit), which starts with the first step.

        `check_time` raises if the cycle has exceeded its time budget.
        """
        self._monotonic = monotonic
        self._seconds = seconds
        self._check_time = check_time
        self._deadline = math.inf
        self._steps = self._next_reading = self._expensive = 0

    def __call__(self, steps: int = 1) -> None:
        """Count steps; raises `SearchTimeoutError` at the limit, or the error of `check_time`."""
        first = not self._steps
        self._steps += steps
        if self._steps < self._next_reading:
            return
        if steps >= EXPENSIVE_STEPS:
            self._expensive += 1
        elif self._expensive >= MAX_EXPENSIVE:
            raise ExpensiveSelectorsError
        if self._expensive < MAX_EXPENSIVE:
            self._next_reading = self._steps + _STEPS_PER_READING
        self._check_time()
        if not self._seconds:
            return
        now = self._monotonic()
        if first:
            self._deadline = now + self._seconds
        elif now > self._deadline or self._steps > MAX_STEPS:
            raise SearchTimeoutError
