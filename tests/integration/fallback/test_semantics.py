"""Scenarios A2 to A31: which constraints soften, when, and what becomes of the pod."""

from __future__ import annotations

from typing import Any

import pytest

from devtools.embedded_service import bound_to, delete, find, plugin, pod, sample, until
from simulator import EmbeddedCluster, FaultRule
from tests.integration.fallback.stage import (
    APPLIED,
    BACKOFF,
    HOST,
    NPF,
    PF,
    ZONE,
    constraint,
    spread,
    staged,
    zone_node,
)

ZONE_NPF = f"{ZONE}={NPF}"
ZONE_PF = f"{ZONE}={PF}"
BOTH = f"{ZONE}={NPF}+{PF}"


async def test_a02_a_new_pod_is_tried_strictly_and_autoscalers_see_it(
    cluster: EmbeddedCluster,
) -> None:
    async with staged(cluster) as stage:
        await stage.rejected_once(ZONE_NPF)
        await stage.stays("p", 1)
        scheduled = stage.condition("p", "PodScheduled")
        assert (scheduled["status"], scheduled["reason"]) == ("False", "Unschedulable")
        own = stage.condition("p")
        assert (own["status"], own["reason"]) == ("False", "AwaitingCriteria")
        assert own["message"].startswith("since=")
        await until(lambda: stage.events("FailedScheduling"))
        (note,) = set(stage.events("FailedScheduling"))
        assert note.endswith(f" (fallback waits for: zone: {NPF})")


async def test_a03_the_condition_alone_brings_the_pod_to_the_other_zone(
    cluster: EmbeddedCluster,
) -> None:
    async with staged(cluster) as stage:
        await stage.rejected_once(ZONE_NPF)
        stage.provisioning("p", "False", reason="NotTriggerScaleUp", message="1 in backoff")
        await stage.bound("p", "z1")
        assert stage.attempts("p") == 2
        found = find(cluster, "p")
        assert found is not None
        assert found["metadata"]["annotations"][APPLIED] == ZONE
        await until(lambda: stage.events("TopologySpreadFallback"))
        (note,) = stage.events("TopologySpreadFallback")
        assert note == (
            "topologySpreadConstraints[zone] treated as ScheduleAnyway: NodeProvisioningFailed "
            "(NodeProvisioningInProgress=False (NotTriggerScaleUp: 1 in backoff))"
        )
        await stage.quiet()
        total = "scheduler_pod_topology_spread_fallback_total"
        assert sample(stage.wiring, total, criterion=NPF, profile="kubestow") == 1
        scheduled = "scheduler_pod_topology_spread_fallback_scheduled_total"
        assert sample(stage.wiring, scheduled, profile="kubestow") == 1


@pytest.mark.parametrize(
    "status",
    [
        pytest.param("True", id="test_a04_true"),
        pytest.param("Unknown", id="test_a05_unknown"),
    ],
)
async def test_a04_a05_any_other_condition_leaves_it_strict(
    cluster: EmbeddedCluster, status: str
) -> None:
    async with staged(cluster) as stage:
        await stage.rejected_once(ZONE_NPF)
        stage.provisioning("p", status)
        await stage.stays("p", 1)
        stage.create(zone_node("z2b", "Z2", cpu="0"))
        await stage.retried("p", 2)


async def test_a06_preemption_in_vain_softens_the_next_attempt(cluster: EmbeddedCluster) -> None:
    async with staged(cluster) as stage:
        await stage.rejected_once(ZONE_PF)
        assert stage.place("p") == "backoff"
        await stage.bound("p", "z1")
        assert stage.attempts("p") == 2
        assert find(cluster, "full") is not None, "no pod was evicted"


async def test_a07_preemption_that_helps_keeps_it_strict(cluster: EmbeddedCluster) -> None:
    async with staged(cluster) as stage:
        stage.uneven()
        stage.create(spread("p", ZONE_PF, priorityClassName="high"))
        await stage.bound("p", "z2")
        assert find(cluster, "full") is None
        found = find(cluster, "p")
        assert found is not None
        assert APPLIED not in found["metadata"].get("annotations", {})


async def test_a08_one_of_two_criteria_is_not_enough(cluster: EmbeddedCluster) -> None:
    """Rule S2, the other way round than A9: the condition alone, preemption not tried yet."""
    async with staged(cluster) as stage:
        stage.uneven()
        made = spread("p", BOTH, priorityClassName="high")
        stage.create(made)
        await stage.bound("p", "z2")
        assert find(cluster, "full") is None


async def test_a09_both_criteria_must_hold(cluster: EmbeddedCluster) -> None:
    async with staged(cluster) as stage:
        await stage.rejected_once(BOTH)
        await stage.stays("p", 1)
        assert stage.condition("p")["message"].endswith(f"zone waits for {NPF}")
        stage.create(zone_node("z2b", "Z2", cpu="0"))
        await stage.retried("p", 2)
        stage.provisioning("p", "False")
        await stage.bound("p", "z1")


async def test_a10_true_before_the_attempt_takes_it_back(cluster: EmbeddedCluster) -> None:
    """Rule S10: the criteria are judged in the attempt, not when they woke the pod."""
    async with staged(cluster) as stage:
        await stage.rejected_once(ZONE_NPF)
        stage.provisioning("p", "False")
        await stage.quiet()
        assert stage.place("p") == "backoff"
        stage.provisioning("p", "True")
        await stage.retried("p", 2)
        assert stage.condition("p")["status"] == "False"


async def test_a11_each_constraint_is_judged_alone(cluster: EmbeddedCluster) -> None:
    both = [constraint(), constraint(HOST)]
    async with staged(cluster) as stage:
        # Z1: two nodes, one free of pods but full. Z2: nothing that fits.
        stage.create(zone_node("z1a", "Z1"), zone_node("z1b", "Z1"), zone_node("z2", "Z2"))
        stage.running("r1", "z1a")
        stage.running("r2", "z2")
        stage.running("full-1b", "z1b", "4", app="other")
        stage.running("full-2", "z2", "3", app="other")
        stage.create(spread("p", f"{ZONE}={NPF};{HOST}={PF}", both))
        await stage.attempted("p", 1)
        await stage.bound("p", "z1a")
        found = find(cluster, "p")
        assert found is not None
        assert found["metadata"]["annotations"][APPLIED] == HOST

        # Now Z1 has two and Z2 one: another pod would violate the zone on every node of Z1.
        stage.create(spread("q", f"{ZONE}={NPF};{HOST}={PF}", both))
        await stage.attempted("q", 1)
        await stage.retried("q", 2)
        await stage.stays("q", 2)
        own = stage.condition("q")
        assert own["status"] == "True"
        assert own["message"].endswith(f"{HOST}: {PF}")
        words = f" (fallback active for: {HOST}) (fallback waits for: zone: {NPF})"
        assert stage.condition("q", "PodScheduled")["message"].endswith(words)


async def test_a12_an_empty_list_never_falls_back(native: EmbeddedCluster) -> None:
    async with staged(native, nodeProvisioningTimeout="1m") as stage:
        await stage.rejected_once(None, [constraint(fallbackCriteria=[])])
        stage.provisioning("p", "False")
        await stage.stays("p", 1, seconds=120)
        assert stage.condition("p") == {}


async def test_a14_criteria_need_no_other_plugins(cluster: EmbeddedCluster) -> None:
    """Without PostFilter plugins preemption cannot be tried, which counts as failed (S6)."""
    async with staged(cluster, points={"postFilter": {"disabled": [{"name": "*"}]}}) as stage:
        await stage.rejected_once(ZONE_PF, priorityClassName="high")
        await stage.bound("p", "z1")
        assert find(cluster, "full") is not None


async def test_a15_min_domains_means_nothing_while_soft(cluster: EmbeddedCluster) -> None:
    async with staged(cluster) as stage:
        stage.create(zone_node("z1", "Z1"), zone_node("z2", "Z2"))
        stage.running("r1", "z1")
        stage.running("r2", "z2")
        stage.create(spread("p", ZONE_NPF, [constraint(minDomains=3)]))
        await stage.attempted("p", 1)
        stage.provisioning("p", "False")
        await stage.quiet()
        stage.advance(BACKOFF)
        await until(lambda: bound_to(cluster, "p"))


async def test_a18_a_node_without_the_key_becomes_feasible(cluster: EmbeddedCluster) -> None:
    async with staged(cluster) as stage:
        stage.uneven()
        stage.create({**zone_node("bare", ""), "metadata": {"name": "bare"}})
        stage.running("full-1", "z1", "3", app="other")
        stage.create(spread("p", ZONE_NPF))
        await stage.attempted("p", 1)
        stage.provisioning("p", "False")
        await stage.bound("p", "bare")


async def test_a24_a_nomination_lost_to_another_pod(cluster: EmbeddedCluster) -> None:
    async with staged(cluster) as stage:
        stage.uneven()
        # The victim goes slowly, so that the nomination lasts.
        delete(cluster, "full")
        slow = pod("slow", "4", nodeName="z2", terminationGracePeriodSeconds=600)
        stage.create({**slow, "status": {"phase": "Running"}})
        stage.create(spread("p", ZONE_PF, priorityClassName="high"))
        await stage.attempted("p", 1)
        nominated = find(cluster, "p")
        assert nominated is not None
        assert nominated["status"]["nominatedNodeName"] == "z2"
        stage.patch("p", {"status": {"nominatedNodeName": None}}, "status")
        await stage.quiet()
        stage.touch_node("z2", "1")
        stage.create(zone_node("z2b", "Z2", cpu="0"))
        await stage.retried("p", 2)
        assert stage.condition("p")["status"] == "False", "strict: S12"


async def test_a26_a_pod_that_may_not_preempt(cluster: EmbeddedCluster) -> None:
    async with staged(cluster) as stage:
        await stage.rejected_once(ZONE_PF, priorityClassName="high", preemptionPolicy="Never")
        await stage.bound("p", "z1")
        assert stage.attempts("p") == 2
        assert find(cluster, "full") is not None


async def test_s6_evictions_that_fail_are_a_failed_preemption(cluster: EmbeddedCluster) -> None:
    cluster.faults.add(FaultRule(action="error", verb="delete", resource="pods", name="full"))
    async with staged(cluster) as stage:
        stage.uneven()
        stage.create(spread("p", ZONE_PF, priorityClassName="high"))
        await until(lambda: bound_to(cluster, "p") == "z1")
        assert stage.attempts("p") == 2
        assert find(cluster, "full") is not None


async def test_a27_no_nodes_is_no_failed_preemption(cluster: EmbeddedCluster) -> None:
    async with staged(cluster) as stage:
        stage.create(spread("p", ZONE_PF))
        await stage.attempted_without_nodes("p")
        # The selfsame moment brings Z2, which is full, and Z1 with a pod: strictly it fits nowhere.
        stage.uneven()
        await stage.retried("p", stage.attempts("p") + 1)
        assert stage.condition("p")["reason"] == "AwaitingCriteria", "that one was strict"
        await stage.bound("p", "z1")


async def test_a28_a_soft_pod_that_does_not_fit_is_no_busy_loop(cluster: EmbeddedCluster) -> None:
    async with staged(cluster, flush=True) as stage:
        await stage.rejected_once(ZONE_NPF)
        stage.running("full-1", "z1", "3", app="other")
        await stage.quiet()
        stage.provisioning("p", "False", message="0")
        await stage.quiet()
        for step in range(60):
            stage.provisioning("p", "False", message=str(step + 1))
            await stage.quiet()
            stage.advance(10)
            await stage.quiet()
        assert stage.attempts("p") <= 3


async def test_a29_a_condition_that_flaps_every_second_is_no_busy_loop(
    cluster: EmbeddedCluster,
) -> None:
    async with staged(cluster) as stage:
        await stage.rejected_once(ZONE_NPF)
        stage.running("full-1", "z1", "3", app="other")
        await stage.quiet()
        stage.advance(BACKOFF)
        for second in range(30):
            stage.provisioning("p", "False" if second % 2 else "True", message=str(second))
            await stage.quiet()
            stage.advance(1)
            await stage.quiet()
        # Soft since the first False: spreading rejects it no longer, so its status wakes nothing.
        assert stage.attempts("p") == 2


@pytest.mark.parametrize("strategy", ["StrictFirst", "Replace"])
async def test_a30_strict_first_prefers_the_right_zone_whatever_the_scores(
    cluster: EmbeddedCluster, strategy: str
) -> None:
    def score(state: Any, pod: Any, node: Any) -> int:
        return 100 if node.labels.get(ZONE) == "Z1" else 0

    likes = plugin("Likes", score=score)
    points = {"score": {"enabled": [{"name": "Likes", "weight": 100}]}}
    async with staged(cluster, plugins=[likes], points=points, fallbackStrategy=strategy) as stage:
        stage.create(zone_node("z1", "Z1"), zone_node("z2", "Z2"))
        stage.running("r1", "z1")
        made = spread("p", ZONE_NPF, schedulingGates=[{"name": "wait"}])
        stage.create(made)
        await stage.quiet()
        stage.provisioning("p", "False")
        stage.patch("p", {"spec": {"schedulingGates": None}})
        await until(lambda: bound_to(cluster, "p"))
        assert bound_to(cluster, "p") == ("z2" if strategy == "StrictFirst" else "z1")


async def test_a30_strict_first_still_falls_back_when_nothing_fits(
    cluster: EmbeddedCluster,
) -> None:
    async with staged(cluster, fallbackStrategy="StrictFirst") as stage:
        await stage.rejected_once(ZONE_NPF)
        stage.provisioning("p", "False")
        await stage.bound("p", "z1")


async def test_a31_default_constraints_carry_criteria_too(cluster: EmbeddedCluster) -> None:
    default = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "fallbackCriteria": [NPF],
    }
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "s"},
        "spec": {"selector": {"app": "a"}},
    }
    async with staged(cluster, defaultingType="List", defaultConstraints=[default]) as stage:
        stage.uneven()
        stage.create(service)
        made = pod("p", "1")
        made["metadata"]["labels"] = {"app": "a"}
        await stage.quiet()
        stage.create(made)
        await stage.attempted("p", 1)
        assert stage.condition("p")["reason"] == "AwaitingCriteria"
        stage.provisioning("p", "False")
        await stage.bound("p", "z1")
