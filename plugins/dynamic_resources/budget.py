"""The limit of a search for devices (upstream: gate DRASchedulerFilterTimeout, `filterTimeout`).

A search may take exponentially many steps, and an expression may be expensive on each of thousands
of devices. Everything else waits meanwhile, so the limit is one for all nodes of an attempt, in
time and in checks; upstream has a time limit for each node. What was found out before the limit is
kept for the next attempt.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

MAX_CHECKS: Final = 1_000_000
"""About two seconds. The clock of a simulation stands still during a search."""
_CHECKS_PER_READING: Final = 64


class SearchTimeoutError(Exception):
    """Raised when the budget is used up."""


class SearchBudget:
    """Limits the searches of one attempt; called for each step of work."""

    __slots__ = ("_checks", "_deadline", "_monotonic", "_seconds")

    def __init__(self, monotonic: Callable[[], float], seconds: float) -> None:
        """The time begins with the first check; `seconds` of 0 are no limit."""
        self._monotonic = monotonic
        self._seconds = seconds
        self._deadline = math.inf
        self._checks = 0

    def __call__(self) -> None:
        """Count a step; raises `SearchTimeoutError` after the last one."""
        checks = self._checks
        self._checks = checks + 1
        if checks % _CHECKS_PER_READING or not self._seconds:
            return
        now = self._monotonic()
        if not checks:
            self._deadline = now + self._seconds
        elif now > self._deadline or checks > MAX_CHECKS:
            raise SearchTimeoutError
