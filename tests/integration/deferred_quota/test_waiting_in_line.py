"""KEP-5465 acceptance, the queue's part: wake-ups of held pods, their causes and their writes."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from devtools.embedded_service import condition, node, pod, until
from simulator import EmbeddedCluster
from simulator.objects import JsonObject, priority_class
from simulator.store import StoreChange
from tests.integration.deferred_quota.stage import BACKOFF, CPU, GATES, HELD, Stage, staged

MANY = 500
"""Held pods here; unit tests of the ledger and queue have the thousands."""


@pytest.fixture
async def cluster() -> AsyncIterator[EmbeddedCluster]:
    async with EmbeddedCluster(controllers=(), seed=1) as running:
        for name, value in (("high", 1000), ("low", 1)):
            running.create(priority_class(name, value))
        yield running


async def crowd(stage: Stage, number: int = MANY, cpu: int = 1) -> list[str]:
    """Running pods use the whole limit; many wait, and their status says so."""
    await stage.quota(cpu=cpu * 1000)
    stage.cluster.create(pod("running", str(cpu)))
    await stage.bound("running")
    names = [f"p{index}" for index in range(number)]
    stage.released(*names)

    def told() -> bool:
        return all(condition(stage.cluster, name).get("reason") == HELD for name in names)

    await until(told, "all told")
    await stage.quiet()
    return names


class Writes:
    """Counts writes of pods from now on."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self.names: list[str] = []
        cluster.store.subscribe("pods", self._changed)

    def _changed(self, _table: str, change: StoreChange) -> None:
        self.names.append(change.version.obj["metadata"]["name"])


@pytest.mark.slow
async def test_b30_unrelated_events_touch_no_held_pod(cluster: EmbeddedCluster) -> None:
    async with staged(cluster) as stage:
        await crowd(stage)
        runs = stage.wiring.scheduling.queue.statistics().pre_enqueue_runs
        for number in range(5):
            cluster.create(node(f"more-{number}"))
        cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})
        stranger = pod("stranger")
        stranger["metadata"]["namespace"] = "other"
        cluster.create(stranger)
        stage.update("running", {"metadata": {"labels": {"a": "b"}}})

        def seen() -> bool:
            running = stage.seen("running")
            return "a" in running.metadata.labels and stage.wiring.state.cache.table.node_count == 6

        await until(seen)
        await until(
            lambda: any(
                each.metadata.name == "stranger" and each.spec.node_name
                for each in stage.wiring.state.listers["pods"].list("other")
            )
        )
        await stage.quiet()
        # The stranger's own, and nobody else's.
        assert stage.wiring.scheduling.queue.statistics().pre_enqueue_runs == runs + 1


@pytest.mark.slow
async def test_b31_one_freed_unit_binds_one_pod_and_writes_next_to_nothing(
    cluster: EmbeddedCluster,
) -> None:
    async with staged(cluster) as stage:
        names = await crowd(stage)
        runs = stage.wiring.scheduling.queue.statistics().pre_enqueue_runs
        stage.finish("running")
        writes = Writes(cluster)
        await stage.bound(names[0])
        await stage.quiet()
        assert sum(map(stage.is_bound, names)) == 1
        assert set(writes.names) == {names[0]}
        assert len(writes.names) <= 10
        assert stage.wiring.scheduling.queue.statistics().pre_enqueue_runs - runs <= 2


@pytest.mark.parametrize("what", ["deleted", "raised", "key removed"])
async def test_b32_a_changed_quota_wakes_those_it_held(cluster: EmbeddedCluster, what: str) -> None:
    async with staged(cluster) as stage:
        await stage.quota("a", cpu=0, scopes=["Terminating"])
        await stage.quota("b", cpu=0, scopes=["NotTerminating"])
        stage.released("by-a", activeDeadlineSeconds=600)
        stage.released("by-b")
        await stage.reason("by-a")
        await stage.reason("by-b")
        await stage.quiet()
        runs = stage.wiring.scheduling.queue.statistics().pre_enqueue_runs
        if what == "deleted":
            stage.delete("a", "ResourceQuota")
        elif what == "raised":
            await stage.patch_quota("a", {CPU: 5000})
        else:
            await stage.patch_quota("a", {"requests.memory": 2**40, CPU: None})
        await stage.bound("by-a")
        await stage.quiet()
        assert stage.is_held("by-b")
        assert stage.wiring.scheduling.queue.statistics().pre_enqueue_runs == runs + 1


async def test_b34_unrelated_namespaces_do_not_share_a_limit(cluster: EmbeddedCluster) -> None:
    cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})
    async with staged(cluster) as stage:
        await stage.quota(cpu=0)
        stranger = pod("g")
        stranger["metadata"]["namespace"] = "other"
        cluster.create(stranger)
        stage.released("g")
        await stage.held("g")
        await until(
            lambda: any(
                each.spec.node_name for each in stage.wiring.state.listers["pods"].list("other")
            )
        )


async def test_b35_the_higher_priority_is_released_first(cluster: EmbeddedCluster) -> None:
    async with staged(cluster) as stage:
        await stage.quota(cpu=1000)
        cluster.create(pod("running"))
        await stage.bound("running")
        stage.released("low", priorityClassName="low")
        await stage.held("low")
        stage.released("high", priorityClassName="high")
        await stage.held("high")
        stage.finish("running")
        await stage.bound("high")
        await stage.quiet()
        assert not stage.is_bound("low")


async def test_b37_new_numbers_alone_are_written_once_a_minute(cluster: EmbeddedCluster) -> None:
    async with staged(cluster) as stage:
        await stage.quota(cpu=10_000)
        cluster.create(pod("running", "9"))
        await stage.bound("running")
        stage.released("g", cpu="5")
        await stage.reason("g")
        await stage.quiet()
        writes = Writes(cluster)
        uid = stage.uid("g")
        for number in range(5):
            await stage.patch_quota("q", {CPU: 10_001 + number})
            stage.wiring.scheduling.queue.recheck([uid])
        await stage.quiet()
        assert writes.names == []
        stage.advance(61)
        await until(lambda: "g" in writes.names)
        await stage.quiet()
        assert writes.names == ["g"]
        assert "limited: requests.cpu=10005m" in condition(cluster, "g")["message"]


async def test_b38_a_hold_that_is_shorter_than_the_delay_is_not_written(
    cluster: EmbeddedCluster,
) -> None:
    async with staged(cluster, document={"kubestow": {"statusPatchDelay": "60s"}}) as stage:
        await stage.quota(cpu=1000)
        cluster.create(pod("running"))
        await stage.bound("running")
        reasons: list[str] = []

        def look(_table: str, change: StoreChange) -> None:
            if change.version.obj["metadata"]["name"] == "g":
                conditions = change.version.obj.get("status", {}).get("conditions", ())
                reasons.extend(str(each.get("reason")) for each in conditions)

        stage.released("g")
        await stage.held("g")
        cluster.store.subscribe("pods", look)
        stage.finish("running")
        await stage.bound("g")
        stage.advance(120)
        await stage.quiet()
        assert HELD not in reasons


@pytest.mark.slow
async def test_pods_of_other_schedulers_are_seen(cluster: EmbeddedCluster) -> None:
    async with staged(cluster) as stage:
        await stage.quota(cpu=1000)
        cluster.create(pod("foreign", schedulerName="other"))
        await until(lambda: stage.used() == {CPU: "1000"})
        stage.released("g")
        await stage.held("g")
        stage.delete("foreign")
        await stage.bound("g")


async def test_a_pod_that_passes_quota_and_fits_no_node_is_still_measured_later(
    cluster: EmbeddedCluster,
) -> None:
    # The hole that rule Q5 has when it goes by the reason alone.
    async with staged(cluster, [node("n1", "1")]) as stage:
        await stage.quota(cpu=5000)
        stage.released("g", cpu="5")
        await stage.reason("g", "Unschedulable")
        assert stage.ledger.deferred(stage.seen("g"))
        assert stage.used() == {CPU: "0"}
        await until(lambda: stage.marks("g") == ["True"])
        cluster.create(pod("running", "1"))
        await stage.bound("running")
        cluster.create(node("n2", "10"))
        stage.advance(BACKOFF)
        said = await stage.reason("g")
        assert "used: requests.cpu=1" in said["message"]


async def test_b36_hold_after_lets_the_big_pod_run(cluster: EmbeddedCluster) -> None:
    async with staged(cluster, args={"holdAfter": "1m"}) as stage:
        await stage.quota(cpu=2000)
        for name in ("a", "b"):
            cluster.create(pod(name))
        await stage.bound("a", "b")
        stage.released("big", cpu="2")
        await stage.held("big")
        stage.advance(61)
        account = stage.ledger.account("default", "q")
        await until(
            lambda: account is not None and account.starvation_reservation is not None,
            "holder chosen",
        )
        stage.finish("a")
        await until(lambda: stage.used() == {CPU: "1000"})
        stage.released("small")
        said = await stage.reason("small")
        assert said["message"].endswith("reserved for older pod default/big")
        stage.finish("b")
        await stage.bound("big")


async def test_claims_keep_autoscalers_from_buying_twice(cluster: EmbeddedCluster) -> None:
    async with staged(cluster, [node("n1", "1")], args={"claimPending": True}) as stage:
        await stage.quota(cpu=5000)
        stage.released("first", cpu="4")
        await stage.reason("first", "Unschedulable")
        await until(lambda: stage.marks("first") == ["True"])
        stage.released("second", cpu="4")
        said = await stage.reason("second")
        assert said["message"].startswith("quota exceeded: q, requested: requests.cpu=4")
        cluster.create(node("n2", "4"))
        stage.advance()
        await until(lambda: stage.is_bound("first") or stage.is_bound("second"))


async def test_b43_time_held_by_quota_does_not_run_the_clock_of_topology_spread(
    cluster: EmbeddedCluster,
) -> None:
    gate = "PodTopologySpreadFallbackMode=true"
    async with staged(
        cluster,
        [node("n1", "100", labels={"zone": "z1"}), node("n2", "0", labels={"zone": "z2"})],
        gates=gate,
        spread={"nodeProvisioningTimeout": "5m"},
    ) as stage:
        await stage.quota(cpu=2000)
        cluster.create(pod("running"))
        await stage.bound("running")
        labelled = {"labels": {"app": "a"}}
        for name in ("x", "y"):
            stage.cluster.create(spread_pod(name, labelled))
        stage.ungate("x")
        await stage.bound("x")
        stage.ungate("y")
        await stage.held("y")
        stage.advance(600)
        stage.finish("running")
        # Held for ten minutes, and yet its first attempt is a strict one.
        said = await stage.reason("y", "Unschedulable")
        assert "topology spread" in said["message"]
        await stage.quiet()
        assert not stage.is_bound("y")
        stage.advance(301)
        await stage.bound("y")


def spread_pod(name: str, metadata: JsonObject) -> JsonObject:
    """A gated pod whose strict zone constraint gives way when no node comes in time."""
    constraint = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "a"}},
    }
    made = pod(name, gates=GATES, topologySpreadConstraints=[constraint])
    annotation = "kubestow.io/topology-spread-fallback"
    made["metadata"].update(metadata)
    made["metadata"]["annotations"] = {annotation: "zone=NodeProvisioningFailed"}
    return made
