"""What the engine measures, as a Protocol that the service maps to Prometheus."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from scheduler.engine.cycle_budget import CycleBudget

GIVEN_UP: Final = "given_up"
FINISHED_LATE: Final = "finished_late"
SET_ASIDE: Final = "set_aside"
OVERRUN_RESULTS: Final = (GIVEN_UP, FINISHED_LATE, SET_ASIDE)
"""What became of an attempt whose cycle used up its time budget; the last one was not made at all,
because a pod of the same template had."""


class EngineMetrics(Protocol):
    """Durations are in seconds; labels are upstream's (framework-cycle-config.md section 10)."""

    def extension_point(self, point: str, status: str, profile: str, seconds: float) -> None:
        """One run of an extension point over all its plugins."""
        ...

    def plugin(self, plugin: str, point: str, status: str, seconds: float) -> None:
        """One call of one plugin, on sampled attempts."""
        ...

    def algorithm(self, seconds: float) -> None:
        """PreFilter to host selection, PostFilter included."""
        ...

    def evaluated(self, plugin: str, point: str, profile: str, count: int = 1) -> None:
        """A plugin was asked at PreFilter, Filter, PreScore or Score, about `count` nodes."""
        ...

    def over_budget(self, plugin: str, point: str, seconds: float) -> None:
        """A scalar plugin used `seconds` of one cycle, more than its time budget."""
        ...

    def cycle_over_budget(self, profile: str, result: str) -> None:
        """A cycle used its budget up; `result` is one of `OVERRUN_RESULTS`."""
        ...


class NoMetrics:
    """Measures nothing."""

    def extension_point(self, point: str, status: str, profile: str, seconds: float) -> None:
        """Ignore."""

    def plugin(self, plugin: str, point: str, status: str, seconds: float) -> None:
        """Ignore."""

    def algorithm(self, seconds: float) -> None:
        """Ignore."""

    def evaluated(self, plugin: str, point: str, profile: str, count: int = 1) -> None:
        """Ignore."""

    def over_budget(self, plugin: str, point: str, seconds: float) -> None:
        """Ignore."""

    def cycle_over_budget(self, profile: str, result: str) -> None:
        """Ignore."""


class Stopwatch:
    """Measures what one profile does, on the clock and for the metrics that were handed in."""

    __slots__ = ("budget", "cycle", "metrics", "monotonic", "profile")

    def __init__(
        self,
        monotonic: Callable[[], float],
        metrics: EngineMetrics,
        profile: str,
        budget: float,
        cycle: CycleBudget | None = None,
    ) -> None:
        self.monotonic = monotonic
        self.metrics = metrics
        self.profile = profile
        #: Seconds that one scalar plugin may use of a cycle before that is reported.
        self.budget = budget
        #: The budget of the present cycle.
        self.cycle = cycle or CycleBudget(monotonic, float("inf"))

    def start(self) -> float:
        """The time, for `point`; CycleBudgetError when the cycle has used its budget up."""
        now = self.monotonic()
        if now > self.cycle.deadline:
            self.cycle.look_closer(now)
        return now

    def point(self, point: str, status: str, started: float) -> None:
        """An extension point that began at `started` has ended."""
        self.metrics.extension_point(point, status, self.profile, self.monotonic() - started)

    def rows(self, plugin: str, point: str, count: int, started: float | None) -> None:
        """A plugin was asked about `count` rows; `started` is None unless the cycle is sampled."""
        self.metrics.evaluated(plugin, point, self.profile, count)
        if started is not None:
            self.metrics.plugin(plugin, point, "Success", self.monotonic() - started)

    def scalar(self, plugin: str, point: str, seconds: float) -> None:
        """A scalar plugin used `seconds` of a cycle, over all nodes."""
        if seconds > self.budget:
            self.metrics.over_budget(plugin, point, seconds)


def no_stopwatch() -> Stopwatch:
    """Measures nothing; every time is 0."""
    return Stopwatch(lambda: 0.0, NoMetrics(), "", float("inf"))
