"""The first quota of a cluster, and the pods that existed before it."""

from __future__ import annotations

from devtools.embedded_service import find, node, pod, until
from plugins.resource_quota.upkeep import SWEEP_SECONDS
from simulator import EmbeddedCluster
from simulator.objects import priority_class
from tests.integration.deferred_quota.stage import CPU, HELD, staged

HIGH = priority_class("high", 1000)


async def test_q3_q5_who_was_gated_is_known_although_no_condition_tells_any_more(
    cluster: EmbeddedCluster,
) -> None:
    async with staged(cluster, [node("n1", "3")]) as stage:
        cluster.create(pod("running", "1"))
        stage.released("unplaced", cpu="5")
        stage.gated("gated", "1")
        await stage.bound("running")
        await stage.reason("unplaced", "Unschedulable")
        await until(
            lambda: "Unschedulable" in [c.reason for c in stage.seen("unplaced").status.conditions]
        )
        assert stage.marks("unplaced") == []

        await stage.quota(cpu=2000)
        assert stage.used() == {CPU: "1000"}
        stage.advance(SWEEP_SECONDS + 0.1)
        await stage.reason("unplaced", HELD)
        assert stage.marks("unplaced") == ["True"]
        stage.ungate("gated")
        await stage.bound("gated")
        assert stage.used() == {CPU: "2000"}

        stage.delete("q", "ResourceQuota")
        await stage.reason("unplaced", "Unschedulable")
        await stage.quota("again", cpu=2000)
        assert stage.used("again") == {CPU: "2000"}


async def test_b29_a_preemptor_that_was_nominated_before_has_its_share(
    cluster: EmbeddedCluster,
) -> None:
    cluster.create(HIGH)
    async with staged(cluster, [node("n1", "4")]) as stage:
        cluster.create(pod("victim", "4", terminationGracePeriodSeconds=600))
        await stage.bound("victim")
        stage.released("preemptor", cpu="4", priorityClassName="high")
        await until(
            lambda: (find(cluster, "preemptor") or {})["status"].get("nominatedNodeName") == "n1"
        )

        await stage.quota(cpu=8000)
        assert stage.used() == {CPU: "8000"}
        stage.released("small", cpu="1")
        await stage.held("small")
        stage.delete("victim")
        stage.advance()
        await stage.bound("preemptor")
