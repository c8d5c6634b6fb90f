"""KEP-5465 acceptance, the scheduler's part: held pods, their conditions, and their release."""

from __future__ import annotations

from typing import Any

import pytest

from devtools.embedded_service import (
    event_notes,
    find,
    node,
    plugin,
    pod,
    sample,
    until,
)
from scheduler.framework import Status
from simulator import EmbeddedCluster
from simulator.objects import priority_class
from tests.integration.deferred_quota.stage import CPU, HELD, Stage, staged

FULL = "quota exceeded: q, requested: requests.cpu=5, used: requests.cpu=5, limited: requests.cpu=5"
VIOLATIONS = "scheduler_resource_quota_violations_total"


async def filled(stage: Stage, cpu: int = 5000) -> None:
    """A quota and one running pod that uses it all."""
    await stage.quota(cpu=cpu)
    stage.cluster.create(pod("running", str(cpu // 1000)))
    await stage.bound("running")


async def test_b06_the_last_gate_goes_and_quota_is_free(cluster: EmbeddedCluster) -> None:
    async with staged(cluster) as stage:
        await stage.quota(cpu=5000)
        stage.gated("g", "5")
        await until(lambda: stage.ledger.statistics().pods == 1)
        assert stage.used() == {CPU: "0"}
        stage.ungate("g")
        await stage.bound("g")
        await stage.quiet()
        assert stage.used() == {CPU: "5000"}


async def test_b07_the_last_gate_goes_and_quota_is_full(cluster: EmbeddedCluster) -> None:
    async with staged(cluster) as stage:
        await filled(stage)
        stage.released("g", cpu="5")
        shown = await stage.reason("g")
        assert (shown["status"], shown["reason"], shown["message"]) == ("False", HELD, FULL)
        await until(lambda: stage.notes() == [FULL])
        assert (
            sample(
                stage.wiring,
                VIOLATIONS,
                namespace="default",
                resource_quota="q",
                extension_point="PreEnqueue",
            )
            == 1
        )
        assert sample(stage.wiring, "scheduler_pending_pods", queue="gated") == 1
        assert sample(stage.wiring, "scheduler_unschedulable_pods", plugin="ResourceQuota") == 1
        marks = [
            (each["type"], each["status"])
            for each in (find(cluster, "g") or {})["status"]["conditions"]
        ]
        assert ("kubestow.io/QuotaDeferred", "True") in marks


async def test_b08_b10_a_running_pod_finishes_and_the_held_one_is_bound(
    cluster: EmbeddedCluster,
) -> None:
    async with staged(cluster) as stage:
        await filled(stage)
        stage.released("g", cpu="5")
        await stage.held("g")
        assert stage.used() == {CPU: "5000"}
        stage.finish("running")
        await stage.bound("g")
        await stage.quiet()
        assert stage.used() == {CPU: "5000"}
        assert sample(stage.wiring, "scheduler_resource_quota_held_pods", namespace="default") == 0
        assert sample(stage.wiring, "scheduler_resource_quota_held_duration_seconds_count") == 1


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_b20_a_finished_pod_uses_nothing(cluster: EmbeddedCluster, phase: str) -> None:
    async with staged(cluster) as stage:
        await filled(stage)
        stage.finish("running", phase)
        await until(lambda: stage.used() == {CPU: "0"})


@pytest.mark.parametrize(
    ("key", "resource"),
    [
        ("requests.cpu-millis", "cpu"),
        ("limits.cpu-millis", "cpu"),
        ("requests.memory", "memory"),
        ("requests.ephemeral-storage", "ephemeral-storage"),
        ("requests.hugepages-2Mi", "hugepages-2Mi"),
        ("requests.nvidia.com_gpu", "nvidia.com/gpu"),
    ],
)
async def test_b12_each_compute_name_holds(
    cluster: EmbeddedCluster, key: str, resource: str
) -> None:
    async with staged(cluster) as stage:
        await stage.quota(hard={key: 0})
        amount = {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"}.get(resource, "2Mi")
        amounts = {"cpu": "1m", "memory": "1Mi", resource: amount}
        container = {
            "name": "c",
            "image": "i",
            "resources": {"requests": amounts, "limits": amounts},
        }
        stage.released("g", containers=[container])
        await stage.held("g")
        await stage.patch_quota("q", {key: 10**12})
        if resource in ("cpu", "memory"):
            await stage.bound("g")
        else:
            # No node offers it: what matters is that the quota does not hold it any more.
            await stage.reason("g", "Unschedulable")


@pytest.mark.parametrize(
    ("spec", "covered", "free"),
    [
        ({"scopes": ["Terminating"]}, {"activeDeadlineSeconds": 600}, {}),
        ({"scopes": ["NotTerminating"]}, {}, {"activeDeadlineSeconds": 600}),
        (
            {
                "scopeSelector": {
                    "matchExpressions": [
                        {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}
                    ]
                }
            },
            {"priorityClassName": "high"},
            {},
        ),
        (
            {
                "scopeSelector": {
                    "matchExpressions": [{"scopeName": "PriorityClass", "operator": "DoesNotExist"}]
                }
            },
            {},
            {"priorityClassName": "high"},
        ),
    ],
)
async def test_b14_only_pods_in_scope_are_held(
    cluster: EmbeddedCluster, spec: Any, covered: Any, free: Any
) -> None:
    cluster.create(priority_class("high", 1000))
    async with staged(cluster) as stage:
        await stage.quota(cpu=0, **spec)
        stage.released("covered", **covered)
        stage.released("free", **free)
        await stage.held("covered")
        await stage.bound("free")


async def test_b15_a_deadline_moves_a_running_pod_to_another_quota(
    cluster: EmbeddedCluster,
) -> None:
    async with staged(cluster) as stage:
        await stage.quota("long", cpu=1000, scopes=["NotTerminating"])
        await stage.quota("short", cpu=1000, scopes=["Terminating"])
        cluster.create(pod("running"))
        await stage.bound("running")
        stage.released("g")
        await stage.held("g")
        assert (stage.used("long"), stage.used("short")) == ({CPU: "1000"}, {CPU: "0"})
        stage.update("running", {"spec": {"activeDeadlineSeconds": 600}})
        await stage.bound("g")
        assert stage.used("short") == {CPU: "1000"}


async def test_b17_a_pod_larger_than_the_limit_says_so_and_a_raised_limit_wakes_it(
    cluster: EmbeddedCluster,
) -> None:
    async with staged(cluster) as stage:
        await stage.quota(cpu=2000)
        stage.released("g", cpu="5")
        shown = await stage.reason("g")
        assert shown["message"].endswith(
            "limited: requests.cpu=2 (exceeds the quota even when empty)"
        )
        await stage.patch_quota("q", {CPU: 5000})
        await stage.bound("g")


async def test_b18_what_a_pod_does_not_ask_for_does_not_hold_it(cluster: EmbeddedCluster) -> None:
    async with staged(cluster) as stage:
        await filled(stage)
        await stage.patch_quota("q", {CPU: 1000})
        container = {"name": "c", "image": "i", "resources": {"requests": {"memory": "1Mi"}}}
        stage.released("g", containers=[container])
        await stage.bound("g")


async def test_b22_a_gated_pod_is_measured_by_the_size_it_has_when_it_is_let_go(
    cluster: EmbeddedCluster,
) -> None:
    async with staged(cluster) as stage:
        await stage.quota(cpu=2000)
        stage.gated("g", "5")
        smaller = [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]
        stage.update_size("g", smaller)
        stage.ungate("g")
        await stage.bound("g")
        stage.gated("h", "1")
        stage.ungate("h")
        shown = await stage.reason("h")
        assert "used: requests.cpu=2" in shown["message"]


async def test_b54_a_held_pod_is_explained(cluster: EmbeddedCluster) -> None:
    async with staged(cluster) as stage:
        await filled(stage)
        stage.released("g", cpu="5")
        shown = await stage.reason("g")
        view = stage.wiring.scheduling.queue.view("default", "g")
        assert view is not None
        await until(lambda: stage.notes() == [FULL])
        assert shown["message"] == view.message == FULL
        assert view.gating_plugin == "ResourceQuota"


async def test_b60_a_prefilter_rejection_says_what_the_kep_says(cluster: EmbeddedCluster) -> None:
    taken: list[str] = []
    stage: Stage

    def take(pod: Any) -> Status | None:
        # Between the two checks of `g` another pod takes the quota.
        if pod.metadata.name == "g" and not taken:
            taken.append("g")
            account = stage.ledger.account("default", "p1")
            assert account is not None
            other = [each for each in stage.wiring.state.listers["pods"].list("default")
                     if each.metadata.name == "other"]  # fmt: skip
            assert not stage.ledger.reserve(other[0])
        return None

    late = plugin("Late", pre_enqueue=take)
    async with staged(cluster, plugins=[late]) as stage:
        await stage.quota("p1", cpu=2000)
        stage.gated("other", "2")
        await until(lambda: stage.ledger.statistics().pods == 1)
        stage.released("g", cpu="1")
        shown = await stage.reason("g")
        text = (
            "0/1 nodes are available: quota exceeded: p1, requested: requests.cpu=1, "
            "used: requests.cpu=2, limited: requests.cpu=2. preemption: 0/1 nodes are available: "
            "1 Preemption is not helpful for scheduling."
        )
        assert shown["message"] == text
        await until(lambda: event_notes(cluster, "FailedScheduling") == [text])
        stage.ledger.unreserve((find(cluster, "other") or {})["metadata"]["uid"])
        stage.advance()
        await stage.bound("g")


async def test_b33_quota_that_appears_while_a_pod_queues_turns_it_down(
    cluster: EmbeddedCluster,
) -> None:
    # No room on the node at first: the pod has passed PreEnqueue when the quota comes.
    async with staged(cluster, [node("n1", "1")]) as stage:
        stage.released("g", cpu="5")
        await stage.reason("g", "Unschedulable")
        await stage.quota(cpu=1000)
        await until(lambda: stage.ledger.account("default", "q") is not None)
        cluster.create(node("n2", "10"))
        stage.advance()
        shown = await stage.reason("g")
        assert "quota exceeded: q" in shown["message"]
        assert find(cluster, "g") is not None
        stage.delete("q", "ResourceQuota")
        stage.advance()
        await stage.bound("g")
