"""Cases between the listed scenarios of KEP-5465: other quotas, other objects, a flood."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from benchmarks.bound_sum import BoundSum
from devtools.embedded_service import bound_to, condition, node, pod, sample, until
from plugins.resource_quota.keys import PREFIX
from simulator import EmbeddedCluster
from simulator.objects import JsonObject
from tests.integration.deferred_quota.stage import CPU, GATES, HELD, staged
from tests.integration.deferred_quota.test_usage_writer import shown, shows

MEMORY = "requests.memory"


@pytest.fixture
async def cluster() -> AsyncIterator[EmbeddedCluster]:
    async with EmbeddedCluster(controllers=("quota",), seed=1) as running:
        yield running


async def test_b16_several_quotas_must_all_have_room_and_all_are_named(
    cluster: EmbeddedCluster,
) -> None:
    async with staged(cluster) as stage:
        await stage.quota("b-small", cpu=1000)
        await stage.quota("a-smaller", cpu=500)
        await stage.quota("wide", cpu=9000)
        stage.released("p", cpu="2")
        found = await stage.reason("p", HELD)
        assert found["message"].split("; ") == [
            (
                "quota exceeded: a-smaller, requested: requests.cpu=2, used: requests.cpu=0, "
                "limited: requests.cpu=500m (exceeds the quota even when empty)"
            ),
            (
                "quota exceeded: b-small, requested: requests.cpu=2, used: requests.cpu=0, "
                "limited: requests.cpu=1 (exceeds the quota even when empty)"
            ),
        ]
        await stage.patch_quota("b-small", {CPU: 3000})
        await stage.held("p")
        stage.delete("a-smaller", "ResourceQuota")
        await stage.bound("p")
        await shows(stage, {CPU: "2000"}, "b-small")
        await shows(stage, {CPU: "2000"}, "wide")


async def test_b16_two_quotas_that_contradict_take_nothing_from_each_other(
    cluster: EmbeddedCluster,
) -> None:
    async with staged(cluster) as stage:
        await stage.quota("generous", cpu=9000)
        await stage.quota("strict", cpu=0)
        stage.released("p")
        await stage.reason("p", HELD)
        assert stage.used("generous") == {CPU: "0"}
        cluster.create(pod("asks-nothing", "0"))
        await stage.bound("asks-nothing")


async def test_b19_used_is_above_hard_after_a_limit_was_lowered(cluster: EmbeddedCluster) -> None:
    async with staged(cluster) as stage:
        await stage.quota(hard={CPU: 4000, MEMORY: "8Gi"})
        stage.released("a", "b", "c")
        await stage.bound("a", "b", "c")
        await stage.patch_quota("q", {CPU: 1000})
        stage.released("d")
        found = await stage.reason("d", HELD)
        assert "used: requests.cpu=3, limited: requests.cpu=1" in found["message"]
        for name in ("a", "b"):
            stage.finish(name)
        await stage.quiet()
        assert not stage.is_bound("d")
        stage.finish("c")
        await stage.bound("d")


async def test_b46_a_resize_of_a_running_pod_is_counted_on_sight(cluster: EmbeddedCluster) -> None:
    async with staged(cluster) as stage:
        await stage.quota(cpu=3000)
        stage.released("a")
        await stage.bound("a")
        await shows(stage, {CPU: "1000"})
        stage.update_size("a", [{"name": "c", "resources": {"requests": {"cpu": "3"}}}])
        await shows(stage, {CPU: "3000"})
        stage.released("b")
        await stage.held("b")


async def test_b50_object_counts_stay_the_api_servers(cluster: EmbeddedCluster) -> None:
    async with staged(cluster) as stage:
        await stage.quota(cpu=9000)
        strict: JsonObject = {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "strict"},
            "spec": {"hard": {"pods": "9", "persistentvolumeclaims": "2", "configmaps": "5"}},
        }
        cluster.create(strict)
        stage.released("a")
        await stage.bound("a")
        await until(lambda: shown(stage, "strict").get("pods") == "1")
        assert stage.ledger.account("default", "strict") is None
        used = cluster.get("v1", "ResourceQuota", "strict")["status"]["used"]
        assert not [key for key in used if key.startswith(PREFIX)]


async def test_b59_a_scope_that_comes_later_is_another_quota(cluster: EmbeddedCluster) -> None:
    """Scopes cannot change, so the quota is deleted and made again: both reach us as one wish."""
    async with staged(cluster) as stage:
        await stage.quota(cpu=1000)
        stage.released("job", activeDeadlineSeconds=600)
        await stage.bound("job")
        stage.released("service")
        await stage.held("service")
        stage.delete("q", "ResourceQuota")
        await stage.quota(cpu=1000, scopes=["Terminating"])
        await stage.bound("service")
        assert stage.used() == {CPU: "1000"}
        stage.released("second-job", activeDeadlineSeconds=600)
        await stage.held("second-job")


async def test_b21_a_held_pod_that_is_deleted_leaves_nothing(cluster: EmbeddedCluster) -> None:
    async with staged(cluster) as stage:
        await stage.quota(cpu=1000)
        stage.released("a", cpu="2")
        await stage.reason("a", HELD)
        stage.delete("a")
        await until(lambda: stage.ledger.statistics().pods == 0)
        await stage.quiet()
        held = "scheduler_resource_quota_held_pods"
        assert sample(stage.wiring, held, namespace="default") == 0


async def test_a_pod_of_the_same_name_is_another_pod(cluster: EmbeddedCluster) -> None:
    async with staged(cluster) as stage:
        await stage.quota(cpu=1000)
        stage.released("a")
        await stage.bound("a")
        stage.delete("a")
        cluster.create(pod("a", "1"))
        await stage.bound("a")
        await stage.quiet()
        assert stage.used() == {CPU: "1000"}
        assert not stage.ledger.deferred(stage.seen("a"))


async def test_o10_a_fake_mark_on_a_pod_without_gates_is_measured_all_the_same(
    cluster: EmbeddedCluster,
) -> None:
    async with staged(cluster) as stage:
        await stage.quota(cpu=1000)
        made = pod("fake", "2")
        made["metadata"]["annotations"] = {"kubestow.io/quota-deferred": "true"}
        cluster.create(made)
        await stage.reason("fake", HELD)
        assert stage.used() == {CPU: "0"}


@pytest.mark.slow
async def test_b55_a_flood_of_gated_pods_costs_others_nothing(cluster: EmbeddedCluster) -> None:
    total = BoundSum(cluster)
    flood = 2000
    async with staged(cluster, [node("n1", "100", pods=5000)]) as stage:
        await stage.quota(cpu=4000)
        for number in range(flood):
            cluster.create(pod(f"f{number}", "5", gates=GATES))
        stage.ungate(*(f"f{number}" for number in range(0, flood, 2)))
        await until(lambda: stage.ledger.statistics().held == flood // 2, "half held")
        # Gated pods are known and stand nowhere; held ones stand in one line.
        await until(lambda: stage.ledger.statistics().reserved == 0, "seen bound")
        writes = stage.wiring.connections.dispatcher.statistics().status
        stage.released("fits", cpu="3")
        cluster.create(pod("other", "1"))
        await until(lambda: bound_to(cluster, "fits"))
        await stage.quiet()
        assert total.most <= 4000
        attempts = "scheduler_schedule_attempts_total"
        assert sample(stage.wiring, attempts, result="unschedulable") == 0
        assert condition(cluster, "f1")["reason"] == "SchedulingGated"
        after = stage.wiring.connections.dispatcher.statistics().status
        assert after.sent - writes.sent <= flood // 2 + 10, "one condition each, no more"
