"""The metrics of kube-scheduler v1.37: their form, and which of them kubestow does not serve."""

from __future__ import annotations

# name without prefix: type, labels, first bucket, last bucket, number of buckets
UPSTREAM = {
    "schedule_attempts_total": ("counter", "result profile"),
    "scheduling_attempt_duration_seconds": ("histogram", "result profile", 0.001, 16.384, 15),
    "scheduling_algorithm_duration_seconds": ("histogram", "", 0.001, 16.384, 15),
    "preemption_victims": ("histogram", "", 1, 64, 7),
    "preemption_attempts_total": ("counter", ""),
    "pending_pods": ("gauge", "queue"),
    "pod_scheduling_sli_duration_seconds": ("histogram", "attempts", 0.01, 5242.88, 20),
    "pod_scheduled_after_flush_total": ("counter", ""),
    "pod_scheduling_attempts": ("histogram", "", 1, 16, 5),
    "framework_extension_point_duration_seconds": (
        "histogram", "extension_point status profile", 0.0001, 0.2048, 12,
    ),
    "plugin_execution_duration_seconds": (
        "histogram", "plugin extension_point status", 0.00001, 0.02216837,  20,
    ),
    "plugin_evaluation_total": ("counter", "plugin extension_point profile"),
    "queue_incoming_pods_total": ("counter", "queue event"),
    "queueing_hint_execution_duration_seconds": (
        "histogram", "plugin event hint", 0.00001, 0.02216837, 20,
    ),
    "inflight_events": ("gauge", "event"),
    "event_handling_duration_seconds": ("histogram", "event", 0.0001, 0.2048, 12),
    "permit_wait_duration_seconds": ("histogram", "result", 0.001, 16.384, 15),
    "cache_size": ("gauge", "type"),
    "unschedulable_pods": ("gauge", "plugin profile"),
    "goroutines": ("gauge", "operation"),
    "podgroup_schedule_attempts_total": ("counter", "result profile"),
    "podgroup_scheduling_attempt_duration_seconds": (
        "histogram", "result profile", 0.001, 16.384, 15,
    ),
    "podgroup_scheduling_algorithm_duration_seconds": ("histogram", "", 0.001, 16.384, 15),
}  # fmt: skip

UPSTREAM_NOT_SERVED = """
    batch_attempts_total batch_cache_flushed_total get_node_hint_duration_seconds
    store_schedule_results_duration_seconds preemption_goroutines_duration_seconds
    preemption_goroutines_execution_total async_api_call_execution_total
    async_api_call_execution_duration_seconds pending_async_api_calls
    dra_bindingconditions_allocations_total dra_bindingconditions_wait_duration_seconds
    queued_entities queue_incoming_entities_total pre_queueing_hint_evaluations_total
    batch_rescore_attempts_total batch_rescore_duration_seconds workload_preemption_attempts_total
    workload_preemption_victims preemption_workload_disruptions
    preemption_evaluation_duration_seconds preemption_execution_duration_seconds
    preemption_pdb_violations_total generated_placements_total placement_evaluations_total
    placement_evaluation_duration_seconds scheduler_volume_binder_cache_requests_total
    scheduler_volume_scheduling_stage_error_total
"""

SHARED = {
    "rest_client_requests_total": ("counter", "code method host"),
    "rest_client_request_duration_seconds": ("histogram", "verb host", 0.005, 60, 12),
    "rest_client_rate_limiter_duration_seconds": ("histogram", "verb host", 0.005, 60, 12),
    "leader_election_master_status": ("gauge", "name"),
    "kubernetes_build_info": (
        "gauge",
        "major minor git_version git_commit git_tree_state build_date go_version compiler platform",
    ),
    "kubernetes_feature_enabled": ("gauge", "name stage"),
}
