"""The alerts and the dashboard of `manifests/components/monitoring`, judged by Prometheus itself.

Its parser, storage and rule engine run in the program `alertrules`. Expressions are checked with
what a leader on a real API server serves at its endpoints. Alerts are checked with scrapes of a
scheduler on the embedded server, whose metrics are then changed as a fault would change them.
"""

from __future__ import annotations

import http
import json
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from devtools.control_plane.control_plane import ApiServerOptions, Binaries, ControlPlane
from devtools.control_plane.inspecting import get_endpoint
from devtools.control_plane.kubestow import start_kubestow
from devtools.embedded_service import bound_to, node, pod, sample, scheduling, until
from plugins import preemption_loops
from scheduler.metrics import SchedulerMetrics
from simulator import EmbeddedCluster
from tests.envtest.workload import Workload
from tests.thirdparty.build import BUILD_DIRECTORY
from tests.unit.repository.test_monitoring import COMPONENT, expressions, rules

pytestmark = pytest.mark.thirdparty("alertrules")

INTERVAL: Final = 60
"""Seconds between scrapes: twice those of the ServiceMonitor, so that there are half as many."""

TARGET: Final = {"job": "kubestow", "namespace": "kubestow-system", "instance": "10.0.0.1:10259"}
"""Labels of a target without the operator, which has a `metrics_path` as well."""

LEASE: Final = "kubestow"

Fault = Callable[[SchedulerMetrics, int], None]
"""Changes the metrics as one fault does, before the scrape of the given number."""


@dataclass
class Story:
    """Scrapes of a scheduler, and what the rules make of them."""

    directory: Path
    metrics: SchedulerMetrics
    scrapes: list[dict[str, Any]] = field(default_factory=list)

    def pass_time(self, minutes: int, fault: Fault | None = None) -> None:
        """Scrape the scheduler every `INTERVAL`; `fault` changes the metrics before each scrape."""
        first = len(self.scrapes)
        text = self.text()
        for number in range(minutes * 60 // INTERVAL):
            if fault is not None:
                fault(self.metrics, number)
                text = self.text()
            at = (first + number) * INTERVAL
            self.scrapes.append({"at": at, "target": TARGET, "text": text})

    def text(self) -> str:
        """Return what a scrape gets now, and what Prometheus adds."""
        return self.metrics.exposition()[0].decode() + "up 1\n"

    def run(self, *, minutes: int = 0, expressions: Sequence[str] = ()) -> dict[str, Any]:
        """Evaluate the rules until the last scrape and for `minutes` without scrapes after it."""
        spec = yaml.safe_load((COMPONENT / "rules.yaml").read_text())["spec"]
        file = self.directory / "rules.yaml"
        file.write_text(yaml.safe_dump(spec))
        last = self.scrapes[-1]["at"] if self.scrapes else 0
        scenario = {
            "rules": str(file),
            "expressions": list(expressions),
            "scrapes": self.scrapes,
            "interval": INTERVAL,
            "until": last + minutes * 60,
        }
        done = subprocess.run(
            [BUILD_DIRECTORY / "alertrules"],
            input=json.dumps(scenario),
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        result: dict[str, Any] = json.loads(done.stdout)
        return result

    def firing(self, *, minutes: int = 0) -> set[str]:
        """Return the names of the alerts that ever fired."""
        result = self.run(minutes=minutes)
        assert result["errors"] == []
        return {
            each["labels"]["alertname"] for each in result["alerts"] if each["state"] == "firing"
        }


@pytest.fixture
async def story(tmp_path: Path) -> Story:
    """Return the story of a scheduler that leads and has bound a pod; nothing is scraped yet."""
    async with EmbeddedCluster(controllers=(), seed=1) as cluster:
        cluster.create(node("n1"))
        async with scheduling(cluster) as scheduler:
            cluster.create(pod("first"))
            await until(lambda: bound_to(cluster, "first") == "n1")
            counted = "scheduler_pod_scheduling_attempts_count"
            await until(lambda: sample(scheduler, counted) == 1)
            metrics = scheduler.connections.metrics
            metrics.refresh()
    metrics.client_recorder("10.0.0.9:443").leader(LEASE, leading=True)
    return Story(tmp_path, metrics)


@pytest.fixture(scope="module")
def served(envtest_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return what a leader on a real API server serves after a bind and a rejection."""
    directory = tmp_path_factory.mktemp("served")
    with ControlPlane(envtest_binaries, ApiServerOptions(), directory) as server:
        election = {"leaderElect": True, "resourceNamespace": "default", "resourceName": LEASE}
        process = start_kubestow(server, {"leaderElection": election})
        with Workload(server, "scraped") as work:
            work.node("n1")
            work.pod("fits")
            work.pod("too-large", cpu="100")
            work.until_bound("fits")
            work.until_rejected("too-large")
            answers = [
                get_endpoint(process.port, path, server.admin_token)
                for path in ("/metrics", "/metrics/slis")
            ]
        process.stop()
    assert [status for status, _ in answers] == [http.HTTPStatus.OK] * 2
    return "".join(text for _, text in answers) + "up 1\n"


@pytest.fixture
def of_leader(served: str, tmp_path: Path) -> Story:
    """Return the story of the leader whose endpoints were read: an hour of the same."""
    times = range(0, 3600, INTERVAL)
    scrapes = [{"at": at, "target": TARGET, "text": served} for at in times]
    return Story(tmp_path, SchedulerMetrics(), scrapes)


COUNTED_IN_TROUBLE: Final = {
    "kubestow_extender_circuit_open",
    "kubestow_gang_groups",
    'kubestow_gang_groups{state=~"Pending|Unschedulable|Reserved"}',
    'kubestow_gang_wait_seconds_bucket{result="bound"}',
    "kubestow_handler_errors_total",
    "kubestow_malformed_objects_total",
    "kubestow_missing_permissions",
    "kubestow_plugin_switched_off",
    "kubestow_queueing_hint_errors_total",
    "kubestow_watch_terminations_total",
    'kubestow_watch_terminations_total{cause=~"disconnected|decode_error"}',
    'rest_client_requests_total{code=~"5..|429|403|<error>"}',
    "scheduler_resource_quota_held_pods",
    'scheduler_schedule_attempts_total{result="error"}',
}
"""Selectors that match nothing of a healthy scheduler without quota, gangs and extenders."""

OF_SHADOWS: Final = {"kubestow_shadow_differences_total", "kubestow_shadow_judged_pods_total"}
"""Selectors of what only `kubestow shadow` serves."""


def _without_variables(expression: str) -> str:
    """Return an expression as Grafana sends it when all namespaces and instances are selected."""
    text = expression.replace("$__rate_interval", "5m")
    instance = 'instance=~"$instance"'
    both = f'namespace=~"$namespace",{instance}'
    return text.replace(f"{{{both}}}", "").replace(f",{both}", "").replace(f",{instance}", "")


def test_every_expression_parses_and_selects_what_a_leader_serves(of_leader: Story) -> None:
    written = [_without_variables(text) for _, text in expressions()]
    result = of_leader.run(expressions=written)
    assert result["errors"] == []
    # Plugins are timed in one attempt of ten, so perhaps in none of these.
    sampled = {"scheduler_plugin_execution_duration_seconds_bucket"}
    assert set(result["unmatched"]) - sampled == COUNTED_IN_TROUBLE | OF_SHADOWS
    of_leader.metrics.engine.plugin("NodeName", "Filter", "Success", 0.001)
    of_leader.metrics.plugins.declare("p", ()).gauge(
        "scheduler_resource_quota_held_pods", "team-a", value=1.0
    )
    of_leader.metrics.plugins.declare("p", ()).observe(
        "kubestow_gang_wait_seconds", "bound", value=1.0
    )
    for count, _ in FAULTS.values():
        of_leader.pass_time(6, count)
    assert set(of_leader.run(expressions=written)["unmatched"]) == OF_SHADOWS


def test_a_leader_on_a_real_api_server_raises_no_alert(of_leader: Story) -> None:
    assert of_leader.firing() == set()


def test_an_expression_that_does_not_parse_is_an_error(tmp_path: Path) -> None:
    story = Story(tmp_path, SchedulerMetrics())
    (error,) = story.run(expressions=["sum by (a (b)"])["errors"]
    assert "parse error" in error


def test_a_selector_without_series_is_found(of_leader: Story) -> None:
    result = of_leader.run(expressions=['sum(up{job="kubestow"}) > sum(up{job="other"})'])
    assert result["unmatched"] == ["up"]


def test_a_healthy_scheduler_raises_no_alert(story: Story) -> None:
    story.pass_time(60)
    assert story.firing() == set()


def test_a_scheduler_that_is_not_scraped_is_down(story: Story) -> None:
    story.pass_time(1)
    assert story.firing(minutes=15) == {"KubestowDown"}


def test_a_scheduler_that_refuses_its_metrics_is_down(story: Story) -> None:
    """The target of /metrics/slis answers all the same."""
    story.pass_time(15)
    for each in story.scrapes:
        each |= {"target": {**TARGET, "metrics_path": "/metrics"}, "text": "up 0\n"}
    slis = {**TARGET, "metrics_path": "/metrics/slis"}
    story.scrapes = [
        scrape
        for each in story.scrapes
        for scrape in (each, {"at": each["at"], "target": slis, "text": "up 1\n"})
    ]
    assert story.firing() == {"KubestowDown"}


def ledger_drift(metrics: SchedulerMetrics, _number: int) -> None:
    metrics.plugins.declare("p", ()).gauge("scheduler_resource_quota_ledger_drift", value=2.0)


def no_leader(metrics: SchedulerMetrics, _number: int) -> None:
    metrics.client_recorder("10.0.0.9:443").leader(LEASE, leading=False)


def forbidden(metrics: SchedulerMetrics, _number: int) -> None:
    metrics.missing_permission("resourcequotas", "list", required=False, missing=True)


def refused(metrics: SchedulerMetrics, number: int) -> None:
    if number == 0:
        metrics.configuration_in_force(1)
        metrics.configuration_reload("invalid", refused=True)


def waiting(metrics: SchedulerMetrics, number: int) -> None:
    metrics.queue.pending_pods("active", 1 if number == 0 else 0)


def unschedulable(metrics: SchedulerMetrics, number: int) -> None:
    metrics.queue.pending_pods("unschedulable", 1 if number == 0 else 0)


def partial_gang(metrics: SchedulerMetrics, _number: int) -> None:
    metrics.plugins.declare("p", ()).gauge("kubestow_gang_partial_groups", value=1.0)


def waiting_gang(metrics: SchedulerMetrics, _number: int) -> None:
    groups = metrics.plugins.declare("p", ())
    groups.gauge("kubestow_gang_groups", "Unschedulable", "CRD", value=1.0)


def slow_binds(metrics: SchedulerMetrics, _number: int) -> None:
    metrics.bound(3, 900.0)


def failing_attempts(metrics: SchedulerMetrics, _number: int) -> None:
    metrics.attempt("error", "kubestow", 0.1)


def preemption_loop(metrics: SchedulerMetrics, number: int) -> None:
    declared = metrics.plugins.declare("DefaultPreemption", preemption_loops.METRICS)
    declared.expose()
    declared.count(preemption_loops.LOOPS, amount=1.0 if number == 5 else 0.0)


def hint_error(metrics: SchedulerMetrics, number: int) -> None:
    if number == 5:
        metrics.queue.hint_error("NodeName", "NodeAdd")


def switched_off(metrics: SchedulerMetrics, number: int) -> None:
    if number == 5:
        metrics.plugin_faults.switched_off("kubestow", "example.com/Slow", off=True)


def denied(metrics: SchedulerMetrics, _number: int) -> None:
    metrics.client_recorder("10.0.0.9:443").request("PATCH", "403", 0.1)


def watch_ends(metrics: SchedulerMetrics, _number: int) -> None:
    for _ in range(INTERVAL // 10):
        metrics.client_recorder("10.0.0.9:443").watch_ended("pods", "disconnected")


def skipped(metrics: SchedulerMetrics, number: int) -> None:
    if number == 5:
        metrics.client_recorder("10.0.0.9:443").malformed("pods")


def handler_raised(metrics: SchedulerMetrics, number: int) -> None:
    if number == 5:
        metrics.handler_error("nodes")


def late_loop(metrics: SchedulerMetrics, _number: int) -> None:
    metrics.loop_lag(1.0)


def quota_writes_fail(metrics: SchedulerMetrics, _number: int) -> None:
    metrics.quota.failed()


def circuit_open(metrics: SchedulerMetrics, _number: int) -> None:
    metrics.extender_circuit("http://extender", "filter", open=True)


def after_flush(metrics: SchedulerMetrics, number: int) -> None:
    metrics.bound(2, 1.0, after_flush=number % 60 == 0)


FAULTS: Final[dict[str, tuple[Fault, str]]] = {
    "ledger drift": (ledger_drift, "KubestowQuotaDrift"),
    "no leader": (no_leader, "KubestowNoLeader"),
    "forbidden": (forbidden, "KubestowPermissionMissing"),
    "refused": (refused, "KubestowConfigurationRefused"),
    "waiting": (waiting, "KubestowSchedulesNothing"),
    "unschedulable": (unschedulable, "KubestowPodsUnschedulable"),
    "partial gang": (partial_gang, "KubestowGangPartial"),
    "waiting gang": (waiting_gang, "KubestowGangsWaitLong"),
    "slow binds": (slow_binds, "KubestowPodsWaitLong"),
    "failing attempts": (failing_attempts, "KubestowAttemptsFail"),
    "preemption loop": (preemption_loop, "KubestowPreemptionLoop"),
    "hint error": (hint_error, "KubestowPluginErrors"),
    "switched off": (switched_off, "KubestowPluginSwitchedOff"),
    "denied": (denied, "KubestowApiRequestsFail"),
    "watch ends": (watch_ends, "KubestowWatchesEnd"),
    "malformed": (skipped, "KubestowObjectsSkipped"),
    "handler raised": (handler_raised, "KubestowObjectsSkipped"),
    "late loop": (late_loop, "KubestowEventLoopLag"),
    "quota writes fail": (quota_writes_fail, "KubestowQuotaWritesFail"),
    "circuit open": (circuit_open, "KubestowExtenderNotCalled"),
    "after flush": (after_flush, "KubestowHintsMissEvents"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_raises_its_alert_and_no_other(story: Story, fault: str) -> None:
    count, alert = FAULTS[fault]
    story.pass_time(20)
    story.pass_time(90, count)
    assert story.firing() == {alert}


def test_two_leaders_are_an_alert(story: Story) -> None:
    story.pass_time(5)
    other = {**TARGET, "instance": "10.0.0.2:10259"}
    story.scrapes = [
        {**each, "target": target} for each in story.scrapes for target in (TARGET, other)
    ]
    assert story.firing() == {"KubestowSeveralLeaders"}


def test_a_failing_check_is_not_ready(story: Story) -> None:
    story.pass_time(10)
    for each in story.scrapes:
        each["text"] += 'kubernetes_healthcheck{name="sched-handler-sync",type="readyz"} 0\n'
    assert story.firing() == {"KubestowNotReady"}


def test_a_standby_with_pods_in_its_queue_is_no_alert(story: Story) -> None:
    story.pass_time(60, waiting)
    leader = {**TARGET, "instance": "10.0.0.2:10259"}
    text = f'leader_election_master_status{{name="{LEASE}"}} 1\n'
    standby = [
        {**each, "text": each["text"].replace(f'{{name="{LEASE}"}} 1.0', f'{{name="{LEASE}"}} 0.0')}
        for each in story.scrapes
    ]
    story.scrapes = [
        scrape
        for each in standby
        for scrape in (each, {"at": each["at"], "target": leader, "text": text})
    ]
    assert story.firing() == set()


def test_every_alert_is_raised_by_a_test() -> None:
    others = {
        "KubestowDown",
        "KubestowSeveralLeaders",
        "KubestowNotReady",
    }
    assert {alert for _, alert in FAULTS.values()} | others == {
        rule["alert"] for rule in rules("alert")
    }
