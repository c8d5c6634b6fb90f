"""Switching the feature on, off and on again: no pod ends, nothing leaks, numbers are right."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from benchmarks.bound_sum import BoundSum
from config import FeatureGates
from devtools.embedded_service import (
    bound_to,
    condition,
    event_notes,
    node,
    pod,
    scheduling,
    until,
)
from plugins.resource_quota.keys import PREFIX
from plugins.resource_quota.plugin import GATE
from scheduler.controllers.quota_usage.switched_off import NOT_ENFORCED
from scheduler.service.options import RunOptions
from scheduler.stages.wiring import Wiring
from simulator import EmbeddedCluster, FaultRule
from simulator.api import MERGE_PATCH
from tests.integration.deferred_quota.stage import CPU, HELD, Stage, staged
from tests.integration.deferred_quota.test_usage_writer import shown

OVERCOMMITTED = "DeferredQuotaOvercommitted"


@pytest.fixture
async def cluster() -> AsyncIterator[EmbeddedCluster]:
    async with EmbeddedCluster(controllers=(), seed=1) as running:
        running.create(node("n1", "100", pods=5000))
        yield running


@asynccontextmanager
async def without_the_gate(cluster: EmbeddedCluster) -> AsyncIterator[Wiring]:
    """A scheduler that does without the feature."""
    options = RunOptions(feature_gates=FeatureGates({GATE: False}))
    async with scheduling(cluster, options=options) as wiring:
        yield wiring


async def test_b53_gate_off_schedules_unchecked_and_says_so(cluster: EmbeddedCluster) -> None:
    async with staged(cluster, []) as stage:
        await stage.quota(cpu=1000)
        stage.released("a", "b")
        await until(lambda: stage.is_bound("a") or stage.is_bound("b"))
        held = "b" if stage.is_bound("a") else "a"
        await stage.reason(held, HELD)
        await until(lambda: shown(stage) == {CPU: "1000"})
    async with without_the_gate(cluster):
        await until(partial(bound_to, cluster, held), "scheduled unchecked")
        await until(lambda: event_notes(cluster, NOT_ENFORCED))
        (note,) = event_notes(cluster, NOT_ENFORCED)
        assert "quota q" in note
    async with staged(cluster, []) as stage:
        # Everything is recounted, what is over is reported, nothing is stopped.
        await until(lambda: shown(stage) == {CPU: "2000"})
        await until(lambda: event_notes(cluster, OVERCOMMITTED))
        assert "used 2, limited 1" in event_notes(cluster, OVERCOMMITTED)[0]
        assert stage.is_bound("a")
        assert stage.is_bound("b")


async def test_a_cluster_without_deferred_keys_gets_no_event(cluster: EmbeddedCluster) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "plain"}}
    cluster.create({**quota, "spec": {"hard": {"pods": "5"}}})
    async with without_the_gate(cluster):
        cluster.create(pod("a"))
        await until(partial(bound_to, cluster, "a"))
        assert event_notes(cluster, NOT_ENFORCED) == []


async def test_quotas_that_may_not_be_read_are_ignored(cluster: EmbeddedCluster) -> None:
    rule = FaultRule(action="error", verb="list", resource="resourcequotas", code=403)
    cluster.faults.add(rule)
    async with without_the_gate(cluster):
        cluster.create(pod("a"))
        await until(partial(bound_to, cluster, "a"))


async def test_b56_upgrade_rollback_upgrade(cluster: EmbeddedCluster) -> None:
    def names(stage: Stage) -> dict[str, Any]:
        return {name: stage.is_bound(name) for name in ("runs", "gated", "held")}

    async with staged(cluster, []) as stage:
        await stage.quota(cpu=1000)
        stage.released("runs")
        await stage.bound("runs")
        stage.gated("gated")
        stage.released("held")
        await stage.reason("held", HELD)
    async with without_the_gate(cluster):
        await until(partial(bound_to, cluster, "held"))
        cluster.create(pod("meanwhile"))
        await until(partial(bound_to, cluster, "meanwhile"))
    async with staged(cluster, []) as stage:
        assert names(stage) == {"runs": True, "gated": False, "held": True}
        await until(lambda: shown(stage) == {CPU: "3000"})
        stage.ungate("gated")
        await stage.reason("gated", HELD)
        for name in ("runs", "held"):
            stage.finish(name)
        await until(lambda: stage.used() == {CPU: "1000"})
        assert not stage.is_bound("gated")
        stage.finish("meanwhile")
        await stage.bound("gated")
        await stage.quiet()
        assert stage.used() == {CPU: "1000"}
        await until(lambda: stage.ledger.statistics().reserved == 0, "seen bound")


MARKS: dict[str, dict[str, Any]] = {
    "ungated": {"conditions": [("PodScheduled", "False", "SchedulingGated")]},
    "held": {"conditions": [("PodScheduled", "False", "ResourceQuotaValidated")]},
    "foreign": {"conditions": [("PodScheduled", "False", "ResourceQuotaExceeded")]},
    "unplaced": {
        "conditions": [
            ("PodScheduled", "False", "Unschedulable"),
            ("kubestow.io/QuotaDeferred", "True", "SchedulingGated"),
        ]
    },
    "annotated": {"annotations": {"kubestow.io/quota-deferred": "true"}},
    "never gated, held": {
        "conditions": [
            ("PodScheduled", "False", "ResourceQuotaValidated"),
            ("kubestow.io/QuotaDeferred", "False", "NeverGated"),
        ]
    },
}


@pytest.mark.parametrize("mark", MARKS)
async def test_b39_every_mark_is_recognised_after_a_restart(
    cluster: EmbeddedCluster, mark: str
) -> None:
    made = pod("p", "4")
    made["metadata"]["annotations"] = MARKS[mark].get("annotations", {})
    made["status"] = {
        "conditions": [
            {"type": kind, "status": status, "reason": reason}
            for kind, status, reason in MARKS[mark].get("conditions", ())
        ]
    }
    # The server sets PodScheduled of gated pods itself; here it is as a scheduler left it.
    cluster.create({**made, "spec": {**made["spec"], "schedulerName": "none"}})
    resource = cluster.resources.of_kind("v1", "Pod")
    cluster.api.patch(
        resource, "default", "p", {"status": made["status"]}, MERGE_PATCH, subresource="status"
    )
    async with staged(cluster, []) as stage:
        await stage.quota(cpu=2000)
        assert stage.ledger.deferred(stage.seen("p")) is (mark != "never gated, held")
        # Larger than the quota: charged nothing either way.
        assert stage.used() == {CPU: "0"}


async def test_b39_a_restart_writes_nothing_to_held_pods(cluster: EmbeddedCluster) -> None:
    async with staged(cluster, []) as stage:
        await stage.quota(cpu=1000)
        stage.released("big", cpu="3")
        await stage.reason("big", HELD)
        await until(lambda: stage.marks("big") == ["True"])
        await until(lambda: len(stage.notes()) == 1, "told in an Event")
    version = cluster.get("v1", "Pod", "big")["metadata"]["resourceVersion"]
    async with staged(cluster, []) as stage:
        await stage.held("big")
        stage.advance(30)
        await stage.quiet()
        assert stage.cluster.get("v1", "Pod", "big")["metadata"]["resourceVersion"] == version
        assert condition(cluster, "big")["reason"] == HELD
        assert len(stage.notes()) == 1


async def test_o5_a_quota_that_is_deleted_takes_its_reservations_along(
    cluster: EmbeddedCluster,
) -> None:
    cluster.faults.add(
        FaultRule(action="delay", verb="create", resource="pods/binding", seconds=0.3)
    )
    async with staged(cluster, []) as stage:
        await stage.quota(cpu=1000)
        stage.released("a")
        await until(lambda: list(stage.ledger.reserved()))
        stage.released("b")
        await stage.held("b")
        stage.delete("q", "ResourceQuota")
        await stage.bound("a", "b")
        assert PREFIX not in str([account.published() for account in stage.ledger.accounts()])


@pytest.mark.parametrize("moment", ["before the bind", "after the bind"])
async def test_b28_the_leader_dies_between_reserve_and_the_end(
    cluster: EmbeddedCluster, moment: str
) -> None:
    total = BoundSum(cluster)
    # Before: the request never does anything. After: it is carried out, and nobody hears of it.
    action = "silence" if moment == "before the bind" else "drop-answer"
    rule = cluster.faults.add(FaultRule(action=action, verb="create", resource="pods/binding"))  # type: ignore[arg-type]
    async with staged(cluster, []) as first:
        await first.quota(cpu=1000)
        first.released("a", "b")
        sent = first.wiring.connections.dispatcher.statistics
        await until(lambda: sent().bind.in_flight or sent().settling or total.binds)
    cluster.faults.remove(rule)
    async with staged(cluster, []) as second:
        await until(lambda: total.binds == 1, "one bound")
        await second.quiet()
        await until(lambda: shown(second) == {CPU: "1000"})
        winner = "a" if second.is_bound("a") else "b"
        second.finish(winner)
        await until(lambda: total.binds == 2, "nobody is lost")
        await second.quiet()
        await until(lambda: not list(second.ledger.reserved()))
        assert total.most == 1000
        assert second.used() == {CPU: "1000"}
