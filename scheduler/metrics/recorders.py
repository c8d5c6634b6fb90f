"""Recorders of engine, queue, client and others: one class for each of their Protocols.

Every method is one lookup by a tuple of labels and one addition. None raises, none formats.
"""

from __future__ import annotations

import structlog

from scheduler.framework.events import QueueingHint
from scheduler.metrics.families import Families
from scheduler.queue.metrics import QueueMetrics

_log = structlog.get_logger(__name__)

_PRE_ENQUEUE = "PreEnqueue"


class EngineRecorder:
    """Implements `scheduler.engine.metrics.EngineMetrics`."""

    __slots__ = (
        "_algorithm",
        "_evaluations",
        "_late_cycles",
        "_over_budget",
        "_plugins",
        "_points",
    )

    def __init__(self, families: Families) -> None:
        self._algorithm = families.histogram("scheduler_scheduling_algorithm_duration_seconds")[()]
        self._points = families.histogram("scheduler_framework_extension_point_duration_seconds")
        self._plugins = families.histogram("scheduler_plugin_execution_duration_seconds")
        self._evaluations = families.counter("scheduler_plugin_evaluation_total")
        self._over_budget = families.counter("kubestow_plugin_time_budget_exceeded_total")
        self._late_cycles = families.counter("kubestow_cycle_time_budget_exceeded_total")

    def extension_point(self, point: str, status: str, profile: str, seconds: float) -> None:
        """Observe one run of an extension point over all its plugins."""
        self._points[point, status, profile].observe(seconds)

    def plugin(self, plugin: str, point: str, status: str, seconds: float) -> None:
        """Observe one call of one plugin, on sampled attempts."""
        self._plugins[plugin, point, status].observe(seconds)

    def algorithm(self, seconds: float) -> None:
        """Observe the time from PreFilter to the choice of a node, PostFilter included."""
        self._algorithm.observe(seconds)

    def evaluated(self, plugin: str, point: str, profile: str, count: int = 1) -> None:
        """Count calls of a plugin at PreFilter, Filter, PreScore or Score, one for each node."""
        self._evaluations[plugin, point, profile].inc(count)

    def over_budget(self, plugin: str, point: str, seconds: float) -> None:
        """Count and log a scalar plugin that used more of a cycle than its time budget."""
        self._over_budget[plugin, point].inc()
        _log.warning("plugin over its time budget", plugin=plugin, point=point, seconds=seconds)

    def cycle_over_budget(self, profile: str, result: str) -> None:
        """Count a cycle that used up its budget, or was skipped because another had."""
        self._late_cycles[profile, result].inc()


class QueueRecorder(QueueMetrics):
    """Maps `QueueMetrics` to Prometheus."""

    __slots__ = (
        "_hint_errors",
        "_hints",
        "_incoming",
        "_inflight",
        "_pending",
        "_plugins",
        "_points",
        "_unschedulable",
    )

    def __init__(self, families: Families) -> None:
        self._incoming = families.counter("scheduler_queue_incoming_pods_total")
        self._pending = families.gauge("scheduler_pending_pods")
        self._unschedulable = families.gauge("scheduler_unschedulable_pods")
        self._inflight = families.gauge("scheduler_inflight_events")
        self._hints = families.histogram("scheduler_queueing_hint_execution_duration_seconds")
        self._hint_errors = families.counter("kubestow_queueing_hint_errors_total")
        self._points = families.histogram("scheduler_framework_extension_point_duration_seconds")
        self._plugins = families.histogram("scheduler_plugin_execution_duration_seconds")
        # An empty queue is a 0 on a dashboard, not a gap.
        for queue in ("active", "backoff", "unschedulable", "gated"):
            self._pending[queue,].set(0.0)

    def incoming_pods(self, queue: str, event: str) -> None:
        """Count a pod put into `queue` by `event`."""
        self._incoming[queue, event].inc()

    def pending_pods(self, queue: str, delta: int) -> None:
        """Change the size of a queue."""
        self._pending[queue,].add(delta)

    def unschedulable_pods(self, plugin: str, profile: str, delta: int) -> None:
        """Change the number of queued pods that a plugin rejected last."""
        self._unschedulable[plugin, profile].add(delta)

    def inflight_events(self, event: str, delta: int) -> None:
        """Change the number of recorded events; popped pods count under `PodPopped`."""
        self._inflight[event,].add(delta)

    def hint_error(self, plugin: str, event: str) -> None:
        """Count a hint function that raised."""
        self._hint_errors[plugin, event].inc()

    def hint_duration(
        self, plugin: str, event: str, hint: QueueingHint | None, seconds: float
    ) -> None:
        """Observe one call of a hint function; a hint of None means that it raised."""
        answer = "Error" if hint is None else hint.value
        self._hints[plugin, event, answer].observe(seconds)

    def pre_enqueue_duration(self, profile: str, status: str, seconds: float) -> None:
        """Observe one run of PreEnqueue over all its plugins."""
        self._points[_PRE_ENQUEUE, status, profile].observe(seconds)

    def plugin_duration(self, plugin: str, status: str, seconds: float) -> None:
        """Observe one call of a PreEnqueue plugin."""
        self._plugins[plugin, _PRE_ENQUEUE, status].observe(seconds)


class PluginRecorder:
    """Implements `scheduler.framework.PluginMetrics`."""

    __slots__ = ("_families",)

    def __init__(self, families: Families) -> None:
        self._families = families

    def count(self, name: str, *labels: str, amount: float = 1.0) -> None:
        """Add to a counter."""
        self._families.counter(name)[labels].inc(amount)

    def gauge(self, name: str, *labels: str, value: float) -> None:
        """Set a gauge."""
        self._families.gauge(name)[labels].set(value)

    def observe(self, name: str, *labels: str, value: float) -> None:
        """Observe a value in a histogram."""
        self._families.histogram(name)[labels].observe(value)


class ClientRecorder:
    """Implements `scheduler.client.metrics.ClientMetrics`."""

    __slots__ = (
        "_durations",
        "_kube_events",
        "_leader",
        "_list_durations",
        "_listed",
        "_malformed",
        "_requests",
        "_throttled",
        "_watch_ended",
        "_watch_events",
        "host",
    )

    def __init__(self, families: Families, host: str) -> None:
        #: Label `host`: the API server's `host:port`. May be set once it is known.
        self.host = host
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
        """Record a request that ended."""
        self._requests[code, verb, self.host].inc()
        self._durations[verb, self.host].observe(seconds)

    def throttled(self, verb: str, seconds: float) -> None:
        """Observe the delay of a request by the client's own rate limit."""
        self._throttled[verb, self.host].observe(seconds)

    def listed(self, plural: str, items: int, seconds: float) -> None:
        """Record a list that a reflector finished."""
        self._listed[plural,].inc(items)
        self._list_durations[plural,].observe(seconds)

    def watch_events(self, plural: str, count: int) -> None:
        """Count a batch of events that a reflector received."""
        self._watch_events[plural,].inc(count)

    def watch_ended(self, plural: str, cause: str) -> None:
        """Count a watch or list that ended."""
        self._watch_ended[plural, str(cause)].inc()

    def malformed(self, plural: str) -> None:
        """Count an object that was skipped as malformed."""
        self._malformed[plural,].inc()

    def kube_event(self, outcome: str) -> None:
        """Count a Kubernetes Event that was sent, aggregated, dropped or failed."""
        self._kube_events[outcome,].inc()

    def leader(self, name: str, leading: bool) -> None:
        """Set whether this process leads under Lease `name`."""
        self._leader[name,].set(1.0 if leading else 0.0)


class QuotaRecorder:
    """Implements `scheduler.controllers.quota_usage.usage_writer.UsageWriterMetrics`."""

    __slots__ = ("_errors", "_writes")

    def __init__(self, families: Families) -> None:
        self._writes = families.counter("scheduler_resource_quota_writer_writes_total")[()]
        self._errors = families.counter("scheduler_resource_quota_writer_errors_total")[()]

    def written(self) -> None:
        """Count a write of a quota's usage."""
        self._writes.inc()

    def failed(self) -> None:
        """Count a failed write of a quota's usage."""
        self._errors.inc()


class BridgeRecorder:
    """Metrics of the node provisioning bridge."""

    __slots__ = ("_active", "_degraded", "_lag", "_patches", "_yielded")

    def __init__(self, families: Families) -> None:
        self._patches = families.counter("kubestow_node_provisioning_condition_patches_total")
        self._lag = families.histogram("kubestow_node_provisioning_bridge_event_lag_seconds")[()]
        self._yielded = families.gauge("kubestow_node_provisioning_bridge_conflicting_managers")[()]
        self._degraded = families.gauge("kubestow_node_provisioning_bridge_degraded")[()]
        self._active = families.gauge("kubestow_node_provisioning_bridge_active")[()]

    def patched(self, status: str, reason: str, source: str) -> None:
        """Count a pod's condition that was written."""
        self._patches[status, reason, source].inc()

    def event_lag(self, seconds: float) -> None:
        """Observe the age of an event on arrival."""
        self._lag.observe(seconds)

    def conflicting_managers(self, pods: int) -> None:
        """Set the number of pods left to another manager."""
        self._yielded.set(pods)

    def degraded(self, degraded: bool) -> None:
        """Set whether events cannot be read."""
        self._degraded.set(1.0 if degraded else 0.0)

    def active(self, active: bool) -> None:
        """Set whether events are followed."""
        self._active.set(1.0 if active else 0.0)
