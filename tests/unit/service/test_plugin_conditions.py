"""Conditions and notes of plugins travel in the PATCH and the message that are made anyway."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec

from scheduler.api.meta import Condition
from scheduler.api.pod import Pod
from scheduler.framework import QueuedPodInfo, unschedulable
from tests.unit.engine.harness import plugin
from tests.unit.service.harness import Service

MARK = "example.com/Mark"


class Marker:
    """Refuses every node, and marks the pod."""

    def __init__(self) -> None:
        self.status = "False"
        self.calls: list[tuple[str, int, set[str]]] = []

    def conditions(self, pod: Pod, info: QueuedPodInfo) -> list[Condition]:
        self.calls.append((pod.metadata.name, info.attempts, set(info.unschedulable_plugins)))
        return [Condition(type=MARK, status=self.status, reason="R", message="m")]

    def refuse(self, state: Any, pod: Pod, node: Any) -> Any:
        state.note_failure("seen by Marker")
        state.note_failure("never shown", if_rejected_by="Other")
        state.note_failure("refused by Marker", if_rejected_by="Marker")
        return unschedulable("no")

    def plugin(self, **more: Any) -> type[Any]:
        return plugin("Marker", filter=self.refuse, pod_conditions=self.conditions, **more)


def served(*plugins: type[Any]) -> Service:
    service = Service(*plugins)
    service.world.nodes("n1")
    return service


def show(service: Service, pod: Pod) -> Pod:
    """The watch delivers what the last patch wrote."""
    conditions = {each.type: each for each in pod.status.conditions}
    conditions |= {each.type: each for each in service.dispatcher.patches[-1].conditions}
    status = msgspec.structs.replace(pod.status, conditions=tuple(conditions.values()))
    new = msgspec.structs.replace(pod, status=status)
    service.world.signatures.intern(new)
    service.informer[new.key] = new
    service.queue.update(pod, new)
    return new


async def retry(service: Service, pod: Pod) -> None:
    service.queue.activate([pod])
    await service.attempt()


async def test_a_plugins_condition_travels_with_pod_scheduled() -> None:
    marker = Marker()
    service = served(marker.plugin())
    service.pending("p")
    await service.attempt()
    (patch,) = service.dispatcher.patches
    assert [each.type for each in patch.conditions] == ["PodScheduled", MARK]
    assert patch.uid == "p"
    assert b'"uid":"p"' in patch.encode()
    assert marker.calls == [("p", 1, {"Marker"})], "called once the outcome is known"


async def test_unchanged_conditions_cause_no_write() -> None:
    service = served(Marker().plugin())
    pod = service.pending("p")
    await service.attempt()
    pod = show(service, pod)
    await retry(service, pod)
    assert len(service.dispatcher.patches) == 1


async def test_a_changed_condition_alone_is_written() -> None:
    marker = Marker()
    service = served(marker.plugin())
    pod = service.pending("p")
    await service.attempt()
    pod = show(service, pod)
    first = {each.type: each.last_transition_time for each in pod.status.conditions}
    service.clock.time += 100
    marker.status = "True"
    await retry(service, pod)
    (condition,) = service.dispatcher.patches[-1].conditions
    assert (condition.type, condition.status) == (MARK, "True")
    assert condition.last_transition_time != first[MARK]


async def test_the_transition_time_stays_while_the_status_does() -> None:
    service = served(Marker().plugin())
    pod = service.pending("p")
    await service.attempt()
    pod = show(service, pod)
    first = {each.type: each.last_transition_time for each in pod.status.conditions}
    service.clock.time += 100
    service.world.nodes("n2")
    await retry(service, pod)
    patch = service.dispatcher.patches[-1]
    assert [each.type for each in patch.conditions] == ["PodScheduled", MARK], "the text changed"
    assert {each.type: each.last_transition_time for each in patch.conditions} == first


async def test_a_plugin_that_raises_costs_only_its_own_condition() -> None:
    def broken(*_: Any) -> Any:
        raise ValueError("broken")

    thief = plugin(
        "Thief",
        filter=lambda *_: None,
        pod_conditions=lambda *_: [Condition(type="PodScheduled", status="True")],
    )
    marker = Marker()
    service = served(
        plugin("Broken", filter=lambda *_: None, pod_conditions=broken), thief, marker.plugin()
    )
    service.pending("p")
    await service.attempt()
    (patch,) = service.dispatcher.patches
    assert [(each.type, each.status) for each in patch.conditions] == [
        ("PodScheduled", "False"),
        (MARK, "False"),
    ]


def test_what_a_gate_writes_has_them_too() -> None:
    service = Service(
        plugin(
            "Gate",
            pre_enqueue=lambda pod: None if pod.metadata.name == "bystander" else _HELD,
            pod_conditions=lambda pod, info: [
                Condition(type=MARK, status=str(info.gated), reason="R", message="m")
            ],
        )
    )
    service.pending("p")
    service.clock.time += 1
    service.gates.run_due()
    (patch,) = service.dispatcher.patches
    assert [(each.type, each.status) for each in patch.conditions] == [
        ("PodScheduled", "False"),
        (MARK, "True"),
    ]


async def test_notes_of_plugins_end_the_message() -> None:
    service = served(Marker().plugin())
    service.pending("p")
    await service.attempt()
    ((_, reason, note),) = service.events.notes
    assert reason == "FailedScheduling"
    assert note == "0/1 nodes are available: 1 no. (seen by Marker) (refused by Marker)"
    assert service.dispatcher.patches[0].conditions[0].message == note


_HELD = replace(unschedulable("held"), condition_reason="Held")
