"""Samples of a run at equal distances, and the figures of the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from scheduler.offline.figures import Gauge, figures

if TYPE_CHECKING:
    from scheduler.offline.records import Result
    from scheduler.offline.trace import Arrival
    from scheduler.offline.world import World

SAMPLES: Final = 200
"""Samples of a run of `kubestow simulate` with a workload or a length."""

Sample = Mapping[str, float]
"""Measures at one time; see `Gauge.sample`."""


class Sampler:
    """Takes a sample at equal distances as long as something is on the agenda."""

    def __init__(
        self,
        world: World,
        arrivals: Sequence[Arrival],
        until: float | None,
        count: int,
        on_sample: Callable[[Sample], None] | None = None,
    ) -> None:
        """Prepare; see `World.run`. Nothing is measured before `begin`."""
        self._world, self._on_sample = world, on_sample
        self._gauge = Gauge(world, arrivals)
        self._interval = _length(world, arrivals, until) / count if count else 0.0
        self.samples: list[Sample] = []

    def begin(self) -> None:
        """Take samples from now on, the first one after the first distance."""
        if self._interval > 0:
            self._world.at(self._world.now + self._interval, self._next)

    def _next(self) -> None:
        self.take()
        if self._world._busy:
            self._world.at(self._world.now + self._interval, self._next)

    def take(self) -> None:
        """Take a sample, in place of another one of this time."""
        sample = self._gauge.sample()
        if self.samples and self.samples[-1]["time"] == sample["time"]:
            self.samples.pop()
        self.samples.append(sample)
        if self._on_sample is not None:
            self._on_sample(sample)

    def figures(self, result: Result) -> dict[str, float]:
        """Return the figures at the end, after the last sample."""
        return figures(self._world, self._gauge, result, self.samples)


def _length(world: World, arrivals: Sequence[Arrival], until: float | None) -> float:
    """Return for how long something is known to happen."""
    if until is None:
        last = max((each.time for each in arrivals), default=0.0)
        until = last + max((each.duration or 0.0 for each in arrivals), default=0.0)
        until = max(until, world.recorded)
    return until - world.now
