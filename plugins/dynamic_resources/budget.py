"""The limit of a search for devices (upstream: gate DRASchedulerFilterTimeout, `filterTimeout`).

A search may take exponentially many steps, and an expression may be expensive on each of thousands
of devices. Everything else waits meanwhile. So the limits are for all nodes of an attempt together,
where upstream has a time limit for each node: the budget of the scheduling cycle, the timeout, and
a number of steps, since the clock of a simulation stands still during a search. What was found out
before the limit is kept for the next attempt.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, Protocol

MAX_STEPS: Final = 2_000_000
"""Two to ten seconds."""
_STEPS_PER_READING: Final = 64


class Check(Protocol):
    """Raises an error of its own if the search must end."""

    def __call__(self, steps: int = 1) -> None:
        """Called for the steps of the search, or for so many of them at once."""
        ...


class SearchTimeoutError(Exception):
    """Raised when the budget is used up."""


class SearchBudget:
    """Limits the searches of one attempt; called for the steps of their work."""

    __slots__ = ("_check_time", "_deadline", "_monotonic", "_next_reading", "_seconds", "_steps")

    def __init__(
        self,
        monotonic: Callable[[], float],
        seconds: float,
        check_time: Callable[[], None] = lambda: None,
    ) -> None:
        """The time begins with the first step; `seconds` of 0 are no limit.

        `check_time` raises when the cycle has used its time up.
        """
        self._monotonic = monotonic
        self._seconds = seconds
        self._check_time = check_time
        self._deadline = math.inf
        self._steps = self._next_reading = 0

    def __call__(self, steps: int = 1) -> None:
        """Count steps; raises `SearchTimeoutError` after the last, or what `check_time` does."""
        first = not self._steps
        self._steps += steps
        if self._steps < self._next_reading:
            return
        self._next_reading = self._steps + _STEPS_PER_READING
        self._check_time()
        if not self._seconds:
            return
        now = self._monotonic()
        if first:
            self._deadline = now + self._seconds
        elif now > self._deadline or self._steps > MAX_STEPS:
            raise SearchTimeoutError
