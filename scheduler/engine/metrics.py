"""Measurements of the engine, as a Protocol; `scheduler.metrics` implements it for Prometheus."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable
from typing import Final, Protocol, Self

from scheduler.engine.cycle_budget import CycleBudget
from scheduler.engine.errors import AttemptError

# Results of attempts that exceeded the time budget of a cycle.
GIVEN_UP: Final = "given_up"
FINISHED_LATE: Final = "finished_late"
SET_ASIDE: Final = "set_aside"
"""The cycle did not run, because one of the same template had exceeded its budget."""

POINTS: Final = ("PreFilter", "Filter", "PostFilter", "PreScore", "Score", "Reserve", "Permit")
_FILTERING: Final = tuple(map(POINTS.index, ("PreFilter", "Filter")))
_SCORING: Final = (*_FILTERING, *map(POINTS.index, ("PreScore", "Score")))
NOT_RUN: Final = array("f", [-1.0] * len(POINTS))
"""`Stopwatch.seconds` of a cycle that ran no extension point."""


class EngineMetrics(Protocol):
    """Receiver of the engine's measurements; a subclass ignores what it does not implement.

    Durations are in seconds; labels are upstream's (pkg/scheduler/metrics/metrics.go).
    """

    def extension_point(self, point: str, status: str, profile: str, seconds: float) -> None:
        """Observe one run of an extension point over all its plugins."""
        return

    def plugin(self, plugin: str, point: str, status: str, seconds: float) -> None:
        """Observe one call of one plugin, on sampled attempts."""
        return

    def algorithm(self, seconds: float) -> None:
        """Observe the duration from PreFilter to host selection, including PostFilter."""
        return

    def evaluated(self, plugin: str, point: str, profile: str, count: int = 1) -> None:
        """Count `count` nodes that a plugin evaluated at PreFilter, Filter, PreScore or Score."""
        return

    def over_budget(self, plugin: str, point: str, profile: str, seconds: float) -> None:
        """Observe that a plugin exceeded its time budget, with `seconds` in one cycle."""
        return

    def cycle_over_budget(self, profile: str, result: str) -> None:
        """Count a cycle over budget; `result` is GIVEN_UP, FINISHED_LATE or SET_ASIDE."""
        return


class NoMetrics(EngineMetrics):
    """Measures nothing; `Stopwatch` skips its calls altogether, and notes 0 for what ran."""


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
