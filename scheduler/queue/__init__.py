"""The scheduling queue: pending pods wait without polling, are requeued by events, never lost."""

from scheduler.explain.records import PodView, QueueState, QueueStatistics
from scheduler.queue.cluster_events import EventFeatures, node_events, pod_events
from scheduler.queue.introspection import QueueInvariantError
from scheduler.queue.nominator import QueueNominator
from scheduler.queue.parts import QueueOptions, QueueProfiles
from scheduler.queue.queue import AlreadyQueuedError, SchedulingQueue
from scheduler.queue.queueing_hints import (
    DEFAULT_EVENTS,
    EXTENDER,
    build_hint_map,
    identity,
    registered_resources,
)

__all__ = [
    "DEFAULT_EVENTS",
    "EXTENDER",
    "AlreadyQueuedError",
    "EventFeatures",
    "PodView",
    "QueueInvariantError",
    "QueueNominator",
    "QueueOptions",
    "QueueProfiles",
    "QueueState",
    "QueueStatistics",
    "SchedulingQueue",
    "build_hint_map",
    "identity",
    "node_events",
    "pod_events",
    "registered_resources",
]
