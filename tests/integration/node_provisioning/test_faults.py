"""The bridge when something is in its way: the fence, a pod that went, load, its own errors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest

from devtools.embedded_service import bind, delete, until
from scheduler.api.policy import CoreEvent
from scheduler.client.clock import SystemClock
from scheduler.client.configuration import ClientConfiguration
from scheduler.client.dispatcher import Dispatcher
from scheduler.client.reflector import Reflector
from scheduler.client.resources import PODS
from scheduler.client.rest import ApiClient
from scheduler.client.transport import Transport
from scheduler.controllers.node_provisioning import bridge
from scheduler.controllers.node_provisioning.bridge import BridgeOptions, NodeProvisioningBridge
from scheduler.controllers.node_provisioning.condition_selector import ConditionSelector
from scheduler.controllers.node_provisioning.decisions import MAX_IN_FLIGHT, Decisions
from scheduler.metrics import SchedulerMetrics
from simulator import EmbeddedCluster, FaultRule
from tests.integration.node_provisioning.events import (
    NOT_TRIGGERED,
    TRIGGERED,
    condition,
    emit,
    event,
    repeat,
    shown,
    waiting_pod,
)

FAILED = ("False", "ScaleUpBackoff")


class Door:
    """A leader fence that the test opens and shuts."""

    def __init__(self) -> None:
        self.open = True

    def allowed(self) -> bool:
        return self.open

    def remaining(self) -> float:
        return 10.0 if self.open else 0.0


class Bridge:
    """The bridge alone, with its own view of the pods."""

    def __init__(self, client: ApiClient, options: BridgeOptions, door: Door) -> None:
        self.metrics = SchedulerMetrics(process=False)
        self.dispatcher = Dispatcher(client, fence=door)
        self.decisions = Decisions(names=["kubestow"], wanted=ConditionSelector(every_pod=False))
        self.bridge = NodeProvisioningBridge(
            client, self.dispatcher, self.decisions,
            options=options, metrics=self.metrics.bridge, random=Random(1),
        )  # fmt: skip
        self.pods = Reflector(client, PODS, self._changed)

    def _changed(self, batch: Any) -> None:
        for delta in batch:
            gone = delta.type.value == "DELETED"
            self.bridge.pod(delta.old, None if gone else delta.object)

    @property
    def active(self) -> bool:
        return self.bridge.statistics().active


@asynccontextmanager
async def bridging(
    cluster: EmbeddedCluster, door: Door | None = None, **options: Any
) -> AsyncIterator[Bridge]:
    door = door or Door()
    async with Transport(ClientConfiguration(server=cluster.url)) as transport:
        client = ApiClient(transport, fence=door, clock=SystemClock())
        made = Bridge(client, BridgeOptions(**options), door)
        async with asyncio.TaskGroup() as group:
            work = (made.pods.run(), made.dispatcher.run(), made.bridge.run())
            tasks = [group.create_task(each) for each in work]
            try:
                yield made
            finally:
                for task in tasks:
                    task.cancel()


@pytest.mark.slow
async def test_nothing_is_written_while_another_may_lead(cluster: EmbeddedCluster) -> None:
    door = Door()
    door.open = False
    async with bridging(cluster, door) as made:
        item = cluster.create(waiting_pod())
        emit(cluster, event(item, "NotTriggerScaleUp", NOT_TRIGGERED))
        await until(lambda: made.dispatcher.statistics().status.fenced > 0, "turned away")
        assert condition(cluster) == {}
        door.open = True
        await until(lambda: shown(cluster) == FAILED, "tried again")


async def test_a_pod_that_came_back_under_its_name_is_another_one(
    cluster: EmbeddedCluster,
) -> None:
    """The patch for the old one meets the new one: refused by its UID, and not repeated."""
    rule = cluster.faults.add(
        FaultRule(action="delay", verb="patch", resource="pods/status", seconds=60, times=1)
    )
    cluster.clock.set_rate(0)
    async with bridging(cluster) as made:
        item = cluster.create(waiting_pod())
        emit(cluster, event(item, "NotTriggerScaleUp", NOT_TRIGGERED))
        await until(lambda: cluster.faults.describe()[0]["acted"] == 1, "patch under way")
        delete(cluster, "a")
        cluster.create(waiting_pod())
        cluster.clock.advance(61)
        await until(lambda: made.decisions.statistics().under_way == 0, "answered")
        assert condition(cluster) == {}
        assert made.decisions.statistics().pods == 1
    cluster.faults.remove(rule)


async def test_a_pod_that_is_bound_while_its_patch_is_under_way(cluster: EmbeddedCluster) -> None:
    cluster.faults.add(
        FaultRule(action="delay", verb="patch", resource="pods/status", seconds=60, times=1)
    )
    cluster.clock.set_rate(0)
    async with bridging(cluster) as made:
        item = cluster.create(waiting_pod())
        emit(cluster, event(item, "NotTriggerScaleUp", NOT_TRIGGERED))
        await until(lambda: cluster.faults.describe()[0]["acted"] == 1, "patch under way")
        bind(cluster, "a", "elsewhere")
        await until(lambda: made.decisions.statistics().pods == 0, "bound")
        cluster.clock.advance(61)
        await until(lambda: shown(cluster) == FAILED, "harmless")
        assert made.decisions.statistics().under_way == 0


async def test_a_watch_that_breaks_loses_nothing(cluster: EmbeddedCluster) -> None:
    async with bridging(cluster):
        item, other = cluster.create(waiting_pod("a")), cluster.create(waiting_pod("b"))
        no = emit(cluster, event(item, "NotTriggerScaleUp", NOT_TRIGGERED))
        await until(lambda: shown(cluster) == FAILED)
        rule = cluster.faults.add(FaultRule(action="cut", verb="watch", resource="events"))
        emit(cluster, event(other, "TriggeredScaleUp", TRIGGERED))
        repeat(cluster, no)
        await until(lambda: cluster.faults.describe()[0]["acted"] > 4, "cut again and again")
        cluster.faults.remove(rule)
        await until(lambda: shown(cluster, "b") == ("True", "TriggeredScaleUp"))


async def test_it_stops_following_some_time_after_the_last_pod(cluster: EmbeddedCluster) -> None:
    async with bridging(cluster, linger=0.05) as made:
        item = cluster.create(waiting_pod())
        emit(cluster, event(item, "NotTriggerScaleUp", NOT_TRIGGERED))
        await until(lambda: shown(cluster) == FAILED)
        delete(cluster, "a")
        await until(lambda: not made.active, "stopped")
        again = cluster.create(waiting_pod())
        emit(cluster, event(again, "NotTriggerScaleUp", NOT_TRIGGERED))
        await until(lambda: shown(cluster) == FAILED, "and began again")


async def test_always_follows_without_any_pod(cluster: EmbeddedCluster) -> None:
    async with bridging(cluster, always=True) as made:
        await until(lambda: made.active)


async def test_many_pods_turned_down_at_once_are_each_patched_once(
    cluster: EmbeddedCluster,
) -> None:
    names = [f"p{number}" for number in range(300)]
    async with bridging(cluster) as made:
        for name in names:
            emit(
                cluster,
                event(cluster.create(waiting_pod(name)), "NotTriggerScaleUp", NOT_TRIGGERED),
            )
        await until(lambda: all(shown(cluster, name) == FAILED for name in names))
        await until(lambda: made.decisions.statistics().under_way == 0)
        assert made.dispatcher.statistics().status.sent == len(names)


async def test_the_slots_of_other_status_patches_stay_free(cluster: EmbeddedCluster) -> None:
    cluster.faults.add(FaultRule(action="silence", verb="patch", resource="pods/status"))
    async with bridging(cluster) as made:
        for number in range(30):
            item = cluster.create(waiting_pod(f"p{number}"))
            emit(cluster, event(item, "NotTriggerScaleUp", NOT_TRIGGERED))
        await until(lambda: made.decisions.statistics().signals == 30)
        await until(lambda: cluster.faults.describe()[0]["acted"] == MAX_IN_FLIGHT)
        status = made.dispatcher.statistics().status
        assert (status.in_flight, status.waiting) == (MAX_IN_FLIGHT, 0)


async def test_an_unexpected_error_restarts_the_bridge(
    cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bridge, "RESTART_SECONDS", 0.01)
    plan, failures = Decisions.plan, [RuntimeError("broken")]

    def broken_once(self: Decisions, *args: Any) -> Any:
        if failures:
            raise failures.pop()
        return plan(self, *args)

    monkeypatch.setattr(Decisions, "plan", broken_once)
    async with bridging(cluster) as made:
        item = cluster.create(waiting_pod())
        emit(cluster, event(item, "NotTriggerScaleUp", NOT_TRIGGERED))
        await until(lambda: shown(cluster) == FAILED)
        assert not failures
        await until(lambda: made.bridge.health() is None)


async def test_an_event_that_breaks_its_reader_costs_itself_only(
    cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    take = Decisions.event_changed

    def picky(self: Decisions, event: CoreEvent, *args: Any) -> Any:
        if event.involved_object.name == "b":
            raise RuntimeError("odd")
        return take(self, event, *args)

    monkeypatch.setattr(Decisions, "event_changed", picky)
    async with bridging(cluster):
        a, b = cluster.create(waiting_pod("a")), cluster.create(waiting_pod("b"))
        emit(cluster, event(b, "NotTriggerScaleUp", NOT_TRIGGERED))
        emit(cluster, event(a, "NotTriggerScaleUp", NOT_TRIGGERED))
        await until(lambda: shown(cluster, "a") == FAILED)
        assert condition(cluster, "b") == {}
