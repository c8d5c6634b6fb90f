"""Prometheus text of instruments: the collector, and the choice of one of the two formats.

prometheus_client formats the samples collected here. May run in a worker thread while the
loop continues to count (see `instruments`).
"""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from scheduler.metrics.definitions import Definition, Kind
from scheduler.metrics.instruments import (
    Family,
    FastCounter,
    FastGauge,
    FastHistogram,
    LabelValues,
)

AnyInstrument = FastCounter | FastGauge | FastHistogram
AnyFamily = Family[FastCounter] | Family[FastGauge] | Family[FastHistogram]

_TOTAL: Final = "_total"


@dataclass(frozen=True, slots=True)
class Entry:
    """A definition and its family of instruments."""

    definition: Definition
    family: AnyFamily


class FamilyCollector(Collector):
    """Collector of the enabled entries, sorted by name."""

    def __init__(
        self, entries: Callable[[], Iterable[Entry]], disabled: frozenset[str] = frozenset()
    ) -> None:
        """`entries` returns what is exposed at that moment; it may be called in any thread."""
        self._entries = entries
        self._disabled = disabled

    def collect(self) -> Iterator[Metric]:
        """Yield metrics with their samples; those without any child are omitted, as upstream."""
        for entry in sorted(self._entries(), key=lambda each: each.definition.name):
            if entry.definition.name in self._disabled:
                continue
            metric = _metric(entry)
            if metric.samples:
                yield metric


def render(registry: CollectorRegistry, accept: str) -> tuple[bytes, str]:
    """Return the text for a scraper's `Accept` header, and its content type."""
    encoder, content_type = choose_encoder(accept)
    return encoder(registry), content_type


def _metric(entry: Entry) -> Metric:
    definition = entry.definition
    counter = definition.kind is Kind.COUNTER
    # The library appends `_total` itself, in both formats.
    name = definition.name.removesuffix(_TOTAL) if counter else definition.name
    metric = Metric(name, definition.help, definition.kind.value)
    children: ItemsView[LabelValues, AnyInstrument] = entry.family.items()
    # `sorted` copies in one step, so a child made meanwhile cannot disturb the iteration.
    for values, child in sorted(children, key=itemgetter(0)):
        labels = dict(zip(definition.labels, values, strict=True))
        if isinstance(child, FastHistogram):
            _add_histogram(metric, labels, child)
        else:
            metric.add_sample(name + _TOTAL if counter else name, labels, child.value)
    return metric


def _add_histogram(metric: Metric, labels: Mapping[str, str], child: FastHistogram) -> None:
    total = 0
    bounds = (*map(_bound, child.bounds), "+Inf")
    for bound, count in zip(bounds, child.cumulative(), strict=True):
        total = count
        metric.add_sample(metric.name + "_bucket", {**labels, "le": bound}, count)
    metric.add_sample(metric.name + "_sum", dict(labels), child.sum)
    metric.add_sample(metric.name + "_count", dict(labels), total)


def _bound(bound: float) -> str:
    """Return `le` as Go prints it (`1`, not `1.0`), so that upstream's queries match."""
    return str(int(bound)) if bound.is_integer() else str(bound)
