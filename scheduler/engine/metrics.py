"""Measurements of the engine, as a Protocol; `scheduler.metrics` implements it for Prometheus."""

from __future__ import annotations

from typing import Final, Protocol

# Results of attempts that exceeded the time budget of a cycle.
GIVEN_UP: Final = "given_up"
FINISHED_LATE: Final = "finished_late"
SET_ASIDE: Final = "set_aside"
"""The cycle did not run, because one of the same template had exceeded its budget."""

POINTS: Final = ("PreFilter", "Filter", "PostFilter", "PreScore", "Score", "Reserve", "Permit")


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
