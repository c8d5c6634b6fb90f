"""Metrics: upstream's `scheduler_*` names, labels and buckets, and ours under `kubestow_*`."""

from scheduler.metrics.build_info import BuildInfo, build_info
from scheduler.metrics.definitions import DEFINITIONS, NOT_SERVED, Definition, Kind
from scheduler.metrics.recorders import ClientFacet, EngineFacet, QueueFacet
from scheduler.metrics.scheduler_metrics import SchedulerMetrics

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
