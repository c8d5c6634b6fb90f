"""The CPU time that a scheduling cycle may use, and the exception that ends one that used it up.

The creator of a pod decides how much work its cycle is: thousands of affinity terms or resource
names are valid. A cycle runs in one piece, so everything else waits for it. The engine checks the
budget between plugins, and after every row where a plugin runs on rows one by one.

The CPU time of the thread counts, because it alone is caused by the pod: a machine under load
and the wait for an extender cost wall time only. Reading it is a system call, so the checks compare
wall time, and CPU time is read only when that much wall time has passed.

Invariant: outside of a cycle, and while a cycle is suspended, no check fails.
"""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from typing import Any, Final, TypeVar

from scheduler.engine.errors import AttemptError
from scheduler.framework import error

T = TypeVar("T")

NOTICEABLE_SHARE: Final = 0.02
"""Cycles that use less than this share of the budget (10 ms of 500 ms) are not accounted: they are
the ordinary ones, and reading their CPU time would cost each of them."""
_FRESH: Final = 0.005
"""Seconds of wall time for which a reading of the CPU clock serves as the start of a cycle."""


class CycleBudgetError(AttemptError):
    """Raised when the cycle used its budget up; the pod is set aside."""

    def __init__(self, used: float, limit: float) -> None:
        super().__init__(error(f"the scheduling cycle used {used:.3f}s of {limit:.3f}s"))
        self.used = used
        self.limit = limit


class CycleBudget:
    """Measures the present cycle. One for all profiles of a process: cycles run one at a time."""

    __slots__ = (
        "_collected", "_collections", "_cpu", "_cpu_mark", "_limit", "_mark", "_monotonic",
        "_slack", "_spent", "deadline", "noticeable", "running", "seconds",
    )  # fmt: skip

    def __init__(
        self,
        monotonic: Callable[[], float],
        seconds: float,
        cpu: Callable[[], float] | None = None,
        collections: Callable[[], int] = lambda: 0,
    ) -> None:
        """`seconds` is the budget of an ordinary cycle; infinite for none.

        `cpu` reads the CPU time of this thread, in seconds; None: `monotonic` is used.
        `collections` counts full garbage collections. One may take as long as the budget, and hits
        whichever cycle happens to be under way, so that cycle is measured anew from then on.
        """
        self._collections = collections
        self._collected = 0
        self._monotonic = monotonic
        self._cpu = cpu or monotonic
        self.seconds = seconds
        #: Wall time in a cycle from which on its CPU time is worth reading.
        self.noticeable = seconds * NOTICEABLE_SHARE
        #: Monotonic time until which no check has to read the CPU clock.
        self.deadline = math.inf
        self._limit = math.inf
        self._spent = 0.0
        self._mark = -math.inf
        self._cpu_mark = 0.0
        self._slack = 0.0
        #: Whether a cycle is under way and not suspended.
        self.running = False

    def separate(self) -> CycleBudget:
        """Return a budget with the same clocks for work that is no cycle."""
        return CycleBudget(self._monotonic, self.seconds, self._cpu, self._collections)

    def begin(self, now: float, limit: float) -> None:
        """Begin a cycle that may use `limit` seconds; `now` is monotonic."""
        self._limit = limit
        self._spent = 0.0
        if limit == math.inf:
            # Nothing would be compared with what is measured.
            return
        self.deadline = now + limit
        self.running = True
        slack = now - self._mark
        if slack > _FRESH:
            self._begin_stretch(now)
        else:
            # What ran since the mark was not this cycle; it had this long at most.
            self._slack = slack

    def _begin_stretch(self, now: float) -> None:
        self._mark, self._cpu_mark, self._slack = now, self._cpu(), 0.0
        self._collected = self._collections()

    def used(self, now: float) -> float:
        """Return the CPU seconds that the cycle used, at most `_FRESH` too few."""
        if not self.running:
            return self._spent
        if self._collections() != self._collected:
            self._begin_stretch(now)
        cpu = self._cpu() - self._cpu_mark
        wall = now - self._mark
        return self._spent + max(0.0, min(cpu, wall) - self._slack)

    def check(self) -> None:
        """Raise CycleBudgetError when the cycle has used its budget up."""
        now = self._monotonic()
        if now > self.deadline:
            self.check_cpu_time(now)

    def check_cpu_time(self, now: float) -> None:
        """Check the CPU time after `deadline`; fails every time until the cycle has ended."""
        used = self.used(now)
        if used >= self._limit:
            raise CycleBudgetError(used, self._limit)
        self.deadline = now + self._limit - used

    def end(self) -> None:
        """End the cycle."""
        self.running = False
        self.deadline = math.inf

    def suspend(self) -> None:
        """Stop counting while the cycle waits and other work runs."""
        self._spent = self.used(self._monotonic())
        self.end()

    def resume(self) -> None:
        """Count again: the cycle goes on."""
        now = self._monotonic()
        self._begin_stretch(now)
        self.deadline = now + self._limit - self._spent
        self.running = True

    @types.coroutine
    def metered(self, cycle: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
        """Await `cycle` with the budget suspended whenever the cycle is."""
        step: Callable[[], Any] = partial(cycle.send, None)
        while True:
            self.resume()
            try:
                awaited = step()
            except StopIteration as end:
                result: T = end.value
                return result
            finally:
                self.suspend()
            try:
                step = partial(cycle.send, (yield awaited))
            except BaseException as cause:  # noqa: BLE001 - handed on to the cycle: cancellation
                step = partial(cycle.throw, cause)
