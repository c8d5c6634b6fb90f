"""Metrics: upstream's `scheduler_*` names, labels and buckets, and ours under `kubestow_*`."""

from scheduler.metrics.definitions import DEFINITIONS, NOT_SERVED
from scheduler.metrics.plugin_metrics import DeclaredMetrics, PluginFamilies
from scheduler.metrics.scheduler_metrics import SchedulerMetrics

__all__ = [
    "DEFINITIONS",
    "NOT_SERVED",
    "DeclaredMetrics",
    "PluginFamilies",
    "SchedulerMetrics",
]
