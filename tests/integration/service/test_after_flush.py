"""The counter of pods that only the periodic flush of the unschedulable queue got scheduled."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from devtools.embedded_service import bound_to, condition, node, pod, sample, scheduling, until
from devtools.loop_time import LoopClock
from scheduler.framework import ClusterEventWithHint, Status, unschedulable
from simulator import EmbeddedCluster

COUNTER = "scheduler_pod_scheduled_after_flush_total"


class Door:
    """Rejects the pods called "late" until it is open; no event requeues them."""

    name: ClassVar[str] = "Door"
    is_open: bool = False

    def __init__(self, args: object, handle: object) -> None: ...

    def filter(self, state: object, pod: Any, node_info: object) -> Status | None:
        if pod.metadata.name == "late" and not type(self).is_open:
            return unschedulable("closed")
        return None

    def events_to_register(self) -> list[ClusterEventWithHint]:
        return []


async def test_a_pod_that_an_event_cannot_requeue_is_counted_at_its_bind(
    cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Door, "is_open", False)
    clock = LoopClock(cluster)
    cluster.create(node("n1"))
    async with scheduling(cluster, [Door], clock=clock) as scheduler:
        cluster.create(pod("late"))
        await until(lambda: "closed" in condition(cluster, "late").get("message", ""))
        cluster.create(pod("plain"))
        await until(lambda: bound_to(cluster, "plain") == "n1")
        assert sample(scheduler, COUNTER) == 0, "another pod, and none was flushed"
        Door.is_open = True
        clock.ahead += 360
        scheduler.scheduling.queue.signals.on_timer()
        await until(lambda: bound_to(cluster, "late") == "n1")
        await until(lambda: sample(scheduler, COUNTER) == 1)


async def test_a_pod_that_an_event_requeues_is_not_counted(cluster: EmbeddedCluster) -> None:
    clock = LoopClock(cluster)
    async with scheduling(cluster, clock=clock) as scheduler:
        cluster.create(node("small", cpu="1"))
        cluster.create(pod("large", cpu="8"))
        await until(lambda: "Insufficient cpu" in condition(cluster, "large").get("message", ""))
        clock.ahead += 60
        cluster.create(node("n1", cpu="16"))
        await until(lambda: bound_to(cluster, "large") == "n1")
        attempts = "scheduler_pod_scheduling_attempts_count"
        await until(lambda: sample(scheduler, attempts) == 1)
        assert sample(scheduler, COUNTER) == 0
