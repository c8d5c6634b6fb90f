"""Every metric: name, type, labels, buckets, and a sentence about it.

Invariant: what carries one of upstream's names has upstream's type, label names and buckets
(framework-cycle-config.md section 10, checked against a running kube-scheduler v1.36.2). Nothing is
measured here. What upstream has and kubestow has not is listed at the end, with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final


class Kind(Enum):
    """Prometheus types in use."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Definition:
    """What one metric is."""

    #: Whole name; a counter's ends in `_total`.
    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    #: Upper bounds of a histogram, ascending, without +Inf.
    buckets: tuple[float, ...] = ()


def exponential(first: float, factor: float, count: int) -> tuple[float, ...]:
    """Bounds `first`, `first * factor`, ...; multiplied up one by one, so that each equals Go's.

    >>> exponential(0.001, 2, 4)
    (0.001, 0.002, 0.004, 0.008)
    """
    bounds = [float(first)]
    while len(bounds) < count:
        bounds.append(bounds[-1] * factor)
    return tuple(bounds)


E1: Final = exponential(0.0001, 2, 12)
E2: Final = exponential(0.001, 2, 15)
E3: Final = exponential(0.01, 2, 20)
E4: Final = exponential(0.00001, 1.5, 20)
CLIENT: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
"""client-go's bounds for request and rate limiter latency."""
LAG: Final = exponential(0.0005, 2, 14)
"""Half a millisecond (the timer's own error) to four seconds (health checks fail)."""


def _counter(name: str, text: str, *labels: str) -> Definition:
    return Definition(name, Kind.COUNTER, text, labels)


def _gauge(name: str, text: str, *labels: str) -> Definition:
    return Definition(name, Kind.GAUGE, text, labels)


def _histogram(name: str, buckets: tuple[float, ...], text: str, *labels: str) -> Definition:
    return Definition(name, Kind.HISTOGRAM, text, labels, buckets)


# ------------------------------------------------------------------------------- attempts, upstream

SCHEDULE_ATTEMPTS: Final = _counter(
    "scheduler_schedule_attempts_total",
    "[STABLE] Attempts to schedule a pod, by result: scheduled, unschedulable (no node fits) or "
    "error (the attempt itself failed).",
    "result",
    "profile",
)
ATTEMPT_DURATION: Final = _histogram(
    "scheduler_scheduling_attempt_duration_seconds",
    E2,
    "[STABLE] Time of an attempt from the pop off the queue to the end of binding or to failure.",
    "result",
    "profile",
)
ALGORITHM_DURATION: Final = _histogram(
    "scheduler_scheduling_algorithm_duration_seconds",
    E2,
    "[ALPHA] Time from PreFilter to the choice of a node, PostFilter included.",
)
SLI_DURATION: Final = _histogram(
    "scheduler_pod_scheduling_sli_duration_seconds",
    E3,
    "[BETA] Time from a pod's first entry into the active queue to its binding, by the number of "
    "attempts it took.",
    "attempts",
)
POD_ATTEMPTS: Final = _histogram(
    "scheduler_pod_scheduling_attempts",
    exponential(1, 2, 5),
    "[STABLE] Attempts it took to schedule a pod.",
)
EXTENSION_POINT_DURATION: Final = _histogram(
    "scheduler_framework_extension_point_duration_seconds",
    E1,
    "[STABLE] Time of all plugins of one extension point together.",
    "extension_point",
    "status",
    "profile",
)
PLUGIN_DURATION: Final = _histogram(
    "scheduler_plugin_execution_duration_seconds",
    E4,
    "[ALPHA] Time of one plugin at one extension point, on a sample of the attempts.",
    "plugin",
    "extension_point",
    "status",
)
PLUGIN_EVALUATIONS: Final = _counter(
    "scheduler_plugin_evaluation_total",
    "[BETA] Calls of a plugin at PreFilter, Filter, PreScore and Score; at Filter and Score "
    "one for each node.",
    "plugin",
    "extension_point",
    "profile",
)
PERMIT_WAIT: Final = _histogram(
    "scheduler_permit_wait_duration_seconds",
    E2,
    "[BETA] Time pods waited at Permit, by the status that ended the wait.",
    "result",
)
PREEMPTION_ATTEMPTS: Final = _counter(
    "scheduler_preemption_attempts_total", "[STABLE] Searches for pods to evict."
)
PREEMPTION_VICTIMS: Final = _histogram(
    "scheduler_preemption_victims",
    exponential(1, 2, 7),
    "[STABLE] Pods evicted by one preemption, those already ending included.",
)
GOROUTINES: Final = _gauge(
    "scheduler_goroutines",
    "[BETA] Running workers by what they do. Here they are asyncio tasks: binding cycles.",
    "operation",
)

# ------------------------------------------------------------------------ queue and cache, upstream

PENDING_PODS: Final = _gauge(
    "scheduler_pending_pods",
    "[STABLE] Pods that wait: active, backoff, unschedulable (tried and rejected) or gated (never "
    "tried, held by a gate).",
    "queue",
)
INCOMING_PODS: Final = _counter(
    "scheduler_queue_incoming_pods_total",
    "[STABLE] Pods put into a queue, by the queue and by the event that did it.",
    "queue",
    "event",
)
UNSCHEDULABLE_PODS: Final = _gauge(
    "scheduler_unschedulable_pods",
    "[BETA] Queued pods that a plugin rejected last; a pod rejected by two counts for both.",
    "plugin",
    "profile",
)
INFLIGHT_EVENTS: Final = _gauge(
    "scheduler_inflight_events",
    "[ALPHA] Events kept for pods that are being scheduled, popped pods included.",
    "event",
)
HINT_DURATION: Final = _histogram(
    "scheduler_queueing_hint_execution_duration_seconds",
    E4,
    "[ALPHA] Time of one queueing hint function.",
    "plugin",
    "event",
    "hint",
)
EVENT_HANDLING: Final = _histogram(
    "scheduler_event_handling_duration_seconds",
    E1,
    "[ALPHA] Time to take one change of an object into cache and queue.",
    "event",
)
CACHE_SIZE: Final = _gauge(
    "scheduler_cache_size", "[ALPHA] Nodes, pods and assumed pods in the cache.", "type"
)

# --------------------------------------------------------------------------- client, upstream names

REST_REQUESTS: Final = _counter(
    "rest_client_requests_total",
    "[ALPHA] Requests to the API server by status code, method and host.",
    "code",
    "method",
    "host",
)
REST_DURATION: Final = _histogram(
    "rest_client_request_duration_seconds",
    CLIENT,
    "[ALPHA] Time of a request to the API server, its body included.",
    "verb",
    "host",
)
REST_THROTTLED: Final = _histogram(
    "rest_client_rate_limiter_duration_seconds",
    CLIENT,
    "[ALPHA] Time the client's own rate limit held a request back; requests that pass at once are "
    "not observed.",
    "verb",
    "host",
)
LEADER: Final = _gauge(
    "leader_election_master_status",
    "[ALPHA] 1 while this process leads, 0 while it stands by, by the name of the Lease.",
    "name",
)

# ---------------------------------------------------------------------------------- build, upstream

BUILD_INFO: Final = _gauge(
    "kubernetes_build_info",
    "[BETA] 1, labelled by the version of Kubernetes whose scheduler this behaves like.",
    "major",
    "minor",
    "git_version",
    "git_commit",
    "git_tree_state",
    "build_date",
    "go_version",
    "compiler",
    "platform",
)
FEATURE_ENABLED: Final = _gauge(
    "kubernetes_feature_enabled",
    "[BETA] Whether a feature gate is on, by name and stage (empty for GA).",
    "name",
    "stage",
)

# --------------------------------------------------------------------------------------------- ours

KUBESTOW_BUILD_INFO: Final = _gauge(
    "kubestow_build_info", "1, labelled by kubestow's own version.", "version", "python"
)
LOOP_LAG: Final = _histogram(
    "kubestow_event_loop_lag_seconds",
    LAG,
    "How late the event loop ran a timer: everything else waited as long.",
)
HANDLER_ERRORS: Final = _counter(
    "kubestow_handler_errors_total",
    "Objects whose change could not be taken into cache and queue; the log names them.",
    "resource",
)
HINT_ERRORS: Final = _counter(
    "kubestow_queueing_hint_errors_total",
    "Queueing hint functions that raised; the pod was queued.",
    "plugin",
    "event",
)
WATCH_EVENTS: Final = _counter(
    "kubestow_watch_events_total", "Events received from watches.", "resource"
)
LISTED: Final = _counter("kubestow_listed_objects_total", "Objects received in lists.", "resource")
LIST_DURATION: Final = _histogram(
    "kubestow_list_duration_seconds",
    CLIENT,
    "Time of a whole list; every one after the first is a relist.",
    "resource",
)
WATCH_TERMINATIONS: Final = _counter(
    "kubestow_watch_terminations_total",
    "Lists and watches that ended, by cause.",
    "resource",
    "cause",
)
MALFORMED: Final = _counter(
    "kubestow_malformed_objects_total",
    "Objects that could not be read and were skipped; the log names them.",
    "resource",
)
KUBERNETES_EVENTS: Final = _counter(
    "kubestow_kubernetes_events_total",
    "Kubernetes Events by what became of them: sent, aggregated, dropped or failed.",
    "outcome",
)
BIND_OUTCOMES: Final = _counter(
    "kubestow_bind_outcomes_total", "Bind requests by how they were settled.", "outcome"
)
KUBELET_REJECTIONS: Final = _counter(
    "kubestow_kubelet_rejections_total",
    "Pods of ours that the kubelet of their node did not admit, by the reason it gave.",
    "reason",
)
NODE_RECHECKS: Final = _counter(
    "kubestow_node_rechecks_total",
    "Chosen nodes that others changed before the bind, by what the filters said of them then: fits "
    "or rejected.",
    "result",
)
OVER_BUDGET: Final = _counter(
    "kubestow_plugin_time_budget_exceeded_total",
    "Cycles in which a scalar plugin used more than plugin_time_budget.",
    "plugin",
    "extension_point",
)
CYCLES_OVER_BUDGET: Final = _counter(
    "kubestow_cycle_time_budget_exceeded_total",
    "Attempts whose scheduling cycle used up kubestow.cycleTimeBudget, by what became of them: "
    "given_up, finished_late, or set_aside (not made, because one at a like pod was given up).",
    "profile",
    "result",
)
DEFERRED_NAMESPACES: Final = _gauge(
    "kubestow_deferred_namespaces",
    "Namespaces whose pods go behind those of others, since their attempts used much CPU time.",
)
RESULT_CACHE_REQUESTS: Final = _counter(
    "kubestow_result_cache_requests_total",
    "Searches for a node that found results of an equal pod (hit) or had to start afresh (miss).",
    "profile",
    "result",
)

PROVISIONING_PATCHES: Final = _counter(
    "kubestow_node_provisioning_condition_patches_total",
    "Pods whose condition NodeProvisioningInProgress the bridge changed, by what it says now and "
    "whose events it follows.",
    "status",
    "reason",
    "source",
)
PROVISIONING_LAG: Final = _histogram(
    "kubestow_node_provisioning_bridge_event_lag_seconds",
    CLIENT,
    "Age of an autoscaler's event when the bridge got it; events of whole seconds add up to one.",
)
PROVISIONING_CONFLICTS: Final = _gauge(
    "kubestow_node_provisioning_bridge_conflicting_managers",
    "Pods whose condition NodeProvisioningInProgress another manager writes; at three the bridge "
    "ends.",
)
PROVISIONING_DEGRADED: Final = _gauge(
    "kubestow_node_provisioning_bridge_degraded",
    "1 while the bridge cannot read the autoscalers' events; the log says which rule is missing.",
)
PROVISIONING_ACTIVE: Final = _gauge(
    "kubestow_node_provisioning_bridge_active",
    "1 while the bridge follows the autoscalers' events: in the leader, when a pod needs it.",
)

# ---------------------------------------------------------------------------------- plugins, ours

SPREAD_FALLBACK: Final = _counter(
    "scheduler_pod_topology_spread_fallback_total",
    "Hard spread constraints that became soft for a pod, by each criterion that allowed it.",
    "criterion",
    "profile",
)
SPREAD_FALLBACK_SCHEDULED: Final = _counter(
    "scheduler_pod_topology_spread_fallback_scheduled_total",
    "Pods bound by an attempt in which a hard spread constraint was soft.",
    "profile",
)
SPREAD_FALLBACK_TIME_HINT: Final = _histogram(
    "scheduler_pod_topology_spread_fallback_time_hint_duration_seconds",
    E4,
    "One look at a pod after time has passed, for nodeProvisioningTimeout.",
)
EXTENDER_REQUESTS: Final = _counter(
    "kubestow_extender_requests_total",
    "Calls of HTTP extenders by result: success, error, or not_called while the circuit breaker "
    "was open.",
    "extender",
    "verb",
    "result",
)
EXTENDER_DURATION: Final = _histogram(
    "kubestow_extender_request_duration_seconds",
    CLIENT,
    "Time of a call of an HTTP extender; scheduling waits for all but bind.",
    "extender",
    "verb",
)
EXTENDER_BREAKER: Final = _gauge(
    "kubestow_extender_circuit_open",
    "1 while an HTTP extender's verb that kept failing is not called, else 0.",
    "extender",
    "verb",
)

# ------------------------------------------------------------------- deferred quotas, ours

QUOTA_VIOLATIONS: Final = _counter(
    "scheduler_resource_quota_violations_total",
    "Times a pod was held or turned down because it would exceed a quota.",
    "namespace",
    "resource_quota",
    "extension_point",
)
QUOTA_HELD_PODS: Final = _gauge(
    "scheduler_resource_quota_held_pods", "Pods that wait for quota.", "namespace"
)
QUOTA_HELD_DURATION: Final = _histogram(
    "scheduler_resource_quota_held_duration_seconds",
    exponential(0.1, 4, 10),
    "How long quota held a pod before it was let in, each time.",
)
QUOTA_IN_FLIGHT: Final = _gauge(
    "scheduler_resource_quota_inflight",
    "Amounts kept for pods between Reserve and the sight of their binding, and for nominated ones; "
    "cores, bytes and counts.",
    "namespace",
    "resource_quota",
    "resource",
)
QUOTA_WRITES: Final = _counter(
    "scheduler_resource_quota_writer_writes_total",
    "Times the leader published what pods use of a quota's deferred keys.",
)
QUOTA_WRITE_ERRORS: Final = _counter(
    "scheduler_resource_quota_writer_errors_total",
    "Times it could not; each is tried again, and scheduling is exact all the same.",
)
QUOTA_DRIFT: Final = _gauge(
    "scheduler_resource_quota_ledger_drift",
    "Differences between the usage that is kept and a full recount every minute; anything but 0 is "
    "a bug.",
)

DEFINITIONS: Final[tuple[Definition, ...]] = tuple(
    value for value in dict(globals()).values() if isinstance(value, Definition)
)
"""All of the above, in their order."""

_NEVER: Final = "never counts anything upstream either"
_BATCHING: Final = (
    "kubestow reuses results per pod signature instead: kubestow_result_cache_requests_total"
)
_NO_GATE: Final = "its feature gate is off by default and kubestow has nothing behind it"
_NO_DEVICES: Final = "kubestow allocates no devices"

NOT_SERVED: Final[Mapping[str, str]] = {
    "scheduler_pod_scheduled_after_flush_total": _NEVER,
    "scheduler_batch_attempts_total": _BATCHING,
    "scheduler_batch_cache_flushed_total": _BATCHING,
    "scheduler_get_node_hint_duration_seconds": _BATCHING,
    "scheduler_store_schedule_results_duration_seconds": _BATCHING,
    "scheduler_preemption_goroutines_duration_seconds": "evictions are not measured apart yet",
    "scheduler_preemption_goroutines_execution_total": "evictions are not measured apart yet",
    "scheduler_async_api_call_execution_total": _NO_GATE,
    "scheduler_async_api_call_execution_duration_seconds": _NO_GATE,
    "scheduler_pending_async_api_calls": _NO_GATE,
    "scheduler_resourceclaim_creates_total": _NO_DEVICES,
    "scheduler_dra_bindingconditions_allocations_total": _NO_DEVICES,
    "scheduler_dra_bindingconditions_wait_duration_seconds": _NO_DEVICES,
    "scheduler_podgroup_schedule_attempts_total": _NO_GATE,
    "scheduler_podgroup_scheduling_attempt_duration_seconds": _NO_GATE,
    "scheduler_podgroup_scheduling_algorithm_duration_seconds": _NO_GATE,
    "scheduler_scheduler_volume_binder_cache_requests_total": _NEVER,
    "scheduler_scheduler_volume_scheduling_stage_error_total": "volume binding is not measured yet",
}
"""Upstream's metrics that kubestow has not, and why."""
