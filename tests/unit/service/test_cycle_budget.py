"""A cycle over its budget, from the attempt to the Event, the condition and the next attempt."""

from __future__ import annotations

from scheduler.api import Pod
from scheduler.engine.failure import SET_ASIDE
from scheduler.engine.overruns import FIRST_PAUSE
from scheduler.framework import unschedulable
from scheduler.service.failure_handler import EVENT_FAILED_SCHEDULING
from tests.unit.engine.harness import plugin
from tests.unit.service.harness import Service


class Hog:
    """Pods called `hog…` take a minute of every filter call."""

    def __init__(self) -> None:
        self.filtered: list[str] = []
        self.service = Service(plugin("Hog", filter=self.filter), cycle_seconds=0.5)
        self.service.world.nodes("n0", "n1")

    def filter(self, state: object, pod: Pod, node: object) -> None:
        self.filtered.append(pod.metadata.name)
        if pod.metadata.name.startswith("hog"):
            self.service.clock.time += 60.0


async def test_the_pod_is_set_aside_with_event_and_condition_and_tried_after_the_pause() -> None:
    hog = Hog()
    service = hog.service
    pod = service.pending("hog")
    await service.attempt()
    [(name, reason, note)] = service.events.notes
    assert (name, reason) == ("hog", EVENT_FAILED_SCHEDULING)
    assert "kubestow.cycleTimeBudget" in note
    [patch] = service.dispatcher.patches
    [condition] = patch.conditions
    assert (condition.reason, condition.message) == ("SchedulerError", note)
    assert service.place(pod) == "backoff"
    service.clock.time += FIRST_PAUSE - 0.1
    service.queue.run_due()
    assert service.queue.pop() is None
    service.clock.time += 1.2
    service.queue.run_due()
    hog.filtered.clear()
    await service.attempt()
    assert hog.filtered == ["hog"]


async def test_clones_are_set_aside_without_being_tried_and_nobody_is_lost() -> None:
    hog = Hog()
    service = hog.service
    clones = [service.pending(f"hog{number}") for number in range(20)]
    for _ in clones:
        await service.attempt()
    assert hog.filtered == ["hog0"]
    assert {service.place(pod) for pod in clones} == {"backoff"}
    assert [note for _, _, note in service.events.notes[1:]] == [SET_ASIDE] * 19
    service.queue.validate()


async def test_an_ordinary_pod_behind_a_hundred_expensive_ones_is_tried_within_a_second() -> None:
    """Every expensive pod is of another template, fails, and takes a quarter of a second."""

    def expensive(state: object, pod: Pod, table: object) -> object:
        tried.append(pod.metadata.name)
        if pod.metadata.namespace != "hostile":
            return None
        service.clock.time += 0.25
        return unschedulable("expensive")

    tried: list[str] = []
    service = Service(plugin("Expensive", pre_filter=expensive), cycle_seconds=0.5)
    service.world.nodes("n0")
    hostile = [
        service.pending(
            f"hostile{number}", namespace="hostile", **service.world.requests(number + 1)
        )
        for number in range(100)
    ]
    service.pending("ordinary")
    came = service.clock.time
    while "ordinary" not in tried:
        await service.attempt()
    assert service.clock.time - came < 1.0
    while service.queue.statistics().active:
        await service.attempt()
    assert len(set(tried)) == 101
    assert all(service.place(pod) is not None for pod in hostile)
