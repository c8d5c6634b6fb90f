"""`/metrics/slis`: results of health checks, as service level indicators.

Separate from the other metrics, as upstream: these are few and scraped often.
"""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry

from scheduler.metrics.definitions import Definition, Kind
from scheduler.metrics.exposition import FamilyCollector, render
from scheduler.metrics.families import Families

HEALTHCHECK: Final = Definition(
    "kubernetes_healthcheck",
    Kind.GAUGE,
    "[STABLE] Result of the last run of a health check: 1 healthy, 0 not.",
    ("name", "type"),
)
HEALTHCHECKS_TOTAL: Final = Definition(
    "kubernetes_healthchecks_total",
    Kind.COUNTER,
    "[STABLE] Results of all runs of a health check.",
    ("name", "status", "type"),
)


class HealthSlis:
    """The results of `HealthChecks` as metrics."""

    def __init__(self) -> None:
        families = Families((HEALTHCHECK, HEALTHCHECKS_TOTAL))
        self._last = families.gauge(HEALTHCHECK.name)
        self._total = families.counter(HEALTHCHECKS_TOTAL.name)
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(FamilyCollector(families.entries))

    def record(self, name: str, endpoint: str, *, healthy: bool) -> None:
        """Record one result of a check."""
        self._last[name, endpoint].set(1.0 if healthy else 0.0)
        self._total[name, "success" if healthy else "error", endpoint].inc()

    def exposition(self, accept: str = "") -> tuple[bytes, str]:
        """Return the text and its content type."""
        return render(self._registry, accept)
