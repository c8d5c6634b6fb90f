"""Recorders of engine, queue, client and others: one class for each of their Protocols.

The Protocols document the methods. Each is one lookup by a tuple of labels and one addition; none
raises, none formats.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from scheduler.framework.events import QueueingHint
from scheduler.metrics.families import Families
from scheduler.queue.metrics import QueueMetrics

_log = structlog.get_logger(__name__)

_PRE_ENQUEUE = "PreEnqueue"


class EngineRecorder:
    """Implements `scheduler.engine.metrics.EngineMetrics`."""

    def __init__(
        self, families: Families, on_over_budget: Callable[[str, str, str, float], None]
    ) -> None:
        self._algorithm = families.histogram("scheduler_scheduling_algorithm_duration_seconds")[()]
        self._points = families.histogram("scheduler_framework_extension_point_duration_seconds")
        self._plugins = families.histogram("scheduler_plugin_execution_duration_seconds")
        self._evaluations = families.counter("scheduler_plugin_evaluation_total")
        self._over_budget = families.counter("kubestow_plugin_time_budget_exceeded_total")
        self._on_over_budget = on_over_budget
        self._late_cycles = families.counter("kubestow_cycle_time_budget_exceeded_total")

    def extension_point(self, point: str, status: str, profile: str, seconds: float) -> None:
        self._points[point, status, profile].observe(seconds)

    def plugin(self, plugin: str, point: str, status: str, seconds: float) -> None:
        self._plugins[plugin, point, status].observe(seconds)

    def algorithm(self, seconds: float) -> None:
        self._algorithm.observe(seconds)

    def evaluated(self, plugin: str, point: str, profile: str, count: int = 1) -> None:
        self._evaluations[plugin, point, profile].inc(count)

    def over_budget(self, plugin: str, point: str, profile: str, seconds: float) -> None:
        self._over_budget[plugin, point].inc()
        self._on_over_budget(plugin, point, profile, seconds)

    def cycle_over_budget(self, profile: str, result: str) -> None:
        self._late_cycles[profile, result].inc()


class PluginFaultRecorder:
    """Faults of plugins: exceptions, blocks of the event loop, and what follows from overruns."""

    def __init__(self, families: Families) -> None:
        self._exceptions = families.counter("kubestow_plugin_exceptions_total")
        self._blocks = families.counter("kubestow_plugin_blocking_seconds_total")
        self._switched_off = families.gauge("kubestow_plugin_switched_off")
        self._isolated = families.counter("kubestow_isolated_plugin_calls_total")
        self._process_ends = families.counter("kubestow_plugin_process_failures_total")

    def raised(self, plugin: str, point: str) -> None:
        """Count an exception that a plugin raised."""
        self._exceptions[plugin, point].inc()

    def blocked(self, plugin: str, point: str, seconds: float) -> None:
        """Count the seconds for which a call of a plugin blocked the event loop."""
        self._blocks[plugin, point].inc(seconds)

    def isolated(self, plugin: str, result: str) -> None:
        """Count a call of an isolated plugin by its result."""
        self._isolated[plugin, result].inc()

    def process_ended(self, plugin: str, reason: str) -> None:
        """Count a process of an isolated plugin that ended, or had to be ended."""
        self._process_ends[plugin, reason].inc()

    def switched_off(self, profile: str, plugin: str, off: bool) -> None:
        """Set whether a plugin is switched off in a profile."""
        self._switched_off[profile, plugin].set(1.0 if off else 0.0)


class QueueRecorder(QueueMetrics):
    """Implements `scheduler.queue.metrics.QueueMetrics`."""

    measures = True

    def __init__(self, families: Families) -> None:
        self._incoming = families.counter("scheduler_queue_incoming_pods_total")
        self._pending = families.gauge("scheduler_pending_pods")
        self._unschedulable = families.gauge("scheduler_unschedulable_pods")
        self._inflight = families.gauge("scheduler_inflight_events")
        self._hints = families.histogram("scheduler_queueing_hint_execution_duration_seconds")
        self._hint_errors = families.counter("kubestow_queueing_hint_errors_total")
        self._points = families.histogram("scheduler_framework_extension_point_duration_seconds")
        self._plugins = families.histogram("scheduler_plugin_execution_duration_seconds")
        # An empty queue is a 0 on a dashboard, not a gap. The last two have upstream's members of
        # groups that are not complete or are being tried; here these are gated.
        for queue in ("active", "backoff", "unschedulable", "gated", "incomplete", "pending"):
            self._pending[queue,].set(0.0)

    def incoming_pods(self, queue: str, event: str) -> None:
        self._incoming[queue, event].inc()

    def pending_pods(self, queue: str, delta: int) -> None:
        self._pending[queue,].add(delta)

    def unschedulable_pods(self, plugin: str, profile: str, delta: int) -> None:
        self._unschedulable[plugin, profile].add(delta)

    def inflight_events(self, event: str, delta: int) -> None:
        self._inflight[event,].add(delta)

    def hint_error(self, plugin: str, event: str) -> None:
        self._hint_errors[plugin, event].inc()

    def hint_duration(
        self, plugin: str, event: str, hint: QueueingHint | None, seconds: float
    ) -> None:
        result = "Error" if hint is None else hint.value
        self._hints[plugin, event, result].observe(seconds)

    def pre_enqueue_duration(self, profile: str, status: str, seconds: float) -> None:
        self._points[_PRE_ENQUEUE, status, profile].observe(seconds)

    def plugin_duration(self, plugin: str, status: str, seconds: float) -> None:
        self._plugins[plugin, _PRE_ENQUEUE, status].observe(seconds)


class ClientRecorder:
    """Implements `scheduler.client.metrics.ClientMetrics`."""

    def __init__(self, families: Families, host: str) -> None:
        self._host = host
        self._requests = families.counter("rest_client_requests_total")
        self._durations = families.histogram("rest_client_request_duration_seconds")
        self._throttled = families.histogram("rest_client_rate_limiter_duration_seconds")
        self._listed = families.counter("kubestow_listed_objects_total")
        self._list_durations = families.histogram("kubestow_list_duration_seconds")
        self._watch_events = families.counter("kubestow_watch_events_total")
        self._watch_ended = families.counter("kubestow_watch_terminations_total")
        self._malformed = families.counter("kubestow_malformed_objects_total")
        self._kube_events = families.counter("kubestow_kubernetes_events_total")
        self._leader = families.gauge("leader_election_master_status")

    def request(self, verb: str, code: str, seconds: float) -> None:
        self._requests[code, verb, self._host].inc()
        self._durations[verb, self._host].observe(seconds)

    def throttled(self, verb: str, seconds: float) -> None:
        self._throttled[verb, self._host].observe(seconds)

    def listed(self, plural: str, items: int, seconds: float) -> None:
        self._listed[plural,].inc(items)
        self._list_durations[plural,].observe(seconds)

    def watch_events(self, plural: str, count: int) -> None:
        self._watch_events[plural,].inc(count)

    def watch_ended(self, plural: str, cause: str) -> None:
        self._watch_ended[plural, str(cause)].inc()

    def malformed(self, plural: str) -> None:
        self._malformed[plural,].inc()

    def kube_event(self, outcome: str) -> None:
        self._kube_events[outcome,].inc()

    def leader(self, name: str, leading: bool) -> None:
        self._leader[name,].set(1.0 if leading else 0.0)


class QuotaRecorder:
    """Implements `scheduler.controllers.quota_usage.usage_writer.UsageWriterMetrics`."""

    def __init__(self, families: Families) -> None:
        self._writes = families.counter("scheduler_resource_quota_writer_writes_total")[()]
        self._errors = families.counter("scheduler_resource_quota_writer_errors_total")[()]

    def written(self) -> None:
        self._writes.inc()

    def failed(self) -> None:
        self._errors.inc()


class BridgeRecorder:
    """Metrics of the node provisioning bridge."""

    def __init__(self, families: Families) -> None:
        self._patches = families.counter("kubestow_node_provisioning_condition_patches_total")
        self._lag = families.histogram("kubestow_node_provisioning_bridge_event_lag_seconds")[()]
        self._yielded = families.gauge("kubestow_node_provisioning_bridge_conflicting_managers")[()]
        self._degraded = families.gauge("kubestow_node_provisioning_bridge_degraded")[()]
        self._active = families.gauge("kubestow_node_provisioning_bridge_active")[()]

    def patched(self, status: str, reason: str, source: str) -> None:
        self._patches[status, reason, source].inc()

    def event_lag(self, seconds: float) -> None:
        self._lag.observe(seconds)

    def conflicting_managers(self, pods: int) -> None:
        self._yielded.set(pods)

    def degraded(self, degraded: bool) -> None:
        self._degraded.set(1.0 if degraded else 0.0)

    def active(self, active: bool) -> None:
        self._active.set(1.0 if active else 0.0)
