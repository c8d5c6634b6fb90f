"""The scheduler's cache stays correct while watches are cut, idle, expired or malformed."""

from __future__ import annotations

from functools import partial

import pytest

from devtools.embedded_service import (
    BindLog,
    bind,
    bound_to,
    condition,
    delete,
    find,
    node,
    pod,
    sample,
    scheduling,
    settled,
    until,
)
from simulator import EmbeddedCluster, FaultRule
from simulator.objects import JsonObject


def watch_fault(action: str, resource: str = "", **more: object) -> FaultRule:
    return FaultRule(action=action, verb="watch", resource=resource, **more)  # type: ignore[arg-type]


def all_bound(cluster: EmbeddedCluster, names: list[str]) -> bool:
    return all(bound_to(cluster, name) for name in names)


async def test_watches_that_are_cut_resume_and_nothing_is_lost(cluster: EmbeddedCluster) -> None:
    binds = BindLog(cluster)
    cluster.create(node("n1", cpu="100"))
    async with scheduling(cluster) as scheduler:
        for number in range(30):
            if number % 10 == 5:
                cluster.faults.add(watch_fault("cut", "pods", times=1))
            cluster.create(pod(f"p{number}"))
        await until(lambda: len(binds.entries) == 30, "all bound")
        await until(lambda: not scheduler.state.cache.statistics().assumed_pods, "all confirmed")
        assert scheduler.state.cache.statistics().pods == 30
        assert scheduler.reflectors[1].statistics().lists == 1, "resumed, not listed again"


async def test_an_idle_watch_is_cut_and_resumed(cluster: EmbeddedCluster) -> None:
    cluster.create(node("n1"))
    async with scheduling(cluster, kubestow={"watchIdleTimeout": "300ms"}) as scheduler:
        rule = cluster.faults.add(watch_fault("silence", "pods"))
        cluster.create(pod("a"))
        await until(
            lambda: scheduler.reflectors[1].statistics().ends.get("idle_timeout"),
            "idle timeout noticed",
        )
        cluster.faults.remove(rule)
        await until(lambda: bound_to(cluster, "a"), "a bound")


async def test_after_a_410_all_pods_are_listed_again(cluster: EmbeddedCluster) -> None:
    """While no watch was open, everything changed: pods came, went, were bound and recreated."""
    binds = BindLog(cluster)
    cluster.create(node("n1", cpu="4"))
    cluster.create(pod("stays"))
    cluster.create(pod("goes"))
    cluster.create(pod("waits", cpu="50"))
    cluster.create(pod("recreated"))
    async with scheduling(cluster) as scheduler:
        await until(lambda: len(binds.entries) == 3, "three bound")
        await until(lambda: condition(cluster, "waits"), "one rejected")
        await settled(scheduler)
        hidden = cluster.faults.add(watch_fault("hide", "*"))
        delete(cluster, "goes")
        delete(cluster, "recreated")
        cluster.create(pod("recreated", cpu="5"))
        bind(cluster, "waits", "n2")
        delete(cluster, "n1", "Node")
        cluster.create(node("n2", cpu="60"))
        cluster.api.store.compact()
        cluster.faults.remove(hidden)
        cluster.faults.add(watch_fault("error", "*", code=410, times=len(scheduler.reflectors)))
        await until(lambda: bound_to(cluster, "recreated") == "n2", "the new pod bound")
        await until(lambda: scheduler.state.cache.statistics().pods == 3, "three pods known")
        await until(lambda: not scheduler.state.cache.statistics().assumed_pods, "all confirmed")
        await until(
            lambda: [each.statistics().lists for each in scheduler.reflectors[:2]] == [2, 2]
        )
        assert len(scheduler.scheduling.queue) == 0
        row = scheduler.state.cache.table.row_of("n2")
        assert row is not None
        assert sorted(
            each.metadata.name for each in scheduler.state.cache.table.node_info(row).pods
        ) == [
            "recreated",
            "waits",
        ]


async def test_nothing_is_scheduled_while_a_list_is_applied(cluster: EmbeddedCluster) -> None:
    """With half of the pods applied, nodes would look free that are not."""
    cluster.create(node("n1", cpu="1"))
    async with scheduling(cluster) as scheduler:
        paused: list[bool] = []
        scheduler.scheduling.loop.pause(True)
        cluster.create(pod("a"))
        await until(lambda: len(scheduler.scheduling.queue) == 1, "a queued")
        paused.append(bool(bound_to(cluster, "a")))
        scheduler.scheduling.loop.pause(False)
        await until(lambda: bound_to(cluster, "a"), "a bound")
        assert paused == [False]


async def test_every_event_twice_or_with_empty_updates_changes_nothing(
    cluster: EmbeddedCluster,
) -> None:
    binds = BindLog(cluster)
    cluster.faults.add(watch_fault("duplicate", "pods"))
    cluster.faults.add(watch_fault("no-op", "nodes"))
    async with scheduling(cluster) as scheduler:
        cluster.create(node("n1"))
        for name in ("a", "b", "c"):
            cluster.create(pod(name))
        await until(lambda: len(binds.entries) == 3, "all bound")
        await settled(scheduler)
        assert scheduler.state.cache.statistics().anomalies == {}


async def test_finished_and_deleted_pods_free_their_resources(cluster: EmbeddedCluster) -> None:
    cluster.create(node("n1", cpu="2"))
    async with scheduling(cluster) as scheduler:
        for round_ in range(3):
            names = [f"p{round_}-{number}" for number in range(2)]
            for name in names:
                cluster.create(pod(name))
            await until(partial(all_bound, cluster, names), "all bound")
            for name in names:
                delete(cluster, name)
        await until(lambda: scheduler.state.cache.statistics().pods == 0, "all removed")
        await settled(scheduler)
        row = scheduler.state.cache.table.row_of("n1")
        assert row is not None
        assert scheduler.state.cache.table.node_info(row).requested.milli_cpu == 0
        assert scheduler.state.signatures.statistics().references == 0


BAD_PODS: list[tuple[str, JsonObject]] = [
    ("quantity", {"resources": {"requests": {"cpu": "one and a half"}}}),
    ("quantity-type", {"resources": {"requests": {"cpu": ["1"]}}}),
    ("ports-type", {"ports": "80"}),
    ("requests-type", {"resources": {"requests": "none"}}),
]
BAD_NODES: list[tuple[str, JsonObject]] = [
    ("quantity", {"allocatable": {"cpu": "much", "pods": "110"}}),
    ("quantity-type", {"allocatable": {"cpu": {"is": "4"}}}),
    ("allocatable-type", {"allocatable": 7}),
    ("images-type", {"images": "none"}),
]


@pytest.mark.parametrize("listed", [True, False], ids=["listed", "watched"])
async def test_malformed_objects_are_skipped_and_counted(
    cluster: EmbeddedCluster, listed: bool
) -> None:
    """The store accepts them unchecked, as an API server with a broken webhook or etcd might."""

    def store_bad_objects() -> None:
        for name, container in BAD_PODS:
            bad = pod(f"bad-{name}")
            bad["spec"]["containers"] = [{"name": "c", "image": "i", **container}]
            bad["metadata"] |= {"namespace": "default", "uid": f"uid-bad-{name}"}
            cluster.store.create("pods", "default", f"bad-{name}", bad)
        for name, status in BAD_NODES:
            bad = node(f"bad-{name}")
            bad["metadata"]["uid"] = f"uid-bad-{name}"
            bad["status"] |= status
            cluster.store.create("nodes", "", f"bad-{name}", bad)

    if listed:
        store_bad_objects()
    cluster.create(node("good"))
    async with scheduling(cluster) as scheduler:
        if not listed:
            store_bad_objects()
        cluster.create(pod("fine"))
        await until(lambda: bound_to(cluster, "fine") == "good", "the good pod bound")
        await settled(scheduler)
        for resource, count in (("pods", len(BAD_PODS)), ("nodes", len(BAD_NODES))):
            skipped = sample(scheduler, "kubestow_malformed_objects_total", resource=resource)
            assert skipped == count
        assert sample(scheduler, "kubestow_handler_errors_total") == 0
        assert scheduler.state.cache.statistics().nodes == 1
        assert len(scheduler.scheduling.queue) == 0


async def test_an_object_counts_once_it_is_repaired(cluster: EmbeddedCluster) -> None:
    async with scheduling(cluster) as scheduler:
        bad = node("n1")
        bad["metadata"]["uid"] = "uid-n1"
        bad["status"]["allocatable"] = {"cpu": "much"}
        cluster.store.create("nodes", "", "n1", bad)
        cluster.create(pod("a"))
        await until(lambda: condition(cluster, "a"), "a rejected")
        assert condition(cluster, "a")["message"] == "no nodes available to schedule pods"
        good = node("n1")
        good["metadata"]["uid"] = "uid-n1"
        cluster.store.update("nodes", "", "n1", good)
        await until(lambda: bound_to(cluster, "a") == "n1", "a bound")
        assert find(cluster, "a") is not None
        await settled(scheduler)
