"""The scheduling queue: pending pods wait at no cost, wake on change, and are never lost."""

from scheduler.queue.cluster_events import EventFeatures, node_events, pod_events
from scheduler.queue.metrics import NoMetrics, QueueMetrics
from scheduler.queue.nominator import NominationListener, PodLister, QueueNominator
from scheduler.queue.queue import SchedulingQueue
from scheduler.queue.queueing_hints import (
    DEFAULT_EVENTS,
    EXTENDER,
    QueueingHintMap,
    build_hint_map,
    registered_resources,
)
from scheduler.queue.statistics import (
    AlreadyQueuedError,
    PodView,
    QueueInvariantError,
    QueueState,
    QueueStatistics,
)

__all__ = [
    "DEFAULT_EVENTS",
    "EXTENDER",
    "AlreadyQueuedError",
    "EventFeatures",
    "NoMetrics",
    "NominationListener",
    "PodLister",
    "PodView",
    "QueueInvariantError",
    "QueueMetrics",
    "QueueNominator",
    "QueueState",
    "QueueStatistics",
    "QueueingHintMap",
    "SchedulingQueue",
    "build_hint_map",
    "node_events",
    "pod_events",
    "registered_resources",
]
