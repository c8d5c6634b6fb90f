"""The CPU time budget of a scheduling cycle, and the exception that ends a cycle over budget.

Whoever creates a pod determines how long its cycle takes: thousands of affinity terms or resource
names are valid. A cycle is not preemptible, so everything else waits for it. The engine checks the
budget between plugins, and after every row where a plugin runs row by row.

The budget counts the CPU time of the thread, since load on the machine and waiting for extenders
cost wall time only, for which the pod is not to blame. Reading CPU time is a system call, so checks
compare wall time first, and read CPU time only when as much wall time as the limit has passed.

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
"""The CPU time of cycles shorter than this share of the budget (10 ms of 500 ms) is not read: most
cycles are that short, and the system call would cost each of them."""
_FRESH: Final = 0.005
"""Maximum age, in seconds of wall time, of a CPU clock reading that is used as a cycle's start."""


class CycleBudgetError(AttemptError):
    """Raised when a cycle has exceeded its budget; the pod is then set aside for a while."""

    def __init__(self, used: float, limit: float) -> None:
        super().__init__(error(f"the scheduling cycle used {used:.3f}s of {limit:.3f}s"))
        self.used = used
        self.limit = limit


class CycleBudget:
    """Measures the current cycle. Shared by all profiles, since cycles run one at a time."""

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
        """Create a budget of `seconds` per ordinary cycle; infinity means no limit.

        `cpu` returns the CPU time of this thread in seconds (default: `monotonic`). `collections`
        returns the number of full garbage collections so far. One of these may take as long as the
        budget, in whichever cycle it happens, so the measurement restarts after it.
        """
        self._collections = collections
        self._collected = 0
        self._monotonic = monotonic
        self._cpu = cpu or monotonic
        self.seconds = seconds
        #: Wall time of a cycle, in seconds, from which on its CPU time is read.
        self.noticeable = seconds * NOTICEABLE_SHARE
        #: Monotonic time until which checks need not read the CPU clock.
        self.deadline = math.inf
        self._limit = math.inf
        self._spent = 0.0
        self._mark = -math.inf
        self._cpu_mark = 0.0
        self._slack = 0.0
        #: Whether a cycle is under way and not suspended.
        self.running = False

    def separate(self) -> CycleBudget:
        """Return a budget with the same clocks, for work other than the current cycle."""
        return CycleBudget(self._monotonic, self.seconds, self._cpu, self._collections)

    def begin(self, now: float, limit: float) -> None:
        """Begin a cycle that may use `limit` seconds; `now` is monotonic."""
        self._limit = limit
        self._spent = 0.0
        if limit == math.inf:
            # There is no limit to compare a measurement with.
            return
        self.deadline = now + limit
        self.running = True
        slack = now - self._mark
        if slack > _FRESH:
            self._begin_stretch(now)
        else:
            # Other work ran since the mark. It took at most this long; `used` subtracts that.
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
        """Check the CPU time, after `deadline`. Once it has raised, it raises until `end`."""
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
        """Start counting again when the suspended cycle continues."""
        now = self._monotonic()
        self._begin_stretch(now)
        self.deadline = now + self._limit - self._spent
        self.running = True

    @types.coroutine
    def metered(self, cycle: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
        """Await `cycle`, suspending the budget whenever the cycle is suspended."""
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
