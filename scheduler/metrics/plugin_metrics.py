"""Metrics that plugins declare: created with the plugin, exposed while it is in use.

Instances of one plugin in several profiles, and before and after a reload, share the instruments of
an equal declaration. The number of series and the length of label values are bounded here, since a
plugin may take label values from objects that tenants write.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from scheduler.framework import ConfigurationError, Metric, PluginMetrics, Subscriptions
from scheduler.metrics.definitions import Definition, Kind
from scheduler.metrics.exposition import AnyInstrument, Entry
from scheduler.metrics.families import Families, new_family
from scheduler.metrics.instruments import FastCounter, FastGauge, FastHistogram, LabelValues

MAX_SERIES: Final = 1_000
"""Label sets of one metric; further ones are dropped and counted."""
MAX_LABEL_LENGTH: Final = 256
"""Characters of a label value; the rest is cut off."""

_DROPPED: Final = "kubestow_plugin_metric_samples_dropped_total"


@dataclass(slots=True)
class _Declared:
    """One metric, and the number of plugin instances in use that declare it."""

    metric: Metric
    plugin: str
    entry: Entry
    users: int = 0


class PluginFamilies:
    """The metrics that plugins declared, by name. Touched from the event loop only."""

    def __init__(self, families: Families) -> None:
        self._families = families
        self._declared: dict[str, _Declared] = {}
        self._dropped = families.counter(_DROPPED)

    def begin(self) -> None:
        """Forget what an earlier attempt to build plugins declared, and nothing uses."""
        for name in [name for name, each in self._declared.items() if not each.users]:
            del self._declared[name]

    def declare(self, plugin: str, metrics: Iterable[Metric]) -> DeclaredMetrics:
        """Create what is new among `metrics`; nothing is exposed yet.

        Raises:
            ConfigurationError: the name is taken by another metric.
        """
        return DeclaredMetrics(
            self, {each.name: self._find(plugin, each) for each in metrics}, self._families
        )

    def entries(self) -> tuple[Entry, ...]:
        """Return what is exposed. Safe in another thread."""
        return tuple(each.entry for each in tuple(self._declared.values()) if each.users)

    def reset(self) -> None:
        """Zero counters and histograms."""
        for each in self._declared.values():
            each.entry.family.reset()

    def drop_sample(self, name: str) -> None:
        """Count a sample that would have begun a series too many."""
        self._dropped[name,].inc()

    def use(self, declared: _Declared) -> None:
        """Note a user; the metric may have been forgotten since it was declared."""
        declared.users += 1
        self._declared.setdefault(declared.metric.name, declared)

    def release(self, declared: _Declared) -> None:
        """Forget a metric when its last user is gone."""
        declared.users -= 1
        if not declared.users and self._declared.get(declared.metric.name) is declared:
            del self._declared[declared.metric.name]

    def _find(self, plugin: str, metric: Metric) -> _Declared:
        known = self._declared.get(metric.name)
        if known is not None and known.metric == metric and known.plugin == plugin:
            return known
        if known is not None:
            hint = (
                "restart kubestow to change the declaration of a metric"
                if known.plugin == plugin
                else "give one of them another name"
            )
            msg = f"plugin {plugin}: metric {metric.name} is declared by plugin {known.plugin}: "
            raise ConfigurationError(msg + hint)
        definition = Definition(
            metric.name, Kind(metric.kind), metric.help, metric.labels, metric.buckets
        )
        made = _Declared(metric, plugin, Entry(definition, new_family(definition)))
        self._declared[metric.name] = made
        return made


class DeclaredMetrics(PluginMetrics):
    """The metrics of one plugin instance; implements `framework.PluginMetrics`.

    In-tree plugins write metrics of `definitions.toml` as well.
    """

    def __init__(
        self, owner: PluginFamilies, declared: Mapping[str, _Declared], families: Families
    ) -> None:
        self._owner = owner
        self._declared = declared
        self._families = families
        self._exposed = False

    def expose(self) -> None:
        """Expose the metrics from now on; nothing if they are already."""
        if not self._exposed:
            self._exposed = True
            for each in self._declared.values():
                self._owner.use(each)

    def forget_with(self, subscriptions: Subscriptions) -> None:
        """Forget series with the objects that they describe."""
        for name, each in self._declared.items():
            if each.metric.describes:
                subscriptions.on_object(each.metric.describes, partial(self._on_object, name))

    def withdraw(self) -> None:
        """End the use by this instance; a metric without users is no longer exposed."""
        if self._exposed:
            self._exposed = False
            for each in self._declared.values():
                self._owner.release(each)

    def count(self, name: str, *labels: str, amount: float = 1.0) -> None:
        """Add to a counter; ValueError for a negative amount."""
        if amount < 0:
            msg = f"{name}: a counter cannot be counted down by {amount}; use a gauge"
            raise ValueError(msg)
        found = self._instrument(name, labels, Kind.COUNTER)
        if isinstance(found, FastCounter):
            found.inc(amount)

    def gauge(self, name: str, *labels: str, value: float) -> None:
        """Set a gauge."""
        found = self._instrument(name, labels, Kind.GAUGE)
        if isinstance(found, FastGauge):
            found.set(value)

    def observe(self, name: str, *labels: str, value: float) -> None:
        """Observe a value in a histogram."""
        found = self._instrument(name, labels, Kind.HISTOGRAM)
        if isinstance(found, FastHistogram):
            found.observe(value)

    def forget(self, name: str, *labels: str) -> None:
        """Remove the series whose first labels these are."""
        family, first = self._declared[name].entry.family, _kept(labels)
        for values in [each for each in family if each[: len(first)] == first]:
            del family[values]

    def _on_object(self, name: str, old: Any | None, new: Any | None) -> None:
        if new is None and old is not None:
            namespace = old.metadata.namespace
            self.forget(name, *((namespace,) if namespace else ()), old.metadata.name)

    def _instrument(self, name: str, labels: LabelValues, kind: Kind) -> AnyInstrument | None:
        """Return the instrument of a series; None for a series too many."""
        declared = self._declared.get(name)
        entry = self._families.entry(name) if declared is None else declared.entry
        definition, family = entry.definition, entry.family
        if definition.kind is not kind or len(labels) != len(definition.labels):
            known = ", ".join(definition.labels) or "none"
            msg = f"{name} is a {definition.kind.value} with labels: {known}"
            raise ValueError(msg)
        if declared is None:
            return family[labels]
        if labels in family:
            return family[labels]
        kept = _kept(labels)
        if kept not in family and len(family) >= MAX_SERIES:
            self._owner.drop_sample(name)
            return None
        return family[kept]


def _kept(labels: LabelValues) -> LabelValues:
    return tuple(str(each)[:MAX_LABEL_LENGTH] for each in labels)
