"""Names, labels and buckets are upstream's, and every report ends up under the right one.

The tables restate the metrics of kube-scheduler v1.37.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
from prometheus_client import Metric
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from plugins import DynamicResources
from scheduler.build_info import BuildInfo
from scheduler.client.metrics import ClientMetrics
from scheduler.engine.metrics import EngineMetrics
from scheduler.framework import PluginMetrics, QueueingHint
from scheduler.metrics import DEFINITIONS, NOT_SERVED, SchedulerMetrics
from scheduler.queue.metrics import QueueMetrics
from tests.unit.metrics.upstream_metrics import SHARED, UPSTREAM, UPSTREAM_NOT_SERVED

Report = Callable[[SchedulerMetrics], None]


def _plugin(metrics: SchedulerMetrics) -> PluginMetrics:
    return metrics.plugins.declare("p", ())


HOST = "10.0.0.1:443"


@pytest.fixture
def metrics() -> SchedulerMetrics:
    build = BuildInfo("1.2.3", "1", "37", "3.11.0", "linux/x86_64")
    return SchedulerMetrics(build=build, process=False)


def client(metrics: SchedulerMetrics) -> ClientMetrics:
    return metrics.client_recorder(HOST)


def value(metrics: SchedulerMetrics, sample: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(sample, labels)


@pytest.mark.parametrize(
    ("name", "expected"),
    [(f"scheduler_{name}", row) for name, row in UPSTREAM.items()] + list(SHARED.items()),
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_upstreams_metrics_have_upstreams_form(
    name: str, expected: tuple[str | float, ...]
) -> None:
    (found,) = [each for each in DEFINITIONS if each.name == name]
    assert (found.kind.value, set(found.labels)) == (expected[0], set(str(expected[1]).split()))
    if found.kind.value == "histogram":
        first, last, count = (float(each) for each in expected[2:])
        assert found.buckets[0] == first
        assert found.buckets[-1] == pytest.approx(last)
        assert len(found.buckets) == count
        assert list(found.buckets) == sorted(found.buckets)


KEP_METRICS = ("scheduler_pod_topology_spread_fallback_", "scheduler_resource_quota_")
"""Named by KEP-3990 and KEP-5465, which upstream never merged."""


def test_every_metric_of_upstream_is_served_or_its_absence_explained() -> None:
    served = {each.name for each in DEFINITIONS if not each.name.startswith(KEP_METRICS)}
    known = {f"scheduler_{name}" for name in [*UPSTREAM, *UPSTREAM_NOT_SERVED.split()]}
    of_plugins = {each.name for each in DynamicResources.metrics}
    served = served | of_plugins
    assert {name for name in served if name.startswith("scheduler_")} | set(NOT_SERVED) == known
    assert not served & set(NOT_SERVED)
    assert all(NOT_SERVED.values())


def test_names_are_unique_and_ours_carry_our_prefix() -> None:
    names = [each.name for each in DEFINITIONS]
    assert len(set(names)) == len(names)
    upstreams = {f"scheduler_{name}" for name in UPSTREAM} | set(SHARED)
    assert all(name.startswith(("kubestow_", *KEP_METRICS)) for name in set(names) - upstreams)


G = "kubestow_gang_"
REPORTS: list[tuple[Report, str, dict[str, str], float]] = [
    (lambda m: m.attempt("scheduled", "p", 0.1),
     "scheduler_schedule_attempts_total", {"result": "scheduled", "profile": "p"}, 1),
    (lambda m: m.attempt("error", "p", 0.1),
     "scheduler_scheduling_attempt_duration_seconds_sum", {"result": "error", "profile": "p"}, 0.1),
    (lambda m: m.engine.algorithm(0.002),
     "scheduler_scheduling_algorithm_duration_seconds_bucket", {"le": "0.002"}, 1),
    (lambda m: m.engine.extension_point("Filter", "Success", "p", 0.5),
     "scheduler_framework_extension_point_duration_seconds_bucket",
     {"extension_point": "Filter", "status": "Success", "profile": "p", "le": "0.2048"}, 0),
    (lambda m: m.engine.plugin("NodeName", "Filter", "Success", 0.5),
     "scheduler_plugin_execution_duration_seconds_count",
     {"plugin": "NodeName", "extension_point": "Filter", "status": "Success"}, 1),
    (lambda m: m.engine.evaluated("NodeName", "Filter", "p", 5000),
     "scheduler_plugin_evaluation_total",
     {"plugin": "NodeName", "extension_point": "Filter", "profile": "p"}, 5000),
    (lambda m: m.bound(1, 0.5),
     "scheduler_pod_scheduling_sli_duration_seconds_sum", {"attempts": "1"}, 0.5),
    (lambda m: m.bound(14, 0.5),
     "scheduler_pod_scheduling_sli_duration_seconds_count", {"attempts": "14"}, 1),
    (lambda m: m.bound(15, 0.5),
     "scheduler_pod_scheduling_sli_duration_seconds_count", {"attempts": "15+"}, 1),
    (lambda m: m.bound(400, 0.5),
     "scheduler_pod_scheduling_sli_duration_seconds_count", {"attempts": "15+"}, 1),
    (lambda m: m.bound(2, 0.5), "scheduler_pod_scheduling_attempts_bucket", {"le": "2"}, 1),
    (lambda m: m.bound(2, 0.5, after_flush=True),
     "scheduler_pod_scheduled_after_flush_total", {}, 1),
    (lambda m: m.bound(2, 0.5), "scheduler_pod_scheduled_after_flush_total", {}, 0),
    (lambda m: m.permit_wait("Success", 0.5),
     "scheduler_permit_wait_duration_seconds_count", {"result": "Success"}, 1),
    (lambda m: m.preemption(3), "scheduler_preemption_victims_sum", {}, 3),
    (lambda m: m.preemption(), "scheduler_preemption_victims_count", {}, 0),
    (lambda m: m.preemption(), "scheduler_preemption_attempts_total", {}, 1),
    (lambda m: m.binding_cycles(2), "scheduler_goroutines", {"operation": "binding"}, 2),
    (lambda m: m.event_handling("NodeAdd", 0.1),
     "scheduler_event_handling_duration_seconds_count", {"event": "NodeAdd"}, 1),
    (lambda m: m.cache_size(nodes=3, pods=2, assumed_pods=1),
     "scheduler_cache_size", {"type": "nodes"}, 3),
    (lambda m: m.cache_size(nodes=3, pods=2, assumed_pods=1),
     "scheduler_cache_size", {"type": "assumed_pods"}, 1),
    (lambda m: m.queue.pending_pods("backoff", 2),
     "scheduler_pending_pods", {"queue": "backoff"}, 2),
    (lambda m: m.queue.incoming_pods("active", "PodAdd"),
     "scheduler_queue_incoming_pods_total", {"queue": "active", "event": "PodAdd"}, 1),
    (lambda m: m.queue.unschedulable_pods("NodeName", "p", 1),
     "scheduler_unschedulable_pods", {"plugin": "NodeName", "profile": "p"}, 1),
    (lambda m: m.queue.inflight_events("PodPopped", 1),
     "scheduler_inflight_events", {"event": "PodPopped"}, 1),
    (lambda m: m.queue.hint_duration("NodeName", "NodeAdd", QueueingHint.SKIP, 0.1),
     "scheduler_queueing_hint_execution_duration_seconds_count",
     {"plugin": "NodeName", "event": "NodeAdd", "hint": "QueueSkip"}, 1),
    (lambda m: m.queue.hint_duration("NodeName", "NodeAdd", None, 0.1),
     "scheduler_queueing_hint_execution_duration_seconds_count",
     {"plugin": "NodeName", "event": "NodeAdd", "hint": "Error"}, 1),
    (lambda m: m.queue.hint_error("NodeName", "NodeAdd"),
     "kubestow_queueing_hint_errors_total", {"plugin": "NodeName", "event": "NodeAdd"}, 1),
    (lambda m: m.queue.pre_enqueue_duration("p", "Success", 0.1),
     "scheduler_framework_extension_point_duration_seconds_count",
     {"extension_point": "PreEnqueue", "status": "Success", "profile": "p"}, 1),
    (lambda m: m.queue.plugin_duration("SchedulingGates", "Success", 0.1),
     "scheduler_plugin_execution_duration_seconds_count",
     {"plugin": "SchedulingGates", "extension_point": "PreEnqueue", "status": "Success"}, 1),
    (lambda m: client(m).request("GET", "200", 0.1),
     "rest_client_requests_total", {"code": "200", "method": "GET", "host": HOST}, 1),
    (lambda m: client(m).request("GET", "200", 0.1),
     "rest_client_request_duration_seconds_sum", {"verb": "GET", "host": HOST}, 0.1),
    (lambda m: client(m).throttled("POST", 0.1),
     "rest_client_rate_limiter_duration_seconds_count",
     {"verb": "POST", "host": HOST}, 1),
    (lambda m: client(m).listed("pods", 7, 0.1), "kubestow_listed_objects_total",
     {"resource": "pods"}, 7),
    (lambda m: client(m).listed("pods", 7, 0.1), "kubestow_list_duration_seconds_count",
     {"resource": "pods"}, 1),
    (lambda m: client(m).watch_events("pods", 7), "kubestow_watch_events_total",
     {"resource": "pods"}, 7),
    (lambda m: client(m).watch_ended("pods", "expired"), "kubestow_watch_terminations_total",
     {"resource": "pods", "cause": "expired"}, 1),
    (lambda m: client(m).malformed("pods"), "kubestow_malformed_objects_total",
     {"resource": "pods"}, 1),
    (lambda m: client(m).kube_event("dropped"), "kubestow_kubernetes_events_total",
     {"outcome": "dropped"}, 1),
    (lambda m: client(m).leader("kubestow", True), "leader_election_master_status",
     {"name": "kubestow"}, 1),
    (lambda m: client(m).leader("kubestow", False), "leader_election_master_status",
     {"name": "kubestow"}, 0),
    (
        lambda m: m.kubelet_rejection("OutOfcpu"),
        "kubestow_kubelet_rejections_total",
        {"reason": "OutOfcpu"},
        1,
    ),
    (
        lambda m: m.node_recheck(fits=False),
        "kubestow_node_rechecks_total",
        {"result": "rejected"},
        1,
    ),
    (lambda m: m.handler_error("pods"), "kubestow_handler_errors_total", {"resource": "pods"}, 1),
    (lambda m: m.misspelt_scheduler(), "kubestow_misspelt_scheduler_names_total", {}, 1),
    (
        lambda m: m.plugin_faults.raised("Gpu", "Filter"),
        "kubestow_plugin_exceptions_total",
        {"plugin": "Gpu", "extension_point": "Filter"},
        1,
    ),
    (
        lambda m: m.plugin_faults.blocked("Gpu", "Filter", 1.5),
        "kubestow_plugin_blocking_seconds_total",
        {"plugin": "Gpu", "extension_point": "Filter"},
        1.5,
    ),
    (
        lambda m: m.plugin_faults.isolated("Gpu", "timeout"),
        "kubestow_isolated_plugin_calls_total",
        {"plugin": "Gpu", "result": "timeout"},
        1,
    ),
    (
        lambda m: m.plugin_faults.process_ended("Gpu", "exit"),
        "kubestow_plugin_process_failures_total",
        {"plugin": "Gpu", "reason": "exit"},
        1,
    ),
    (
        lambda m: m.plugin_faults.switched_off("kubestow", "Gpu", True),
        "kubestow_plugin_switched_off",
        {"profile": "kubestow", "plugin": "Gpu"},
        1,
    ),
    (lambda m: m.loop_lag(0.3), "kubestow_event_loop_lag_seconds_sum", {}, 0.3),
    (lambda m: m.bind_outcome("bound"), "kubestow_bind_outcomes_total", {"outcome": "bound"}, 1),
    (lambda m: m.engine.over_budget("Slow", "Filter", "kubestow", 0.1),
     "kubestow_plugin_time_budget_exceeded_total",
     {"plugin": "Slow", "extension_point": "Filter"}, 1),
    (lambda m: m.deferred_namespaces(2), "kubestow_deferred_namespaces", {}, 2),
    (lambda m: m.configuration_in_force(3, 0.02), "kubestow_config_generation", {}, 3),
    (lambda m: m.configuration_in_force(3, 0.02), "kubestow_config_reload_pause_seconds", {}, 0.02),
    (lambda m: m.configuration_reload("invalid", refused=True),
     "kubestow_config_reloads_total", {"result": "invalid"}, 1),
    (lambda m: m.configuration_reload("success", refused=False),
     "kubestow_config_last_reload_successful", {}, 1),
    (lambda m: m.missing_permission("pods", "list", required=True, missing=True),
     "kubestow_missing_permissions",
     {"resource": "pods", "verb": "list", "required": "true"}, 1),
    (lambda m: m.decision_history(pods=3, decisions=5, held=900, evicted=2),
     "kubestow_decision_history_size", {"kind": "decisions"}, 5),
    (lambda m: m.decision_history(pods=3, decisions=5, held=900, evicted=2),
     "kubestow_decision_history_size", {"kind": "pods"}, 3),
    (lambda m: m.decision_history(pods=3, decisions=5, held=900, evicted=2),
     "kubestow_decision_history_bytes", {}, 900),
    (lambda m: m.decision_history(pods=3, decisions=5, held=900, evicted=2),
     "kubestow_decision_history_evicted_pods_total", {}, 2),
    (lambda m: m.shadow({"same": 4}, {("other", "Fit"): 2}, {"held": 3}, 1),
     "kubestow_shadow_judged_pods_total", {"verdict": "same"}, 4),
    (lambda m: m.shadow({"same": 4}, {("other", "Fit"): 2}, {"held": 3}, 1),
     "kubestow_shadow_differences_total", {"verdict": "other", "plugin": "Fit"}, 2),
    (lambda m: m.shadow({"same": 4}, {("other", "Fit"): 2}, {"held": 3}, 1),
     "kubestow_shadow_pods", {"state": "held"}, 3),
    (lambda m: m.shadow({"same": 4}, {("other", "Fit"): 2}, {"held": 3}, 1),
     "kubestow_shadow_sooner_pods_total", {}, 1),
    (lambda m: m.recording_failed("bundles"),
     "kubestow_recording_failures_total", {"kind": "bundles"}, 1),
    (lambda m: m.engine.cycle_over_budget("kubestow", "given_up"),
     "kubestow_cycle_time_budget_exceeded_total",
     {"profile": "kubestow", "result": "given_up"}, 1),
    (lambda m: m.bridge.patched("False", "ScaleUpBackoff", "cluster-autoscaler"),
     "kubestow_node_provisioning_condition_patches_total",
     {"status": "False", "reason": "ScaleUpBackoff", "source": "cluster-autoscaler"}, 1),
    (lambda m: m.bridge.event_lag(0.3),
     "kubestow_node_provisioning_bridge_event_lag_seconds_sum", {}, 0.3),
    (lambda m: m.bridge.conflicting_managers(2),
     "kubestow_node_provisioning_bridge_conflicting_managers", {}, 2),
    (lambda m: m.bridge.degraded(True), "kubestow_node_provisioning_bridge_degraded", {}, 1),
    (lambda m: m.bridge.active(True), "kubestow_node_provisioning_bridge_active", {}, 1),
    (lambda m: m.extender_request("http://e", "filter", "error", 0.1),
     "kubestow_extender_requests_total",
     {"extender": "http://e", "verb": "filter", "result": "error"}, 1),
    (lambda m: m.extender_request("http://e", "filter", "success", 0.3),
     "kubestow_extender_request_duration_seconds_sum",
     {"extender": "http://e", "verb": "filter"}, 0.3),
    (lambda m: m.extender_not_called("http://e", "bind"), "kubestow_extender_requests_total",
     {"extender": "http://e", "verb": "bind", "result": "not_called"}, 1),
    (lambda m: m.extender_circuit("http://e", "filter", open=True),
     "kubestow_extender_circuit_open", {"extender": "http://e", "verb": "filter"}, 1),
    (lambda m: _plugin(m).count("scheduler_pod_topology_spread_fallback_total", "Timeout", "p"),
     "scheduler_pod_topology_spread_fallback_total", {"criterion": "Timeout", "profile": "p"}, 1),
    (lambda m: _plugin(m).count("scheduler_pod_topology_spread_fallback_scheduled_total", "p"),
     "scheduler_pod_topology_spread_fallback_scheduled_total", {"profile": "p"}, 1),
    (lambda m: _plugin(m).count("scheduler_resource_quota_violations_total", "n", "q", "Reserve"),
     "scheduler_resource_quota_violations_total",
     {"namespace": "n", "resource_quota": "q", "extension_point": "Reserve"}, 1),
    (lambda m: _plugin(m).gauge("scheduler_resource_quota_held_pods", "n", value=3),
     "scheduler_resource_quota_held_pods", {"namespace": "n"}, 3),
    (lambda m: _plugin(m).observe("scheduler_resource_quota_held_duration_seconds", value=2.5),
     "scheduler_resource_quota_held_duration_seconds_sum", {}, 2.5),
    (lambda m: _plugin(m).gauge("scheduler_resource_quota_inflight", "n", "q", "cpu", value=1.5),
     "scheduler_resource_quota_inflight",
     {"namespace": "n", "resource_quota": "q", "resource": "cpu"}, 1.5),
    (lambda m: _plugin(m).count("scheduler_podgroup_schedule_attempts_total", "scheduled", "p"),
     "scheduler_podgroup_schedule_attempts_total", {"result": "scheduled", "profile": "p"}, 1),
    (lambda m: _plugin(m).observe(
        "scheduler_podgroup_scheduling_attempt_duration_seconds", "scheduled", "p", value=1.5),
     "scheduler_podgroup_scheduling_attempt_duration_seconds_sum",
     {"result": "scheduled", "profile": "p"}, 1.5),
    (lambda m: _plugin(m).count("kubestow_gang_reservation_seconds_total", "p", amount=30.0),
     "kubestow_gang_reservation_seconds_total", {"profile": "p"}, 30),
    (lambda m: _plugin(m).observe(
        "scheduler_podgroup_scheduling_algorithm_duration_seconds", value=1.5),
     "scheduler_podgroup_scheduling_algorithm_duration_seconds_sum", {}, 1.5),
    (lambda m: _plugin(m).gauge("kubestow_gang_groups", "Pending", "CRD", value=2),
     "kubestow_gang_groups", {"state": "Pending", "source": "CRD"}, 2),
    (lambda m: _plugin(m).gauge(f"{G}members", "x", value=3), f"{G}members", {"state": "x"}, 3),
    (lambda m: _plugin(m).gauge(f"{G}partial_groups", value=1), f"{G}partial_groups", {}, 1),
    (lambda m: _plugin(m).observe("kubestow_gang_cycle_seconds", "error", value=0.5),
     "kubestow_gang_cycle_seconds_sum", {"result": "error"}, 0.5),
    (lambda m: _plugin(m).observe(f"{G}cycle_slices", value=3), f"{G}cycle_slices_sum", {}, 3),
    (lambda m: _plugin(m).observe(f"{G}orders_tried", value=2), f"{G}orders_tried_sum", {}, 2),
    (lambda m: _plugin(m).observe(f"{G}placements_tried", value=8),
     "kubestow_gang_placements_tried_sum", {}, 8),
    (lambda m: _plugin(m).count(G + "bound_rejections_total", "x"), G + "bound_rejections_total",
     {"at": "x"}, 1),
    (lambda m: _plugin(m).count(f"{G}unbound_total", "x"), f"{G}unbound_total", {"result": "x"}, 1),
    (lambda m: _plugin(m).observe(f"{G}wait_seconds", "x", value=60), f"{G}wait_seconds_sum",
     {"result": "x"}, 60),
    (lambda m: _plugin(m).count(f"{G}preemption_plans_total", "x"), f"{G}preemption_plans_total",
     {"result": "x"}, 1),
    (lambda m: _plugin(m).count(f"{G}victims_total", "x"), f"{G}victims_total", {"kind": "x"}, 1),
    (lambda m: _plugin(m).count("kubestow_gang_succeeded_lookups_total"),
     "kubestow_gang_succeeded_lookups_total", {}, 1),
    (lambda m: m.quota.written(), "scheduler_resource_quota_writer_writes_total", {}, 1),
    (lambda m: m.quota.failed(), "scheduler_resource_quota_writer_errors_total", {}, 1),
    (lambda m: _plugin(m).gauge("scheduler_resource_quota_ledger_drift", value=2),
     "scheduler_resource_quota_ledger_drift", {}, 2),
    (lambda m: _plugin(m).observe(
        "scheduler_pod_topology_spread_fallback_time_hint_duration_seconds", value=0.5),
     "scheduler_pod_topology_spread_fallback_time_hint_duration_seconds_sum", {}, 0.5),
    (lambda m: m.result_cache("p", hits=9, misses=4), "kubestow_result_cache_requests_total",
     {"profile": "p", "result": "hit"}, 9),
    (lambda m: m.trace_spans(exported=7, failed=2, dropped=3), "kubestow_trace_spans_total",
     {"result": "dropped"}, 3),
    (lambda m: m.plugins.drop_sample("example"), "kubestow_plugin_metric_samples_dropped_total",
     {"metric": "example"}, 1),
    (lambda m: m.features([("A", "Alpha", False)]), "kubernetes_feature_enabled",
     {"name": "A", "stage": "ALPHA"}, 0),
    (lambda m: m.features([("B", "GA", True)]), "kubernetes_feature_enabled",
     {"name": "B", "stage": ""}, 1),
]  # fmt: skip


@pytest.mark.parametrize(
    ("report", "sample", "labels", "expected"), REPORTS, ids=[row[1] for row in REPORTS]
)
def test_a_report_ends_up_in_its_metric(
    metrics: SchedulerMetrics, report: Report, sample: str, labels: dict[str, str], expected: float
) -> None:
    before = value(metrics, sample, **labels)
    assert before != expected or expected == 0
    report(metrics)
    assert value(metrics, sample, **labels) == expected


def test_every_definition_is_reported_to_by_the_table_above(metrics: SchedulerMetrics) -> None:
    for report, *_ in REPORTS:
        report(metrics)
    exposed = {
        f"{family.name}_total" if family.type == "counter" else family.name
        for family in metrics.registry.collect()
    }
    assert exposed == {each.name for each in DEFINITIONS}


def test_the_recorders_implement_the_layers_protocols(
    metrics: SchedulerMetrics,
) -> None:
    engine: EngineMetrics = metrics.engine
    queue: QueueMetrics = metrics.queue
    assert len({id(engine), id(queue), id(client(metrics))}) == 3


def test_queues_and_single_metrics_are_there_before_anything_happens(
    metrics: SchedulerMetrics,
) -> None:
    for queue in ("active", "backoff", "unschedulable", "gated"):
        assert value(metrics, "scheduler_pending_pods", queue=queue) == 0
    assert value(metrics, "scheduler_pod_scheduling_attempts_count") == 0
    assert value(metrics, "kubestow_build_info", version="1.2.3", python="3.11.0") == 1


def test_both_formats_parse_to_the_same_samples(metrics: SchedulerMetrics) -> None:
    for report, *_ in REPORTS:
        report(metrics)
    classic, classic_type = metrics.exposition()
    modern, modern_type = metrics.exposition("application/openmetrics-text; version=1.0.0")
    assert classic_type == "text/plain; version=0.0.4; charset=utf-8"
    assert modern_type.startswith("application/openmetrics-text; version=1.0.0; charset=utf-8")

    parse_modern = openmetrics.text_string_to_metric_families
    old = _samples(parse_text(classic.decode()))
    new = _samples(parse_modern(modern.decode()))  # type: ignore[no-untyped-call]
    assert old == new
    assert len(old) > 400


def _samples(families: Iterable[Metric]) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Values by name and labels; the parsers write bounds differently."""
    found = {}
    for family in families:
        for sample in family.samples:
            labels = dict(sample.labels)
            if "le" in labels:
                labels["le"] = str(float(labels["le"]))
            found[sample.name, frozenset(labels.items())] = sample.value
    return found


def test_buckets_are_printed_as_go_prints_them(metrics: SchedulerMetrics) -> None:
    metrics.engine.plugin("NodeName", "Filter", "Success", 0.0)
    text = metrics.exposition()[0].decode()
    assert 'scheduler_pod_scheduling_attempts_bucket{le="1"} 0.0' in text
    # As a running kube-scheduler v1.36.2 prints them.
    for bound in ("1e-05", "1.5000000000000002e-05", "0.00011390625000000003", "+Inf"):
        labels = f'extension_point="Filter",le="{bound}",plugin="NodeName",status="Success"'
        assert f"scheduler_plugin_execution_duration_seconds_bucket{{{labels}}} 1.0" in text


def test_metrics_without_a_value_are_omitted(metrics: SchedulerMetrics) -> None:
    assert b"scheduler_schedule_attempts_total" not in metrics.exposition()[0]


def test_disabled_metrics_are_not_exposed() -> None:
    metrics = SchedulerMetrics(disabled=["scheduler_pending_pods"], process=False)
    text = metrics.exposition()[0]
    assert b"scheduler_pending_pods" not in text
    assert b"scheduler_preemption_attempts_total" in text


def test_reset_zeroes_counts_and_keeps_states(metrics: SchedulerMetrics) -> None:
    for report, *_ in REPORTS:
        report(metrics)
    metrics.reset()
    assert value(metrics, "scheduler_schedule_attempts_total", result="scheduled", profile="p") == 0
    assert value(metrics, "scheduler_pending_pods", queue="backoff") == 2
    metrics.attempt("scheduled", "p", 0.1)
    assert value(metrics, "scheduler_schedule_attempts_total", result="scheduled", profile="p") == 1


def test_sources_are_called_on_refresh_only(metrics: SchedulerMetrics) -> None:
    metrics.add_source(lambda each: each.cache_size(nodes=5, pods=0, assumed_pods=0))
    metrics.exposition()
    assert value(metrics, "scheduler_cache_size", type="nodes") == 0
    metrics.refresh()
    assert value(metrics, "scheduler_cache_size", type="nodes") == 5


def test_two_schedulers_in_one_process_measure_apart(metrics: SchedulerMetrics) -> None:
    other = SchedulerMetrics(process=True)
    metrics.preemption()
    assert value(other, "scheduler_preemption_attempts_total") == 0
    assert b"process_resident_memory_bytes" in other.exposition()[0]
    assert b"process_resident_memory_bytes" not in metrics.exposition()[0]


def test_the_build_names_the_kubernetes_release_first(metrics: SchedulerMetrics) -> None:
    text = metrics.exposition()[0].decode()
    assert 'git_version="v1.37.0+kubestow.1.2.3"' in text
