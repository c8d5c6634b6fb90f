"""Counters, gauges and histograms that cost a fraction of a microsecond.

A pod is scheduled in a few hundred microseconds and is measured some thirty times on the way;
prometheus_client's own instruments (a lock, a generator, up to twenty comparisons an observation)
would take a tenth of that. These take a list index and an addition.

Invariant: written from one thread (the event loop) only. Reading from another thread is safe for a
whole exposition: readers copy lists and item views in one step each, so the worst they see is an
observation that is counted and not yet summed. Names and formats are in `exposition`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import Final, Generic, TypeVar

LabelValues = tuple[str, ...]
"""In the order of the family's label names; empty where there are none."""


class FastCounter:
    """A number that only grows."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def inc(self, amount: float = 1.0) -> None:
        """Add `amount`, which must not be negative."""
        self.value += amount

    def reset(self) -> None:
        """Set the value to 0."""
        self.value = 0.0


class FastGauge:
    """A number that goes up and down."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def set(self, value: float) -> None:
        """Replace the value."""
        self.value = value

    def add(self, delta: float) -> None:
        """Change the value by `delta`."""
        self.value += delta

    def reset(self) -> None:
        """Do nothing: a gauge holds a current state, to which later deltas refer."""


class FastHistogram:
    """Observations counted in buckets; a value equal to a bound belongs to that bound's bucket."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        #: Upper bounds, ascending, without +Inf.
        self.bounds: Final = bounds
        #: Observations per bucket, not cumulated; the last is everything above the bounds.
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        """Count one observation."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    @property
    def count(self) -> int:
        """Number of observations."""
        return sum(self.counts)

    def cumulative(self) -> Iterator[int]:
        """Yield the number of observations up to each bound, then of all."""
        total = 0
        for count in list(self.counts):
            total += count
            yield total

    def reset(self) -> None:
        """Drop all observations."""
        self.counts = [0] * len(self.counts)
        self.sum = 0.0


Instrument = TypeVar("Instrument", bound="FastCounter | FastGauge | FastHistogram")


class Family(dict[LabelValues, Instrument], Generic[Instrument]):
    """The instruments of one metric by label values; `family[values]` creates a missing one.

    `reset` removes no child, so callers may keep it; only plugins remove series of their own.
    """

    __slots__ = ("_make",)

    def __init__(self, make: Callable[[], Instrument]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, values: LabelValues) -> Instrument:
        child = self[values] = self._make()
        return child

    def reset(self) -> None:
        """Reset every child."""
        for child in self.values():
            child.reset()
