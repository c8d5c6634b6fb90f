"""The families of one process: one per definition, made on first mention.

Two reporters that name the same definition share one family; that is how PreEnqueue, run by the
queue, and Filter, run by the engine, end up under one metric.
"""

from __future__ import annotations

from functools import partial

from scheduler.metrics.definitions import Definition, Kind
from scheduler.metrics.exposition import AnyFamily, Entry
from scheduler.metrics.instruments import (
    Family,
    FastCounter,
    FastGauge,
    FastHistogram,
)


class Families:
    """Families by definition. A metric without labels has its only child from the start."""

    def __init__(self, definitions: tuple[Definition, ...]) -> None:
        self._entries = {each.name: Entry(each, _family(each)) for each in definitions}

    def entries(self) -> tuple[Entry, ...]:
        """Everything there is."""
        return tuple(self._entries.values())

    def counter(self, definition: Definition) -> Family[FastCounter]:
        """The family of a counter."""
        assert definition.kind is Kind.COUNTER
        return self._entries[definition.name].family  # type: ignore[return-value]

    def gauge(self, definition: Definition) -> Family[FastGauge]:
        """The family of a gauge."""
        assert definition.kind is Kind.GAUGE
        return self._entries[definition.name].family  # type: ignore[return-value]

    def histogram(self, definition: Definition) -> Family[FastHistogram]:
        """The family of a histogram."""
        assert definition.kind is Kind.HISTOGRAM
        return self._entries[definition.name].family  # type: ignore[return-value]

    def reset(self) -> None:
        """Zero counters and histograms. Gauges keep their value, and every child its place."""
        for entry in self._entries.values():
            entry.family.reset()


def _family(definition: Definition) -> AnyFamily:
    family: AnyFamily
    match definition.kind:
        case Kind.COUNTER:
            family = Family(FastCounter)
        case Kind.GAUGE:
            family = Family(FastGauge)
        case Kind.HISTOGRAM:
            family = Family(partial(FastHistogram, definition.buckets))
    if not definition.labels:
        family[()]
    return family
