"""Evictions end to end: pods in a binding cycle, writes that fail, names that are reused."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, ClassVar

import msgspec
import pytest

from devtools.embedded_service import (
    bound_to,
    condition,
    delete,
    event_notes,
    find,
    node,
    plugin,
    pod,
    sample,
    scheduling,
    settled,
    until,
)
from scheduler.api import Pod
from scheduler.api.meta import Condition
from scheduler.api.pod_groups import POD_GROUP_LABEL
from scheduler.client.errors import ApiError
from scheduler.framework import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    NodeInfo,
    Status,
    unschedulable,
)
from scheduler.service.background import BackgroundTasks
from simulator import EmbeddedCluster, FaultRule
from simulator.demos.gang.objects import POD_GROUPS
from simulator.objects import priority_class
from tests.integration.service.test_binding_cycle import Gatekeeper

QUICK: dict[str, Any] = {"podInitialBackoffSeconds": 1, "podMaxBackoffSeconds": 1}


def victim(name: str, cpu: str = "1", **spec: Any) -> dict[str, Any]:
    """A pod that ends at once when it is deleted."""
    return pod(name, cpu, terminationGracePeriodSeconds=0, **spec)


def preemptor(cpu: str = "1") -> dict[str, Any]:
    return pod("p", cpu, priorityClassName="high")


@pytest.fixture
def cluster(cluster: EmbeddedCluster) -> EmbeddedCluster:
    cluster.create(priority_class("high", 1000))
    return cluster


async def test_victims_are_evicted_and_the_preemptor_takes_their_place(
    cluster: EmbeddedCluster,
) -> None:
    cluster.create(node("n1", cpu="2"))
    async with scheduling(cluster) as scheduler:
        for name in ("a", "b"):
            cluster.create(victim(name))
        await until(lambda: bound_to(cluster, "a") and bound_to(cluster, "b"), "victims bound")
        cluster.create(preemptor("2"))
        await until(lambda: bound_to(cluster, "p") == "n1", "preemptor bound")
        await until(lambda: len(event_notes(cluster, "Preempted")) == 2, "events")
        await settled(scheduler)
        assert find(cluster, "a") is None
        assert find(cluster, "b") is None
        assert sample(scheduler, "scheduler_preemption_attempts_total") == 1
        assert sample(scheduler, "scheduler_preemption_victims_sum") == 2
        assert len(scheduler.state.background) == 0


class Alone:
    """Rejects nodes with pods; only a new node brings pods back."""

    name: ClassVar[str] = "Alone"

    def __init__(self, args: object, handle: object) -> None: ...

    def filter(self, state: object, pod: Pod, node_info: NodeInfo) -> Status | None:
        return unschedulable("not alone") if list(node_info.pods) else None

    def events_to_register(self) -> list[ClusterEventWithHint]:
        return [ClusterEventWithHint(ClusterEvent(EventResource.NODE, ActionType.ADD))]


async def test_an_event_during_an_eviction_is_not_forgotten(cluster: EmbeddedCluster) -> None:
    """The gate swallows the event, and no later one opens it (kubernetes#139162)."""
    cluster.create(node("n1"))
    async with scheduling(cluster, [Alone], **QUICK) as scheduler:
        cluster.create(pod("v", terminationGracePeriodSeconds=3600))
        await until(lambda: bound_to(cluster, "v"), "victim bound")
        cluster.faults.add(
            FaultRule(action="delay", verb="delete", resource="pods", name="v", seconds=0.5)
        )
        cluster.create(preemptor())
        await until(lambda: condition(cluster, "p"), "the preemptor is rejected")
        cluster.create(node("n2"))

        def gating_plugin() -> str:
            view = scheduler.scheduling.queue.view("default", "p")
            return "" if view is None else view.gating_plugin

        await until(lambda: gating_plugin() == "DefaultPreemption", "the preemptor is gated")
        await until(lambda: bound_to(cluster, "p") == "n2", "preemptor bound")
        await settled(scheduler)
        assert find(cluster, "v") is not None
        assert sample(scheduler, "scheduler_pod_scheduled_after_flush_total") == 0


async def test_a_victim_that_waits_at_permit_goes_back_to_the_queue(
    cluster: EmbeddedCluster,
) -> None:
    cluster.create(node("n1", cpu="1"))
    async with scheduling(cluster, [Gatekeeper], **QUICK) as scheduler:
        cluster.create(victim("wait"))
        await until(lambda: "wait" in Gatekeeper.waiting(), "the victim waits")
        cluster.create(preemptor())
        await until(lambda: bound_to(cluster, "p") == "n1", "preemptor bound")
        await until(lambda: condition(cluster, "wait"), "the victim's condition")
        await until(lambda: event_notes(cluster, "Preempted"), "an event")
        await settled(scheduler)
        waiting = find(cluster, "wait")
        assert waiting is not None
        assert "deletionTimestamp" not in waiting["metadata"]
        types = [each["type"] for each in waiting["status"].get("conditions", ())]
        assert "DisruptionTarget" not in types
        assert not bound_to(cluster, "wait")


async def test_a_victim_in_pre_bind_is_stopped(cluster: EmbeddedCluster) -> None:
    held, cancelled = asyncio.Event(), asyncio.Event()

    async def pre_bind(_state: Any, incoming: Any, _node: str) -> None:
        if incoming.metadata.name != "victim":
            return
        held.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    cluster.create(node("n1", cpu="1"))
    async with scheduling(cluster, [plugin("Slow", pre_bind=pre_bind)], **QUICK) as scheduler:
        cluster.create(victim("victim"))
        await held.wait()
        cluster.create(preemptor())
        await until(lambda: bound_to(cluster, "p") == "n1", "preemptor bound")
        assert cancelled.is_set()
        note = "preempted by DefaultPreemption"
        await until(
            lambda: any(note in each for each in event_notes(cluster, "FailedScheduling")), note
        )
        await settled(scheduler)
        assert not bound_to(cluster, "victim")
        stopped = find(cluster, "victim")
        assert stopped is not None
        assert "deletionTimestamp" not in stopped["metadata"]


async def test_evictions_that_fail_are_retried(cluster: EmbeddedCluster) -> None:
    cluster.create(node("n1", cpu="1"))
    cluster.faults.add(
        FaultRule(action="error", verb="delete", resource="pods", code=500, name="a", times=1)
    )
    async with scheduling(cluster, **QUICK) as scheduler:
        cluster.create(victim("a"))
        await until(lambda: bound_to(cluster, "a"), "victim bound")
        cluster.create(preemptor())
        await until(lambda: bound_to(cluster, "p") == "n1", "preemptor bound")
        await settled(scheduler)
        assert sample(scheduler, "scheduler_preemption_attempts_total") >= 2
        await until(lambda: event_notes(cluster, "Preempted"), "the event")
        assert len(event_notes(cluster, "Preempted")) == 1


def status(cluster: EmbeddedCluster, name: str) -> dict[str, Any]:
    found = find(cluster, name)
    assert found is not None
    return dict(found["status"])


def nominated(cluster: EmbeddedCluster, name: str) -> str:
    return str(status(cluster, name).get("nominatedNodeName", ""))


def disruption(cluster: EmbeddedCluster, name: str) -> str:
    """Return the status of a pod's condition DisruptionTarget, empty if it has none."""
    conditions = status(cluster, name).get("conditions", ())
    return next((each["status"] for each in conditions if each["type"] == "DisruptionTarget"), "")


async def test_victims_stay_if_the_preemptor_is_deleted_before_their_deletion(
    cluster: EmbeddedCluster,
) -> None:
    cluster.create(node("n1", cpu="2"))
    async with scheduling(cluster, **QUICK) as scheduler:
        for name in ("a", "b"):
            cluster.create(victim(name))
        await until(lambda: bound_to(cluster, "a") and bound_to(cluster, "b"), "victims bound")
        rule = FaultRule(action="delay", verb="patch", resource="pods/status", name="a", seconds=9)
        cluster.faults.add(rule)
        cluster.create(preemptor("2"))
        await until(lambda: nominated(cluster, "p"), "nominated")
        delete(cluster, "p")
        await until(lambda: disruption(cluster, "a") == "False", "the condition is taken back")
        await settled(scheduler)
        assert (bound_to(cluster, "a"), bound_to(cluster, "b")) == ("n1", "n1")
        assert (disruption(cluster, "b"), event_notes(cluster, "Preempted")) == ("", [])


async def test_victims_stay_if_their_gang_finds_room_elsewhere(cluster: EmbeddedCluster) -> None:
    cluster.resources.add(POD_GROUPS)
    for name in ("n1", "n2"):
        cluster.create(node(name, cpu="1"))
    gangs = {"multiPoint": {"enabled": [{"name": "GangScheduling"}]}}
    async with scheduling(cluster, points=gangs, **QUICK) as scheduler:
        low, members = ("low-1", "low-2"), ("m-1", "m-2")
        for name in low:
            cluster.create(victim(name))
        await until(lambda: all(bound_to(cluster, each) for each in low), "victims bound")
        rule = FaultRule(
            action="delay", verb="patch", resource="pods/status", name="low-*", seconds=20
        )
        cluster.faults.add(rule)
        kind = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup"}
        cluster.create({**kind, "metadata": {"name": "g"}, "spec": {"minMember": 2}})
        for name in members:
            made = pod(name, priorityClassName="high")
            made["metadata"]["labels"] = {POD_GROUP_LABEL: "g"}
            cluster.create(made)
        await until(lambda: nominated(cluster, "m-1"), "nominated")
        for name in ("n3", "n4"):
            cluster.create(node(name, cpu="1"))
        await until(lambda: all(bound_to(cluster, each) for each in members), "members bound")
        await until(lambda: all(disruption(cluster, each) == "False" for each in low), "stay")
        await settled(scheduler)
        assert {bound_to(cluster, each) for each in low} == {"n1", "n2"}
        assert event_notes(cluster, "Preempted") == []


async def test_a_pod_that_took_over_the_name_is_not_evicted(cluster: EmbeddedCluster) -> None:
    cluster.create(node("n1"))
    target = Condition(type="DisruptionTarget", status="True", reason="PreemptionByScheduler")
    async with scheduling(cluster) as scheduler:
        cluster.create(victim("a"))
        await until(lambda: bound_to(cluster, "a"), "bound")
        known: Any = scheduler.state.listers["pods"].get("a", "default")
        other = msgspec.structs.replace(
            known, metadata=msgspec.structs.replace(known.metadata, uid="another")
        )
        # The condition is there already, so the precondition of the deletion must fail.
        marked = msgspec.structs.replace(
            other,
            metadata=msgspec.structs.replace(known.metadata, uid="a third"),
            status=msgspec.structs.replace(other.status, conditions=(target,)),
        )
        missing = msgspec.convert(
            {"metadata": {"name": "gone", "namespace": "default", "uid": "gone"}}, Pod
        )
        writer: Any = next(iter(scheduler.profiles.frameworks.values())).handle.api
        assert await writer.evict([other, marked, missing], target) == [False, False, False]
        assert bound_to(cluster, "a") == "n1"
        assert await writer.evict([known], target) == [True]
        assert find(cluster, "a") is None


async def test_a_victim_of_many_preemptors_is_evicted_once(cluster: EmbeddedCluster) -> None:
    cluster.create(node("n1"))
    target = Condition(type="DisruptionTarget", status="True", reason="PreemptionByScheduler")
    async with scheduling(cluster) as scheduler:
        cluster.create(victim("a"))
        await until(lambda: bound_to(cluster, "a"), "bound")
        known: Any = scheduler.state.listers["pods"].get("a", "default")
        writer: Any = next(iter(scheduler.profiles.frameworks.values())).handle.api
        rule = FaultRule(action="error", verb="delete", resource="pods", code=500, times=1)
        cluster.faults.add(rule)
        many = await asyncio.gather(*(writer.evict([known], target) for _ in range(20)))
        assert {type(result) for (result,) in many} == {ApiError}, "one failure fails all"
        again = await asyncio.gather(*(writer.evict([known], target) for _ in range(20)))
        assert again == [[True]] * 20
        assert await writer.evict([known], target) == [False], "no eviction is under way"
        counted = cluster.server.statistics()["requests"]
        assert (counted["delete pods"], counted["patch pods/status"]) == (2, 3)


async def test_background_work_is_owned_and_its_failure_logged(capsys: Any) -> None:
    tasks = BackgroundTasks()
    ended: list[str] = []

    async def fails() -> None:
        msg = "on purpose"
        raise RuntimeError(msg)

    async def forever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("forever")

    work: list[Coroutine[Any, Any, None]] = [fails(), forever()]
    for number, each in enumerate(work):
        tasks.start(each, f"work {number}")
    assert len(tasks) == 2
    await until(lambda: len(tasks) == 1, "the one that fails has ended")
    assert "on purpose" in "".join(capsys.readouterr())
    await tasks.cancel()
    assert ended == ["forever"]
    assert len(tasks) == 0
