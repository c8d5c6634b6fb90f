"""The families of one process, one per definition.

Two recorders that name the same metric share its family, such as the queue's for PreEnqueue and the
engine's for the other extension points.
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
        self._entries = {each.name: Entry(each, new_family(each)) for each in definitions}

    def entries(self) -> tuple[Entry, ...]:
        """Return all definitions with their families."""
        return tuple(self._entries.values())

    def counter(self, name: str) -> Family[FastCounter]:
        """Return the family of a counter."""
        return self._of(name, Kind.COUNTER)  # type: ignore[return-value]

    def gauge(self, name: str) -> Family[FastGauge]:
        """Return the family of a gauge."""
        return self._of(name, Kind.GAUGE)  # type: ignore[return-value]

    def histogram(self, name: str) -> Family[FastHistogram]:
        """Return the family of a histogram."""
        return self._of(name, Kind.HISTOGRAM)  # type: ignore[return-value]

    def entry(self, name: str) -> Entry:
        """Return a definition with its family; KeyError for a name that is not defined."""
        return self._entries[name]

    def _of(self, name: str, kind: Kind) -> AnyFamily:
        entry = self._entries[name]
        assert entry.definition.kind is kind, name
        return entry.family

    def reset(self) -> None:
        """Zero counters and histograms. Gauges keep their value, and every child its place."""
        for entry in self._entries.values():
            entry.family.reset()


def new_family(definition: Definition) -> AnyFamily:
    """Return the family of a definition, with its only child if it has no labels."""
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
