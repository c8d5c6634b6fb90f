"""Measurements of the engine, as a Protocol that `scheduler.metrics` maps to Prometheus."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Final, Protocol, Self

from scheduler.engine.cycle_budget import CycleBudget
from scheduler.engine.errors import AttemptError

# Results of an attempt whose cycle used up its time budget.
GIVEN_UP: Final = "given_up"
FINISHED_LATE: Final = "finished_late"
SET_ASIDE: Final = "set_aside"
"""No cycle ran, because that of a pod of the same template had used up its budget."""

POINTS: Final = ("PreFilter", "Filter", "PostFilter", "PreScore", "Score", "Reserve", "Permit")
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
        """Observe a cycle from PreFilter to host selection, PostFilter included."""
        return

    def evaluated(self, plugin: str, point: str, profile: str, count: int = 1) -> None:
        """Count `count` nodes that a plugin evaluated at PreFilter, Filter, PreScore or Score."""
        return

    def over_budget(self, plugin: str, point: str, profile: str, seconds: float) -> None:
        """Observe that a plugin used `seconds` of one cycle, more than its time budget."""
        return

    def cycle_over_budget(self, profile: str, result: str) -> None:
        """Count a cycle that used its budget up; `result` is one of the above."""
        return


class NoMetrics(EngineMetrics):
    """Measures nothing; a stopwatch does not even call it."""


class Stopwatch:
    """Measures what one profile does, on the clock and for the metrics that were handed in."""

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
        #: Seconds that one scalar plugin may use of a cycle before that is reported.
        self.budget = budget
        #: The budget of the present cycle.
        self.cycle = cycle or CycleBudget(monotonic, float("inf"))
        #: Context managers that measure one run of an extension point, by its label.
        self.points: Final = {
            label: PointTimer(self, label, index) for index, label in enumerate(POINTS)
        }
        #: Of each of `POINTS`, the duration of its last run in the present cycle; negative: none.
        self.seconds = NOT_RUN[:]

    def begin(self) -> None:
        """Forget the durations of the last cycle."""
        self.seconds[:] = NOT_RUN

    def rows(self, plugin: str, point: str, count: int, started: float | None) -> None:
        """Report a columnar call on `count` rows; `started` is None unless the cycle is sampled."""
        if self.metrics is None:
            return
        self.metrics.evaluated(plugin, point, self.profile, count)
        if started is not None:
            self.metrics.plugin(plugin, point, "Success", self.monotonic() - started)

    def scalar(self, plugin: str, point: str, seconds: float) -> None:
        """Report a scalar plugin that used `seconds` of a cycle, over all nodes."""
        if seconds > self.budget and self.metrics is not None:
            self.metrics.over_budget(plugin, point, self.profile, seconds)


class PointTimer:
    """Measures runs of one extension point; entering checks the budget of the cycle.

    One for all cycles of a profile, because they run one at a time.
    """

    __slots__ = ("_index", "_point", "_stopwatch", "started", "status")

    def __init__(self, stopwatch: Stopwatch, point: str, index: int) -> None:
        self._stopwatch = stopwatch
        self._point = point
        self._index = index
        #: Monotonic time of the last run.
        self.started = 0.0
        #: The label to report, `Error` if the attempt fails within.
        self.status = "Success"

    def __enter__(self) -> Self:
        """Start. Raises CycleBudgetError when the cycle has used its budget up."""
        cycle = self._stopwatch.cycle
        self.status = "Success"
        self.started = now = self._stopwatch.monotonic()
        if now > cycle.deadline:
            cycle.check_cpu_time(now)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Report the duration."""
        stopwatch = self._stopwatch
        seconds = stopwatch.monotonic() - self.started
        stopwatch.seconds[self._index] = seconds
        metrics = stopwatch.metrics
        if metrics is not None:
            failed = kind is not None and issubclass(kind, AttemptError)
            status = "Error" if failed else self.status
            metrics.extension_point(self._point, status, stopwatch.profile, seconds)


def no_stopwatch() -> Stopwatch:
    """Make a stopwatch that measures nothing; every time is 0."""
    return Stopwatch(lambda: 0.0, NoMetrics(), "", float("inf"))
