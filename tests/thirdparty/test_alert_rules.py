"""The alerts of `manifests/components/monitoring` in Prometheus' own rule engine.

What is scraped is the exposition text of a scheduler that runs on the embedded server; a case adds
what its trouble would count.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from scheduler.metrics import SchedulerMetrics
from simulator import EmbeddedCluster
from testing.embedded_service import bound_to, node, pod, sample, scheduling, until
from tests.thirdparty.build import BUILD_DIRECTORY
from tests.unit.repository.test_monitoring import COMPONENT, panels, rules

pytestmark = pytest.mark.thirdparty("alertrules")

INTERVAL: Final = 30
TARGET: Final = {"job": "kubestow", "namespace": "kubestow-system", "instance": "10.0.0.1:10259"}
LEASE: Final = "kubestow"

Trouble = Callable[[SchedulerMetrics, int], None]
"""Counts what is wrong, before the scrape of the given number."""


@dataclass
class Story:
    """Scrapes of a scheduler, and what the rules make of them."""

    directory: Path
    metrics: SchedulerMetrics
    scrapes: list[dict[str, Any]] = field(default_factory=list)

    def pass_time(self, minutes: int, trouble: Trouble = lambda _metrics, _number: None) -> None:
        """Scrape the scheduler every half a minute."""
        first = len(self.scrapes)
        for number in range(first, first + minutes * 60 // INTERVAL):
            trouble(self.metrics, number - first)
            text = self.metrics.exposition()[0].decode() + "up 1\n"
            self.scrapes.append({"at": number * INTERVAL, "target": TARGET, "text": text})

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


def test_every_expression_of_the_dashboard_parses(story: Story) -> None:
    expressions = [
        target["expr"].replace("$__rate_interval", "5m")
        for panel in panels()
        for target in panel["targets"]
    ]
    assert story.run(expressions=expressions)["errors"] == []


def test_an_expression_that_does_not_parse_is_an_error(story: Story) -> None:
    (error,) = story.run(expressions=["sum by (a (b)"])["errors"]
    assert "parse error" in error


def test_a_healthy_scheduler_raises_no_alert(story: Story) -> None:
    story.pass_time(60)
    assert story.firing() == set()


def test_a_scheduler_that_is_not_scraped_is_down(story: Story) -> None:
    story.pass_time(1)
    assert story.firing(minutes=15) == {"KubestowDown"}


def ledger_drift(metrics: SchedulerMetrics, _number: int) -> None:
    metrics.plugins.gauge("scheduler_resource_quota_ledger_drift", value=2.0)


def no_leader(metrics: SchedulerMetrics, _number: int) -> None:
    metrics.client_recorder("10.0.0.9:443").leader(LEASE, leading=False)


def waiting(metrics: SchedulerMetrics, number: int) -> None:
    metrics.queue.pending_pods("active", 1 if number == 0 else 0)


def unschedulable(metrics: SchedulerMetrics, number: int) -> None:
    metrics.queue.pending_pods("unschedulable", 1 if number == 0 else 0)


def slow_binds(metrics: SchedulerMetrics, _number: int) -> None:
    metrics.bound(3, 900.0)


def failing_attempts(metrics: SchedulerMetrics, _number: int) -> None:
    metrics.attempt("error", "kubestow", 0.1)


def hint_error(metrics: SchedulerMetrics, number: int) -> None:
    if number == 5:
        metrics.queue.hint_error("NodeName", "NodeAdd")


def denied(metrics: SchedulerMetrics, _number: int) -> None:
    metrics.client_recorder("10.0.0.9:443").request("PATCH", "403", 0.1)


def watch_ends(metrics: SchedulerMetrics, _number: int) -> None:
    for _ in range(3):
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


TROUBLES: Final[dict[str, tuple[Trouble, str]]] = {
    "ledger drift": (ledger_drift, "KubestowQuotaDrift"),
    "no leader": (no_leader, "KubestowNoLeader"),
    "waiting": (waiting, "KubestowSchedulesNothing"),
    "unschedulable": (unschedulable, "KubestowPodsUnschedulable"),
    "slow binds": (slow_binds, "KubestowPodsWaitLong"),
    "failing attempts": (failing_attempts, "KubestowAttemptsFail"),
    "hint error": (hint_error, "KubestowPluginErrors"),
    "denied": (denied, "KubestowApiRequestsFail"),
    "watch ends": (watch_ends, "KubestowWatchesEnd"),
    "malformed": (skipped, "KubestowObjectsSkipped"),
    "handler raised": (handler_raised, "KubestowObjectsSkipped"),
    "late loop": (late_loop, "KubestowEventLoopLag"),
    "quota writes fail": (quota_writes_fail, "KubestowQuotaWritesFail"),
    "circuit open": (circuit_open, "KubestowExtenderNotCalled"),
    "after flush": (after_flush, "KubestowHintsMissEvents"),
}


@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_trouble_raises_its_alert_and_no_other(story: Story, trouble: str) -> None:
    count, alert = TROUBLES[trouble]
    story.pass_time(20)
    story.pass_time(90, count)
    assert story.firing() == {alert}


def test_two_leaders_are_an_alert(story: Story) -> None:
    story.pass_time(5)
    other = {**TARGET, "instance": "10.0.0.2:10259"}
    story.scrapes = [
        {**each, "target": target} for each in story.scrapes for target in (TARGET, other)
    ]
    assert "KubestowSeveralLeaders" in story.firing()


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
    assert {alert for _, alert in TROUBLES.values()} | others == {
        rule["alert"] for rule in rules("alert")
    }
