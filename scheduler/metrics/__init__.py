"""Metrics: upstream's `scheduler_*` names, labels and buckets, and ours under `kubestow_*`."""

from scheduler.metrics.build_info import BuildInfo, build_info
from scheduler.metrics.definitions import DEFINITIONS, NOT_SERVED, Definition, Kind
from scheduler.metrics.recorders import ClientRecorder, EngineRecorder, QueueRecorder
from scheduler.metrics.scheduler_metrics import SchedulerMetrics

__all__ = [
    "DEFINITIONS",
    "NOT_SERVED",
    "BuildInfo",
    "ClientRecorder",
    "Definition",
    "EngineRecorder",
    "Kind",
    "QueueRecorder",
    "SchedulerMetrics",
    "build_info",
]
