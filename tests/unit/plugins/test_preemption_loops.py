"""Preemption ends when another scheduler puts the evicted pods back again and again.

The world of these tests is that of kubernetes#130429: a node is full of pods of another scheduler,
which a controller makes again and that scheduler binds to the same node at once.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from plugins.preemption_loops import (
    MAX_OWNERS,
    MAX_PAUSE,
    LoopMemory,
    known_memory,
    owner_of,
    recall,
)
from scheduler import offline
from scheduler.api.meta import Condition
from scheduler.api.pod_groups import POD_GROUP_LABEL
from scheduler.client.resources import PODS
from scheduler.framework import QueuedPodInfo
from simulator.demos.gang.objects import group as pod_group
from tests.unit.plugins.preemption_handle import pod

ALL: Final = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: kubestow
  pluginConfig:
  - name: DefaultPreemption
    args: {victimSchedulers: All}
"""
HOUR: Final = 3600.0


def replica(number: int, scheduler: str = "default-scheduler", node: str = "n") -> dict[str, Any]:
    """Return a pod of a ReplicaSet that fills the node."""
    made = offline.pod(f"web-{number}", cpu=4, node=node, spec={"schedulerName": scheduler})
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "rs"}
    made["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    made["spec"]["terminationGracePeriodSeconds"] = 1
    return made


@pytest.fixture
def world(tmp_path: Path) -> Any:
    config = tmp_path / "config.yaml"
    config.write_text(ALL)
    with offline.World(config=config) as found:
        found.add_nodes(offline.node("n", cpu=4))
        found._assembly.events.kept = []
        yield found


def put_back(world: offline.World, scheduler: str = "default-scheduler") -> Callable[[], int]:
    """Let the replica be made and bound again as soon as it ends; return how often it was."""
    number = 0

    def look() -> None:
        nonlocal number
        pods = world._assembly.tables.stores[PODS.plural].list()
        if all(each.terminating for each in pods if each.metadata.name.startswith("web-")):
            number += 1
            world.add(replica(number, scheduler))
        world.at(world.now + 0.5, look)

    world.add(replica(0, scheduler))
    world.at(0.5, look)
    return lambda: number


def reasons(world: offline.World) -> list[str]:
    kept = world._assembly.events.kept or ()
    return [each.note for each in kept if each.reason == "PreemptionLoop"]


@pytest.mark.slow
def test_two_days_of_the_loop_cost_a_few_evictions_an_hour_at_most(world: offline.World) -> None:
    evictions = put_back(world)
    world.add_pods(offline.pod("urgent", cpu=4, priority=100))
    world.run(until=60.0)
    assert evictions() == 3
    world.run(until=48 * HOUR)
    assert evictions() < 60
    assert "default/urgent" in {each.pod for each in world.waiting()}


def test_the_pod_and_an_event_say_why(world: offline.World) -> None:
    put_back(world)
    world.add_pods(offline.pod("urgent", cpu=4, priority=100))
    (waiting,) = world.run(until=40.0).waiting
    text = (
        "preemption: stopped for 1m0s: pods of ReplicaSet default/web, which are placed by "
        "scheduler default-scheduler, were evicted for this pod 3 times, and were there again "
        "each time."
    )
    assert text in waiting.reason
    (note,) = reasons(world)
    assert note.startswith(text)
    assert "scheduler" not in waiting.nominated


def test_a_pod_gets_its_room_once_nobody_takes_it_away(world: offline.World) -> None:
    put_back(world)
    world.add_pods(offline.pod("urgent", cpu=4, priority=100))
    world.run(until=40.0)
    assert reasons(world)
    world.add_nodes(offline.node("m", cpu=4))
    assert world.run(until=60.0).placed[0].node == "m"


def test_a_victim_that_stays_away_is_no_loop(world: offline.World) -> None:
    world.add(replica(0))
    world.add_pods(offline.pod("urgent", cpu=4, priority=100))
    assert [each.pod for each in world.schedule().placed] == ["default/urgent"]
    assert not reasons(world)


def test_the_record_of_a_pod_is_bounded() -> None:
    memory = LoopMemory()
    for number in range(2 * MAX_OWNERS):
        memory.evicted([pod(f"victim-{number}")], 0.0)
    assert len(memory.evictions) == MAX_OWNERS


def test_pauses_double_to_an_hour_and_a_clock_that_is_set_back_ends_one() -> None:
    memory, victims, now = LoopMemory(), [pod("victim")], 1e9
    lengths = []
    for _ in range(12):
        while not memory.stop(victims, now):
            memory.evicted(victims, now)
        lengths.append(memory.stopped_until - now)
        now = memory.stopped_until
    assert lengths == [*(60.0 * 2**power for power in range(6)), *[MAX_PAUSE] * 6]
    while not memory.stop(victims, now):
        memory.evicted(victims, now)
    assert memory.stop(victims, now - 1.0) == ""


def test_a_recording_keeps_the_record() -> None:
    memory = LoopMemory({"pod default/victim": 4}, 1e9, 2, told=True)
    assert msgspec.convert(msgspec.json.decode(msgspec.json.encode(memory)), LoopMemory) == memory


BEFORE: Final = "0/1 nodes are available: 1 Insufficient cpu. preemption: "


def stop(count: int) -> tuple[LoopMemory, str]:
    """Return the record after so many preemptions, and the message of the stop."""
    memory, victims = LoopMemory(), [pod("victim")]
    for _ in range(count):
        memory.evicted(victims, 0.0)
    return memory, BEFORE + memory.stop(victims, 1.0)


def recalled(message: str) -> LoopMemory | None:
    """Return the record of a pod that a new process finds with this condition, at 1000 s."""
    found = pod("urgent")
    condition = Condition(type="PodScheduled", status="False", message=message)
    found.status.conditions = (condition,)
    info = QueuedPodInfo(found, 0.0)
    recall(info, 1000.0)
    return known_memory(info)


@pytest.mark.parametrize("count", [3, 4, 12])
def test_a_new_process_goes_on_with_the_pause(count: int) -> None:
    memory, message = stop(count)
    found = recalled(message)
    assert found is not None
    assert (found.evictions, found.stops) == (memory.evictions, memory.stops)
    assert found.told, "the pause is not reported again"
    assert found.stopped_until == 1000.0 + memory.stopped_until


FORGED: Final = "x, were evicted for this pod 900000 times, and were there again each time. Let"


@pytest.mark.parametrize(
    "message",
    [
        "",
        "0/1 nodes are available: 1 Insufficient cpu.",
        stop(3)[1].replace("pod default/victim", "a kind default/victim"),
        stop(3)[1].replace("3 times", "many times"),
        stop(3)[1] + " And more.",
    ],
)
def test_other_messages_are_no_record(message: str) -> None:
    assert recalled(message) is None


def test_a_name_of_a_scheduler_that_imitates_the_message_changes_no_count() -> None:
    _, message = stop(3)
    assert "placed by scheduler kubestow, were" in message
    found = recalled(message.replace("by scheduler kubestow,", f"by scheduler {FORGED},"))
    assert found is not None
    assert found.evictions == {"pod default/victim": 3}


@pytest.mark.slow
def test_after_a_restart_nobody_is_evicted_before_the_pause_is_over(world: offline.World) -> None:
    evictions = put_back(world)
    urgent = offline.pod("urgent", cpu=4, priority=100)
    text = stop(4)[1].replace("pod default/victim", "ReplicaSet default/web")
    condition = {"type": "PodScheduled", "status": "False", "message": text}
    world.add({**urgent, "status": {"conditions": [condition]}})
    world.run(until=110.0)
    assert (evictions(), reasons(world)) == (0, [])
    world.run(until=48 * HOUR)
    assert 1 < evictions() < 60


def test_a_pod_without_a_controller_is_its_own_owner() -> None:
    assert owner_of(pod("bare")) == "pod default/bare"


GANGS: Final = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: kubestow
  plugins: {multiPoint: {enabled: [{name: GangScheduling}]}}
  pluginConfig:
  - name: DefaultPreemption
    args: {victimSchedulers: All}
  - name: GangScheduling
    args: {assembleFor: 0s}
"""


@pytest.mark.slow
def test_a_gang_ends_a_loop_as_well(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(GANGS)
    with offline.World(config=config) as world:
        world.add_nodes(offline.node("n", cpu=4))
        world._assembly.events.kept = []
        evictions = put_back(world)
        world.add(pod_group("g", 2))
        member = offline.pod("m", cpu=2, priority=100, labels={POD_GROUP_LABEL: "g"})
        world.add_pods(member, count=2)
        why = world.run(until=12 * HOUR).waiting[0].reason
        assert "it might fit if 1 pod of lower priority went, but preemption for it is" in why
        assert "and another scheduler put them back each time" in why
        assert "pods of ReplicaSet default/web" in reasons(world)[0]
        assert 3 <= evictions() <= 20
