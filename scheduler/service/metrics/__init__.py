"""Metrics: upstream's `scheduler_*` names, labels and buckets, and ours under `kubestow_*`."""

from scheduler.service.metrics.build_info import BuildInfo, build_info
from scheduler.service.metrics.definitions import DEFINITIONS, NOT_SERVED, Definition, Kind
from scheduler.service.metrics.facets import ClientFacet, EngineFacet, QueueFacet
from scheduler.service.metrics.scheduler_metrics import SchedulerMetrics

__all__ = [
    "DEFINITIONS",
    "NOT_SERVED",
    "BuildInfo",
    "ClientFacet",
    "Definition",
    "EngineFacet",
    "Kind",
    "QueueFacet",
    "SchedulerMetrics",
    "build_info",
]
