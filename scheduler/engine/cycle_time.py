"""The time of a scheduling cycle: its budget of CPU time, and what each extension point takes.

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
from array import array
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from typing import Any, Final, Self, TypeVar

from scheduler.engine.errors import AttemptError, CycleBudgetError
from scheduler.engine.metrics import POINTS, EngineMetrics, NoMetrics

T = TypeVar("T")

_FILTERING: Final = tuple(map(POINTS.index, ("PreFilter", "Filter")))
_SCORING: Final = (*_FILTERING, *map(POINTS.index, ("PreScore", "Score")))
NOT_RUN: Final = array("f", [-1.0] * len(POINTS))
"""`Stopwatch.seconds` of a cycle that ran no extension point."""

NOTICEABLE_SHARE: Final = 0.02
"""The CPU time of cycles shorter than this share of the budget (10 ms of 500 ms) is not read: most
cycles are that short, and the system call would cost each of them."""
_FRESH: Final = 0.005
"""Maximum age, in seconds of wall time, of a CPU clock reading that is used as a cycle's start."""


class CycleBudget:
    """Measures the current cycle. Shared by all profiles, since cycles run one at a time."""

    __slots__ = (
        "_collected", "_collections", "_cpu", "_cpu_mark", "_limit", "_mark", "_monotonic",
        "_slack", "_spent", "deadline", "noticeable", "running", "seconds", "suspended",
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
        #: Whether the current cycle was suspended.
        self.suspended = False

    def separate(self) -> CycleBudget:
        """Return a budget with the same clocks, for work other than the current cycle."""
        return CycleBudget(self._monotonic, self.seconds, self._cpu, self._collections)

    def begin(self, now: float, limit: float) -> None:
        """Begin a cycle that may use `limit` seconds; `now` is monotonic."""
        self._limit = limit
        self._spent = 0.0
        self.suspended = False
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
        self.suspended = True
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
        """Await `cycle`, which has begun, and suspend the budget whenever it is suspended."""
        step: Callable[[], Any] = partial(cycle.send, None)
        while True:
            try:
                awaited = step()
            except StopIteration as end:
                result: T = end.value
                return result
            self.suspend()
            try:
                step = partial(cycle.send, (yield awaited))
            except BaseException as cause:  # noqa: BLE001 - handed on to the cycle: cancellation
                step = partial(cycle.throw, cause)
            self.resume()


class Stopwatch:
    """Measures the extension points and plugins of one profile."""

    __slots__ = ("budget", "cycle", "metrics", "monotonic", "points", "profile", "seconds")

    def __init__(
        self,
        monotonic: Callable[[], float],
        metrics: EngineMetrics,
        profile: str,
        budget: float,
        cycle: CycleBudget | None = None,
    ) -> None:
        self.monotonic = monotonic
        self.metrics = None if type(metrics) is NoMetrics else metrics
        self.profile = profile
        #: Seconds per cycle from which on a scalar plugin is reported as over budget.
        self.budget = budget
        #: The CPU time budget of the current cycle.
        self.cycle = cycle or CycleBudget(monotonic, float("inf"))
        #: Context managers that measure one run of an extension point, by its label.
        self.points: Final = {
            label: PointTimer(self, label, index) for index, label in enumerate(POINTS)
        }
        #: For each of `POINTS` the duration of its last run in the current cycle; negative: none.
        self.seconds = NOT_RUN[:]

    def begin(self) -> None:
        """Reset the durations at the start of a cycle."""
        self.seconds[:] = NOT_RUN

    def repeated(self, *, scored: bool) -> None:
        """Note that the points up to the choice of a node took no time, since nothing ran."""
        for index in _SCORING if scored else _FILTERING:
            self.seconds[index] = 0.0

    def rows(self, plugin: str, point: str, count: int, started: float | None) -> None:
        """Report a columnar call on `count` rows; `started` is None unless the cycle is sampled."""
        if self.metrics is None:
            return
        self.metrics.evaluated(plugin, point, self.profile, count)
        if started is not None:
            self.metrics.plugin(plugin, point, "Success", self.monotonic() - started)

    def scalar(self, plugin: str, point: str, seconds: float) -> None:
        """Report the time of a scalar plugin over all nodes of a cycle, if it is over budget."""
        if seconds > self.budget and self.metrics is not None:
            self.metrics.over_budget(plugin, point, self.profile, seconds)


class PointTimer:
    """Context manager that measures runs of one extension point, within the cycle's budget.

    It is shared by all cycles of a profile, because they run one at a time.
    """

    __slots__ = ("_index", "_point", "_stopwatch", "started", "status")

    def __init__(self, stopwatch: Stopwatch, point: str, index: int) -> None:
        self._stopwatch = stopwatch
        self._point = point
        self._index = index
        #: Monotonic time of the last run.
        self.started = 0.0
        #: The status label to report, unless the block raises AttemptError (`Error`).
        self.status = "Success"

    def __enter__(self) -> Self:
        """Start measuring. Raises CycleBudgetError if the cycle has exceeded its budget."""
        stopwatch = self._stopwatch
        cycle = stopwatch.cycle
        self.status = "Success"
        if stopwatch.metrics is None and cycle.deadline == math.inf:
            # Nobody reads a duration. In virtual time, it is 0 in any case.
            return self
        self.started = now = stopwatch.monotonic()
        if now > cycle.deadline:
            cycle.check_cpu_time(now)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Report the duration."""
        stopwatch = self._stopwatch
        metrics = stopwatch.metrics
        if metrics is None:
            stopwatch.seconds[self._index] = 0.0
        else:
            seconds = stopwatch.monotonic() - self.started
            stopwatch.seconds[self._index] = seconds
            failed = kind is not None and issubclass(kind, AttemptError)
            status = "Error" if failed else self.status
            metrics.extension_point(self._point, status, stopwatch.profile, seconds)


def no_stopwatch() -> Stopwatch:
    """Return a stopwatch that measures nothing; its clock always reads 0."""
    return Stopwatch(lambda: 0.0, NoMetrics(), "", float("inf"))
