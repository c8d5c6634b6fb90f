"""Updates and deletions of pending pods in every state."""

from __future__ import annotations

import pytest

from scheduler.framework import ActionType, ClusterEvent, unresolvable
from tests.unit.queue.doubles import (
    NODE_ADD,
    QUEUE,
    SKIP,
    WILDCARD,
    FilterDouble,
    GateDouble,
    SchedulingGatesDouble,
    World,
    make_pod,
)

LABEL = ClusterEvent("Pod", ActionType.UPDATE_POD_LABEL)
UPDATE = ClusterEvent("Pod", ActionType.UPDATE)

OLD = make_pod("a")
NEW = make_pod("a", labels={"x": "1"})


def test_an_unknown_pod_becomes_active() -> None:
    world = World()
    world.update(None, NEW)
    assert world.pop().pod is NEW
    assert world.metrics.incoming["active", "UnscheduledPodAdd"] == 1


def test_an_active_pod_stays_active_and_takes_its_new_turn() -> None:
    world = World()
    world.add(OLD, make_pod("b", 5))
    world.update(OLD, NEW)
    assert world.place("a") == "active"
    world.update(NEW, raised := make_pod("a", 9))
    assert world.pop().pod is raised


@pytest.mark.parametrize("rejectors", [[], ["P"]])
def test_a_pod_in_backoff_stays_there_with_the_new_object(rejectors: list[str]) -> None:
    world = World(FilterDouble("P", [(LABEL, QUEUE)]))
    world.add(OLD)
    info = world.pop()
    world.happen(WILDCARD)
    world.fail(info, *rejectors)
    world.update(OLD, NEW)
    assert world.place("a") == "backoff"
    world.pass_time(2)
    assert world.pop().pod is NEW


@pytest.mark.parametrize(
    ("hint", "waited", "place"),
    [(QUEUE, 0.5, "backoff"), (QUEUE, 3, "active"), (SKIP, 3, "unschedulable")],
)
def test_an_unschedulable_pod_moves_by_hint_and_backoff(
    hint: object, waited: float, place: str
) -> None:
    world = World(FilterDouble("P", [(LABEL, hint)]))
    world.rejected(OLD, "P")
    world.clock.step(waited)
    world.update(OLD, NEW)
    assert world.place("a") == place


def test_an_update_that_no_plugin_registered_only_replaces_the_object() -> None:
    world = World(
        FilterDouble("P", [(ClusterEvent("Pod", ActionType.UPDATE_POD_TOLERATION), QUEUE)])
    )
    world.rejected(OLD, "P")
    world.update(OLD, NEW)
    assert world.place("a") == "unschedulable"
    world.happen(WILDCARD)
    assert world.pop().pod is NEW


def test_the_update_of_another_pod_moves_none() -> None:
    world = World(FilterDouble("P", [(LABEL, QUEUE)]))
    world.rejected(make_pod("sleeper"), "P")
    world.add(OLD)
    world.update(OLD, NEW)
    assert world.place("sleeper") == "unschedulable"


def test_a_pod_in_flight_is_in_no_queue_after_an_update() -> None:
    world = World()
    world.add(OLD)
    world.pop()
    world.update(OLD, NEW)
    assert len(world.queue) == 0


def test_another_pod_of_the_same_name_replaces_the_pod() -> None:
    world = World()
    world.add(OLD)
    world.update(OLD, recreated := make_pod("a", uid="other"))
    assert world.pop().pod is recreated
    assert world.queue.pop() is None


def test_an_update_for_a_name_that_now_belongs_to_another_uid_replaces_it() -> None:
    world = World()
    world.add(make_pod("a", uid="other"))
    world.update(OLD, NEW)
    assert world.pop().uid == NEW.uid
    assert world.queue.pop() is None


class TestGates:
    def test_removing_all_gates_frees_the_pod_and_removing_one_of_two_does_not(self) -> None:
        world = World(SchedulingGatesDouble())
        both, one = make_pod("a", gates=["x", "y"]), make_pod("a", gates=["x"])
        world.add(both)
        world.update(both, one)
        assert world.place("a") == "gated"
        view = world.queue.view("default", "a")
        assert view is not None
        assert view.message == "waiting for scheduling gates: ['x']", "the one that is left"
        world.update(one, make_pod("a"))
        info = world.pop()
        assert (info.gated, info.last_message, info.unschedulable_count) == (False, "", 0)

    def test_the_periodic_flush_is_not_needed_to_free_a_pod(self) -> None:
        world = World(SchedulingGatesDouble(), max_in_unschedulable=None)
        world.add(gated := make_pod("a", gates=["x"]))
        world.update(gated, make_pod("a"))
        assert world.place("a") == "active"

    def test_a_gating_plugin_that_registered_nothing_keeps_its_pod_until_recheck(self) -> None:
        gate = GateDouble("G")
        gate.closed["a"] = unresolvable("no")
        world = World(gate)
        world.add(OLD)
        gate.closed.clear()
        world.update(OLD, NEW)
        assert world.place("a") == "gated"
        world.queue.recheck([OLD.uid])
        assert world.place("a") == "active"

    def test_a_gating_plugin_that_registered_pods_runs_again_for_updates_of_others(self) -> None:
        gate = GateDouble("G", [(UPDATE, QUEUE)])
        gate.closed["a"] = unresolvable("no")
        world = World(gate)
        world.add(OLD, make_pod("other"))
        world.happen(ClusterEvent("AssignedPod", ActionType.UPDATE))
        assert gate.runs == ["a", "other", "a"]
        gate.closed.clear()
        world.update(OLD, make_pod("a", annotations={"x": "y"}))
        assert world.place("a") == "active"

    def test_an_update_can_gate_an_unschedulable_pod(self) -> None:
        gate = GateDouble("G", [(LABEL, QUEUE)])
        world = World(gate, FilterDouble("P", [(LABEL, QUEUE)]))
        world.rejected(OLD, "P")
        gate.closed["a"] = unresolvable("closed")
        world.clock.step(5)
        world.update(OLD, NEW)
        assert world.place("a") == "gated"
        assert world.metrics.pending == {
            "active": 0, "unschedulable": 0, "gated": 1,
        }  # fmt: skip
        gate.closed.clear()
        world.update(NEW, OLD)
        assert world.place("a") == "active"
        assert world.metrics.pending == {"active": 1, "unschedulable": 0, "gated": 0}


class TestDelete:
    @pytest.mark.parametrize("place", ["active", "backoff", "unschedulable", "gated"])
    def test_a_deleted_pod_is_removed_from_its_sub_queue(self, place: str) -> None:
        world = World(SchedulingGatesDouble(), FilterDouble("P"))
        pod = make_pod("a", gates=["x"] if place == "gated" else [], nominated="node")
        world.add(pod)
        if place in ("backoff", "unschedulable"):
            world.fail(world.pop(), *(["P"] if place == "unschedulable" else []))
        assert world.place("a") == place
        world.delete(pod)
        world.delete(pod)
        assert (len(world.queue), len(world.queue.nominator)) == (0, 0)
        assert +world.metrics.pending == {}
        assert +world.metrics.unschedulable == {}
        assert world.queue.pop() is None

    def test_deleting_another_pod_of_the_same_name_changes_nothing(self) -> None:
        world = World()
        world.add(OLD)
        world.queue.delete(make_pod("a", uid="stale"))
        world.queue.delete(make_pod("unknown"))
        assert world.place("a") == "active"

    def test_deleting_a_pod_in_flight_does_not_end_its_attempt(self) -> None:
        world = World()
        world.add(OLD)
        world.pop()
        world.delete(OLD)
        assert world.place("a") == "in-flight"
        world.queue.done(OLD.uid)
        assert world.place("a") == ""

    def test_a_pod_deleted_after_a_failed_attempt_is_not_counted_any_more(self) -> None:
        world = World(FilterDouble("P", [(NODE_ADD, QUEUE)]))
        world.rejected(OLD, "P")
        world.clock.step(5)
        world.happen(NODE_ADD)
        assert world.metrics.unschedulable["P", "kubestow"] == 1
        world.delete(OLD)
        assert world.metrics.unschedulable["P", "kubestow"] == 0
