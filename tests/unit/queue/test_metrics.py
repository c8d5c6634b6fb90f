"""Metrics, views and statistics of the queue, and `validate`."""

from __future__ import annotations

import pytest

from scheduler.framework import error, unresolvable
from scheduler.queue import QueueInvariantError, QueueState
from tests.unit.queue.doubles import (
    NODE_ADD,
    PROFILE,
    QUEUE,
    SKIP,
    WILDCARD,
    FilterDouble,
    GateDouble,
    SchedulingGatesDouble,
    World,
    make_pod,
)


def test_incoming_pods_are_counted_by_queue_and_event() -> None:
    world = World(FilterDouble("P"))
    world.add(*(make_pod(f"p{number}") for number in range(3)))
    assert world.metrics.incoming == {("active", "UnscheduledPodAdd"): 3}
    infos = [world.pop() for _ in range(3)]
    world.metrics.incoming.clear()
    world.fail(infos[0], "P")
    world.fail(infos[1], "P")
    world.fail(infos[2])
    assert world.metrics.incoming == {
        ("unschedulable", "ScheduleAttemptFailure"): 2,
        ("backoff", "ScheduleAttemptFailure"): 1,
    }
    world.metrics.incoming.clear()
    world.happen(WILDCARD, pre_check=lambda pod: pod.metadata.name == "p0")
    world.pass_time(2)
    world.happen(WILDCARD)
    assert world.metrics.incoming == {
        ("backoff", "UnschedulableTimeout"): 1,
        ("active", "BackoffComplete"): 2,
        ("active", "UnschedulableTimeout"): 1,
    }


def test_pending_pods_are_counted_by_state() -> None:
    world = World(SchedulingGatesDouble(), FilterDouble("P"))
    rejected = [make_pod(f"rejected{number}") for number in range(20)]
    for pod in rejected:
        world.rejected(pod, "P")
    active = [make_pod(f"active{number}") for number in range(30)]
    gated = [make_pod(f"gated{number}", gates=["x"]) for number in range(10)]
    world.add(*active, *gated)
    assert world.metrics.pending == {"active": 30, "unschedulable": 20, "gated": 10}
    for pod in (*active[:2], *rejected[:3], *gated[:4]):
        world.delete(pod)
    assert world.metrics.pending == {"active": 28, "unschedulable": 17, "gated": 6}
    counts = world.queue.statistics()
    assert (counts.active, counts.unschedulable, counts.gated) == (28, 17, 6)


def test_rejecting_plugins_are_counted_once_for_each_pod() -> None:
    first, second = GateDouble("P1", [(NODE_ADD, QUEUE)]), GateDouble("P2", [(NODE_ADD, QUEUE)])
    world = World(first, second)
    counted = world.metrics.unschedulable
    first.closed["a"] = unresolvable("1")
    world.add(pod := make_pod("a"))
    world.happen(NODE_ADD)
    assert counted == {("P1", PROFILE): 1}
    first.closed.clear()
    second.closed["a"] = unresolvable("2")
    world.happen(NODE_ADD)
    assert counted == {("P1", PROFILE): 1, ("P2", PROFILE): 1}
    second.closed.clear()
    world.happen(NODE_ADD)
    world.fail(world.pop(), "P2")
    assert counted == {("P1", PROFILE): 0, ("P2", PROFILE): 1}
    world.delete(pod)
    assert +counted == {}


def test_hints_and_gates_are_measured_with_the_timer_that_is_injected() -> None:
    ticks = iter(range(1_000_000))
    gate = GateDouble("G")
    gate.closed = {"b": unresolvable("no"), "c": error("broken")}
    plugins = [
        gate,
        FilterDouble("P", [(NODE_ADD, SKIP)]),
        FilterDouble("Q", [(NODE_ADD, RuntimeError("broken hint"))]),
    ]
    world = World(*plugins, timer=lambda: float(next(ticks)))
    world.add(*(make_pod(name) for name in "abc"))
    assert [status for _, status, _ in world.metrics.runs] == [
        "Success", "UnschedulableAndUnresolvable", "Error",
    ]  # fmt: skip
    assert world.metrics.plugins == []
    for number in range(7):
        world.add(make_pod(f"more{number}"))
    assert world.metrics.plugins == [("G", "Success", 1.0)]
    world.fail(world.pop(), "P", "Q")
    world.happen(NODE_ADD)
    assert world.metrics.hints == [("P", "NodeAdd", SKIP, 1.0), ("Q", "NodeAdd", None, 1.0)]
    assert world.metrics.errors == {("Q", "NodeAdd"): 1}
    assert [problem[:3] for problem in world.problems] == [("Q", "hint", "a")]
    assert world.queue.statistics().hint_errors == 1


class TestViews:
    def test_views_show_what_pods_of_each_state_wait_for(self) -> None:
        world = World(
            SchedulingGatesDouble(), FilterDouble("P", [(NODE_ADD, QUEUE)]), FilterDouble("R")
        )
        world.rejected(make_pod("rejected", nominated="n1"), "R")
        world.add(make_pod("broken"))
        world.fail(world.pop())
        world.add(make_pod("retried", 3))
        info = world.pop()
        world.happen(NODE_ADD)
        world.fail(info, "P")
        world.add(make_pod("running", 9))
        world.pop()
        world.add(make_pod("second", 1), make_pod("first", 2), make_pod("gated", gates=["x"]))
        views = world.queue.views()
        assert [(view.name, view.place, view.position) for view in views] == [
            ("first", QueueState.ACTIVE, 0),
            ("second", QueueState.ACTIVE, 1),
            ("retried", QueueState.BACKOFF, 0),
            ("broken", QueueState.BACKOFF, 1),
            ("rejected", QueueState.UNSCHEDULABLE, None),
            ("gated", QueueState.GATED, None),
            ("running", QueueState.IN_FLIGHT, None),
        ]
        by_name = {view.name: view for view in views}
        assert {view.name: world.queue.view("default", view.name) for view in views} == {
            **by_name,
            # Alone, a pod of the error heap counts in its own heap.
            "broken": _replaced(by_name["broken"], position=0),
        }
        assert by_name["first"].next_retry_reason == "waiting for its turn"
        assert by_name["rejected"].nominated_node == "n1"
        assert (by_name["rejected"].next_retry, by_name["rejected"].next_retry_reason) == (
            1_300.0, "periodic flush",
        )  # fmt: skip
        retried = by_name["retried"]
        assert (retried.next_retry, retried.next_retry_reason) == (1_002.0, "backoff")
        assert (retried.last_event, retried.last_hint) == ("NodeAdd", "P")
        assert (retried.attempts, retried.unschedulable_plugins) == (1, ("P",))
        gated = by_name["gated"]
        assert (gated.gating_plugin, gated.next_retry) == ("SchedulingGates", None)
        assert "x" in gated.message
        assert world.queue.view("default", "unknown") is None

    def test_a_limit_holds_for_each_state_and_a_namespace_keeps_positions(self) -> None:
        world = World(SchedulingGatesDouble(), FilterDouble("R"))
        world.rejected(make_pod("rejected-1"), "R")
        world.rejected(make_pod("rejected-2"), "R")
        world.add(*(make_pod(name, gates=["x"]) for name in ("gated-1", "gated-2")))
        for number in range(3):
            world.add(make_pod(f"active-{number}", -number))
        other = make_pod("elsewhere", -1)
        other.metadata.namespace = "other"
        world.add(other)
        first = world.queue.views(limit=1)
        assert [(view.name, view.position) for view in first] == [
            ("active-0", 0), ("rejected-1", None), ("gated-1", None),
        ]  # fmt: skip
        assert world.queue.views(limit=100) == world.queue.views()
        elsewhere = world.queue.views(namespace="other", limit=5)
        assert [(view.name, view.position) for view in elsewhere] == [("elsewhere", 2)]
        assert world.queue.views(namespace="nowhere") == []

    def test_an_error_is_named_as_the_reason_to_back_off(self) -> None:
        world = World()
        world.add(make_pod("broken"))
        world.fail(world.pop())
        view = world.queue.view("default", "broken")
        assert view is not None
        assert (view.next_retry, view.next_retry_reason) == (1_002.0, "backoff after an error")

    def test_without_flush_there_is_no_next_retry(self) -> None:
        world = World(FilterDouble("P"), max_in_unschedulable=None)
        world.rejected(make_pod("a"), "P")
        view = world.queue.view("default", "a")
        assert view is not None
        assert (view.next_retry, view.next_retry_reason) == (None, "")


def _replaced(view: object, **changes: object) -> object:
    from dataclasses import replace

    return replace(view, **changes)  # type: ignore[type-var]


class TestValidate:
    def broken(self, world: World) -> list[str]:
        with pytest.raises(QueueInvariantError) as caught:
            world.queue.validate()
        return list(caught.value.violations)

    def test_a_pod_in_two_sub_queues_is_reported(self) -> None:
        world = World()
        world.add(make_pod("a"))
        info = world.pop()
        world.queue._sub_queues.to_unschedulable(info, "test")
        assert "pod default/a is in flight and in a sub-queue" in self.broken(world)
        world.queue.done(info.uid)
        world.queue._sub_queues.active.add(info)
        assert "a pod is in two sub-queues" in self.broken(world)

    def test_a_record_changed_without_the_queue_is_reported(self) -> None:
        world = World(FilterDouble("P"))
        info = world.rejected(make_pod("a"), "P")
        info.unschedulable_plugins = {"Q"}
        assert self.broken(world) == ["unschedulable pods: pod default/a changed without a new put"]

    def test_a_lost_pod_is_reported(self) -> None:
        world = World()
        world.add(make_pod("a"))
        world.queue._sub_queues.active.pop()
        assert self.broken(world) == [
            "the index of states differs from the sub-queues",
            "pod default/a is indexed under the name default/a",
        ]

    def test_kept_events_are_found(self) -> None:
        world = World(FilterDouble("P", [(NODE_ADD, QUEUE)]))
        world.add(make_pod("a"))
        info = world.pop()
        world.happen(NODE_ADD)
        world.queue._in_flight._pods.pop(info.uid)
        assert self.broken(world) == ["in flight: 1 events are kept for no pod"]
