"""Labels that autoscalers read: `Unschedulable` only while a node would help."""

from __future__ import annotations

from typing import Any

import pytest

from devtools.embedded_service import condition, node, pod, until
from plugins.resource_quota.upkeep import SWEEP_SECONDS
from simulator import EmbeddedCluster
from tests.integration.deferred_quota.stage import CPU, HELD, Stage, staged


def buys_nodes_for(stage: Stage, name: str) -> bool:
    """The predicate of cluster-autoscaler and Karpenter."""
    shown = condition(stage.cluster, name)
    return shown.get("status") == "False" and shown.get("reason") == "Unschedulable"


async def known(stage: Stage, name: str) -> None:
    """The scheduler has seen what it wrote."""

    def seen() -> bool:
        reasons = [each.reason for each in stage.seen(name).status.conditions]
        return "Unschedulable" in reasons

    await until(seen)


class Reasons:
    """Every reason the pod's PodScheduled condition ever had."""

    def __init__(self, cluster: EmbeddedCluster, name: str) -> None:
        self.name = name
        self.seen: list[str] = []
        cluster.store.subscribe("pods", self._changed)

    def _changed(self, _table: str, change: Any) -> None:
        obj = change.version.obj
        if obj["metadata"]["name"] != self.name:
            return
        for each in obj.get("status", {}).get("conditions", ()):
            reason = each.get("reason", "")
            if each["type"] == "PodScheduled" and self.seen[-1:] != [reason]:
                self.seen.append(reason)


async def test_b40_a_held_pod_buys_no_node_and_one_that_fits_does(cluster: EmbeddedCluster) -> None:
    async with staged(cluster, [node("n1", "2")]) as stage:
        await stage.quota(cpu=6000)
        stage.released("held", cpu="8")
        await stage.reason("held", HELD)
        assert not buys_nodes_for(stage, "held")
        stage.released("unplaced", cpu="5")
        await stage.reason("unplaced", "Unschedulable")
        assert buys_nodes_for(stage, "unplaced")


async def test_b40_usage_rises_and_the_label_is_put_right_and_back(
    cluster: EmbeddedCluster,
) -> None:
    reasons = Reasons(cluster, "g")
    async with staged(cluster, [node("n1", "2")]) as stage:
        await stage.quota(cpu=5000)
        stage.released("g", cpu="5")
        await stage.reason("g", "Unschedulable")
        await known(stage, "g")
        cluster.create(pod("taker", "1"))
        await stage.bound("taker")
        await stage.quiet()
        stage.advance(SWEEP_SECONDS)
        shown = await stage.reason("g", HELD)
        assert "requested: requests.cpu=5, used: requests.cpu=1" in shown["message"]
        assert stage.is_held("g")
        # Quota is free again: an attempt, and only that, makes it the autoscaler's business.
        stage.finish("taker")
        await stage.reason("g", "Unschedulable")
        cluster.create(node("n2", "8"))
        stage.advance()
        await stage.bound("g")
        assert [each for each in reasons.seen if each] == [
            "SchedulingGated",
            "Unschedulable",
            HELD,
            "Unschedulable",
        ]


@pytest.mark.parametrize("cause", ["limit lowered", "quota added"])
async def test_b40_other_ways_to_fit_no_longer(cluster: EmbeddedCluster, cause: str) -> None:
    async with staged(cluster, [node("n1", "2")]) as stage:
        await stage.quota(cpu=5000)
        stage.released("g", cpu="5")
        await stage.reason("g", "Unschedulable")
        await known(stage, "g")
        if cause == "limit lowered":
            await stage.patch_quota("q", {CPU: 4000})
        else:
            await stage.quota("second", cpu=1000)
        stage.advance(SWEEP_SECONDS)
        await stage.reason("g", HELD)


async def test_b41_a_pod_that_still_fits_keeps_its_label(cluster: EmbeddedCluster) -> None:
    async with staged(cluster, [node("n1", "2")]) as stage:
        await stage.quota(cpu=9000)
        stage.released("g", cpu="5")
        await stage.reason("g", "Unschedulable")
        await known(stage, "g")
        cluster.create(pod("taker", "1"))
        await stage.bound("taker")
        for _ in range(3):
            stage.advance(SWEEP_SECONDS)
            await stage.quiet()
        assert buys_nodes_for(stage, "g")
        assert not stage.is_held("g")
