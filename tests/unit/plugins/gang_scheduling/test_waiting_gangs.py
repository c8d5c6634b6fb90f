"""Gangs that wait for room: which events bring them back, and how often they are tried."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.engine.template_capacity import GroupBound
from scheduler.framework.events import ActionType, ClusterEvent, EventResource
from scheduler.groups.running.waiting import MAX_CHECK_SECONDS
from scheduler.testing import node, pod
from tests.unit.plugins.gang_scheduling.gang_cluster import GangCluster


def tolerate(cluster: GangCluster, key: str) -> None:
    """Add a toleration to a pending pod, as its owner may."""
    known = cluster.world.pod(key)
    changed = pod(known.metadata.name, cpu=1, labels=dict(known.metadata.labels))
    changed["metadata"]["uid"] = known.metadata.uid
    changed["spec"]["schedulerName"] = known.spec.scheduler_name
    changed["spec"]["nodeSelector"] = dict(known.spec.node_selector or {})
    changed["spec"]["tolerations"] = [{"key": "a", "operator": "Exists"}]
    cluster.world.add(changed)


def add_gangs(cluster: GangCluster, count: int, members: int, **fields: Any) -> None:
    for number in range(count):
        cluster.add_group(members, f"w{number}")
        cluster.add_members(members, f"w{number}", **fields)
    cluster.tick(40)


def test_g12_an_event_that_leaves_the_bound_too_low_causes_no_attempt(
    cluster: GangCluster, cycles: list[bool]
) -> None:
    cluster.add_group(50)
    cluster.add_members(50)
    cluster.tick(30)
    assert cycles == [False]
    cluster.add_node(node("n2", cpu=4))
    cluster.tick(60)
    assert cycles == [False]
    for number in range(3, 24):
        cluster.add_node(node(f"n{number}", cpu=4))
    cluster.tick(2)
    assert cycles == [False]
    cluster.add_node(node("n24", cpu=4))
    cluster.tick(2)
    assert cycles == [False, True]
    assert len(cluster.bound()) == 50


def test_g12_no_hint_runs_for_gangs_that_wait_for_their_bound(
    cluster: GangCluster, cycles: list[bool]
) -> None:
    add_gangs(cluster, 20, 5)
    assert cycles == [False] * 20
    queue = cluster.world._assembly.scheduling.queue
    before = queue.statistics().hint_calls
    cluster.add(pod("single", cpu=1, node="n0"))
    cluster.world.remove("Pod", "single", "default")
    cluster.tick(1)
    assert queue.statistics().hint_calls == before
    assert cycles == [False] * 20


def test_g12_room_for_one_of_many_gangs_causes_one_attempt(
    cluster: GangCluster, cycles: list[bool]
) -> None:
    add_gangs(cluster, 20, 5)
    cluster.add_node(node("n2", cpu=2))
    cluster.tick(5)
    assert cycles == [False] * 20 + [True]
    assert len(cluster.bound()) == 5


def test_g12_room_for_some_of_many_gangs_is_used_without_a_futile_attempt(
    cluster: GangCluster, cycles: list[bool]
) -> None:
    add_gangs(cluster, 20, 5)
    for number in range(2, 9):
        cluster.add_node(node(f"n{number}", cpu=4))
    cluster.tick(5)
    assert len(cluster.bound()) == 15, "nodes for 18 members"
    assert False not in cycles[20:]


def test_g12_room_that_only_some_nodes_have_for_the_template_is_recognized(
    cluster: GangCluster, cycles: list[bool]
) -> None:
    add_gangs(cluster, 1, 3, cpu=1, spec={"nodeSelector": {"disk": "ssd"}})
    assert cycles == [False]
    cluster.add_node(node("n2", cpu=4))
    cluster.tick(5)
    assert cycles == [False], "the new node does not match"
    cluster.add_node(node("n3", cpu=2, labels={"disk": "ssd"}))
    cluster.tick(5)
    assert cycles == [False], "room for two of three"
    cluster.add(node("n2", cpu=4, labels={"disk": "ssd"}))
    cluster.tick(5)
    assert cycles == [False, True]


def test_g12_of_two_waiting_gangs_the_one_of_higher_priority_is_tried_first(
    cluster: GangCluster, cycles: list[bool]
) -> None:
    add_gangs(cluster, 1, 5)
    cluster.add_group(5, "high")
    cluster.add_members(5, "high", priority=10)
    cluster.tick(40)
    cluster.add_node(node("n2", cpu=2))
    cluster.tick(5)
    assert len(cluster.bound("high")) == 5
    assert cycles == [False, False, True]


def test_g12_a_change_of_a_member_is_tried(cluster: GangCluster, cycles: list[bool]) -> None:
    cluster.add_group(2)
    first, second = cluster.add_members(2, cpu=1, spec={"nodeSelector": {"disk": "ssd"}})
    cluster.add_node(node("n2", cpu=1, labels={"disk": "ssd"}))
    cluster.tick(5)
    assert cycles[-1] is False
    tried = len(cycles)
    cluster.add_node(node("n3", cpu=4, labels={"disk": "ssd"}, taints=("a=b:NoSchedule",)))
    cluster.tick(5)
    assert len(cycles) == tried, "the new node repels both"
    for key in (first, second):
        tolerate(cluster, key)
    cluster.tick(15)
    assert cycles[-1] is True


def test_equal_gangs_are_asked_once_and_not_at_all_without_room_for_any(
    cluster: GangCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    too_low = GroupBound.too_low

    def counted(self: GroupBound, *args: Any) -> bool:
        asked.append(self.need)
        return too_low(self, *args)

    for number in range(10):
        cluster.add_group(6, f"g{number}")
        cluster.add_members(6, f"g{number}")
    cluster.add_group(5, "wide")
    cluster.add_members(5, "wide", cpu=1.9, spec={"nodeSelector": {"disk": "ssd"}})
    cluster.tick(5)
    waiting = cluster.world._assembly.scheduling.groups.waiting
    monkeypatch.setattr(GroupBound, "too_low", counted)
    kept = waiting.kept
    for number in range(20):
        cluster.add(pod(f"small-{number}", cpu=0.1))
        cluster.tick(1)
        cluster.world.remove("Pod", f"small-{number}", "default")
        cluster.tick(1)
    assert asked == [], "no template has room for the lowest need"
    assert waiting.kept - kept == 20 * 11, "once for each pod that ended"
    cluster.add_node(node("n2", cpu=4))
    cluster.tick(1)
    assert len(cluster.bound()) == 6
    assert 1 <= asked.count(6) <= 6, "one of ten equal groups is asked, then the one with the room"


def _changing_nodes(cluster: GangCluster, seconds: float) -> None:
    """Change a node a hundred times per second, which gives no gang room."""
    for number in range(round(seconds * 100)):
        cluster.world.add(node("n1", cpu=4, labels={"number": str(number)}))
        cluster.tick(0.01)


def test_bounds_are_compared_ever_more_rarely_while_events_change_nothing(
    cluster: GangCluster,
) -> None:
    cluster.add_group(6)
    cluster.add_members(6)
    cluster.tick(5)
    waiting = cluster.world._assembly.scheduling.groups.waiting
    for seconds, least, most in [(1, 2, 4), (10, 9, 11)]:
        checks = waiting.checks
        _changing_nodes(cluster, seconds)
        assert least <= waiting.checks - checks <= most, f"in {seconds} seconds"
    cluster.tick(3)
    checks = waiting.checks
    _changing_nodes(cluster, 0.1)
    assert waiting.checks == checks + 1, "at once after a pause"


def test_room_is_noticed_within_a_second_however_many_events_there_are(
    cluster: GangCluster,
) -> None:
    cluster.add_group(6)
    cluster.add_members(6)
    cluster.tick(5)
    _changing_nodes(cluster, 5)
    cluster.add_node(node("n2", cpu=4))
    _changing_nodes(cluster, MAX_CHECK_SECONDS + 0.1)
    assert len(cluster.bound()) == 6


def test_a_gang_that_waits_is_forgotten_with_its_members(cluster: GangCluster) -> None:
    cluster.add_group(5)
    cluster.add_members(5)
    cluster.tick(5)
    waiting = cluster.world._assembly.scheduling.groups.waiting
    assert len(waiting) == 1
    for number in range(5):
        cluster.world.remove("Pod", f"g-pod-{number}", "default")
    cluster.tick(1)
    cluster.add_node(node("n2", cpu=4))
    cluster.tick(1)
    assert len(waiting) == 0
    event = ClusterEvent(EventResource.NODE, ActionType.ADD)
    queue = cluster.world._assembly.scheduling.queue
    queue.move_all_to_active_or_backoff(event, None, None)
    cluster.tick(1)
    assert not queue.signals.on_room.listeners, "an event costs nothing where nobody waits"


def test_only_the_first_event_after_a_check_is_noted(cluster: GangCluster) -> None:
    cluster.add_group(5)
    cluster.add_members(5)
    cluster.tick(5)
    queue = cluster.world._assembly.scheduling.queue

    def listens() -> bool:
        return bool(queue.signals.on_room.listeners)

    assert listens()
    event = ClusterEvent(EventResource.NODE, ActionType.ADD)
    queue.move_all_to_active_or_backoff(event, None, None)
    assert not listens(), "further events before the check cost nothing"
    cluster.tick(1)
    assert listens()
    cluster.add_node(node("n2", cpu=4))
    cluster.tick(0.01)
    cluster.add_node(node("n3", cpu=4))
    cluster.tick(1)
    assert len(cluster.bound()) == 5, "of an event between two checks"
