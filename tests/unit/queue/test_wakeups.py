"""Work for many pods is done in time slices, and no pod is missed between two of them."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.api.pod import Pod
from scheduler.framework import QueueingHint, unresolvable
from scheduler.queue import wakeups
from tests.unit.queue.doubles import (
    NODE_ADD,
    QUEUE,
    SKIP,
    FilterDouble,
    GateDouble,
    World,
    make_pod,
)

SLICE = 0.005


class Slow(FilterDouble):
    """A filter whose hint takes a millisecond of the world's clock."""

    def __init__(self, result: QueueingHint = QUEUE) -> None:
        def hint(pod: Pod, old: Any, new: Any) -> QueueingHint:
            self.world.clock.step(0.001)
            return result

        super().__init__("Slow", [(NODE_ADD, hint)])
        self.world = World(self, slice_seconds=SLICE, cycle_budget=0.5)

    def waiting(self, count: int, *, namespace: str = "default", name: str = "p") -> None:
        """Add rejected pods, each a group of its own."""
        queue = self.world.queue
        for number in range(count):
            pod = make_pod(f"{name}{number}", namespace=namespace)
            self.world.pods[pod.key] = pod
            queue.add(pod)
            info = queue.pop()
            assert info is not None
            info.unschedulable_plugins = {self.name}
            queue.add_unschedulable_if_not_present(info)
        queue.validate()


@pytest.fixture
def slow() -> Slow:
    return Slow()


def turns(world: World) -> list[int]:
    """Run due work until none is left; return the backlog after each `run_due`."""
    found = []
    while world.queue.statistics().wakeups_left:
        wakeup = world.queue.next_wakeup()
        assert wakeup is not None
        assert wakeup <= world.clock.now()
        world.queue.run_due()
        world.queue.validate()
        found.append(world.queue.statistics().wakeups_left)
    return found


def test_one_event_evaluates_hints_for_a_time_slice_and_the_rest_later(slow: Slow) -> None:
    slow.waiting(200)
    before = slow.world.clock.mono
    slow.world.happen(NODE_ADD)
    assert slow.world.clock.mono - before < 4 * SLICE
    assert len(slow.calls) == 16
    assert turns(slow.world)[-1] == 0
    assert sorted({name for name, *_ in slow.calls}) == sorted(f"p{n}" for n in range(200))
    assert len(slow.calls) == 200
    assert slow.world.queue.statistics().backoff == 200


def test_on_timer_is_called_for_postponed_work(slow: Slow) -> None:
    slow.waiting(100)
    slow.world.queue.run_due()
    assert slow.world.queue.next_wakeup() is not None
    timer_calls: list[None] = []
    slow.world.queue.signals.on_timer.subscribe(lambda: timer_calls.append(None))
    slow.world.happen(NODE_ADD)
    assert timer_calls


def test_further_events_are_postponed_and_evaluated_together_for_a_group(slow: Slow) -> None:
    slow.waiting(100)
    for _ in range(4):
        slow.world.happen(NODE_ADD)
    assert len(slow.calls) == 16
    turns(slow.world)
    assert slow.world.queue.statistics().backoff == 100


def test_a_storm_of_events_costs_no_more_than_the_bound() -> None:
    slow = Slow(SKIP)
    slow.waiting(100)
    for _ in range(1_000):
        slow.world.queue.move_all_to_active_or_backoff(NODE_ADD, None, None)
    # Hints ran for 16 pods at the first event; the other groups got more than MAX_EVENTS.
    assert len(slow.calls) == 16
    turns(slow.world)
    assert len(slow.calls) == 16
    assert slow.world.queue.statistics().backoff == 100


def test_an_update_of_a_pod_of_a_postponed_group_moves_it(slow: Slow) -> None:
    slow.waiting(100)
    slow.world.happen(NODE_ADD)
    assert slow.world.place("p99") == "unschedulable"
    old = slow.world.pods["default/p99"]
    slow.world.update(old, make_pod("p99", labels={"new": "label"}))
    assert slow.world.place("p99") == "backoff"


def test_a_pod_that_is_deleted_meanwhile_is_not_missed(slow: Slow) -> None:
    slow.waiting(100)
    slow.world.happen(NODE_ADD)
    slow.world.delete(slow.world.pods["default/p99"])
    turns(slow.world)
    assert len(slow.world.queue) == 99


def test_groups_of_deferred_namespaces_come_last_and_are_charged_for_their_hints(
    slow: Slow,
) -> None:
    slow.waiting(20)
    slow.waiting(300, namespace="hostile", name="h")
    slow.world.queue.charge("hostile", 0.6)
    slow.waiting(20, name="q")
    slow.world.happen(NODE_ADD)
    slow.calls.clear()
    turns(slow.world)
    names = [name[0] for name, *_ in slow.calls]
    assert names == ["p"] * 4 + ["q"] * 20 + ["h"] * 300


def test_many_members_of_one_group_move_in_time_slices() -> None:
    filter_ = FilterDouble("F", [(NODE_ADD, QUEUE)], per_signature=True)
    world = World(filter_, slice_seconds=SLICE)
    queue = world.queue
    for number in range(200):
        queue.add(make_pod(f"p{number}", signature="one"))
        info = queue.pop()
        assert info is not None
        info.unschedulable_plugins = {"F"}
        queue.add_unschedulable_if_not_present(info)
    tick = world.clock.monotonic

    def ticking() -> float:
        world.clock.step(0.001)
        return tick()

    queue._wakeups.monotonic = ticking
    moved = queue.move_all_to_active_or_backoff(NODE_ADD, None, None)
    assert 0 < moved < 200
    turns(world)
    assert queue.statistics().backoff == 200
    assert len(filter_.calls) == 1


def test_completed_backoffs_are_flushed_in_time_slices() -> None:
    world = World(slice_seconds=0.0)
    for number in range(100):
        world.queue.add(make_pod(f"p{number}"))
        info = world.queue.pop()
        assert info is not None
        world.queue.add_unschedulable_if_not_present(info)
    world.clock.step(5.0)
    world.queue.run_due()
    assert world.queue.statistics().active == 16
    while (wakeup := world.queue.next_wakeup()) is not None and wakeup <= world.clock.now():
        world.queue.run_due()
    assert world.queue.statistics().active == 100


def test_left_over_pods_are_flushed_in_time_slices_and_flagged() -> None:
    world = World(FilterDouble("F"), slice_seconds=0.0)
    for number in range(100):
        world.queue.add(make_pod(f"p{number}"))
        info = world.queue.pop()
        assert info is not None
        info.unschedulable_plugins = {"F"}
        world.queue.add_unschedulable_if_not_present(info)
    world.clock.step(400.0)
    world.queue.run_due()
    assert world.queue.statistics().active == 16
    turns(world)
    assert world.queue.statistics().active == 100
    assert all(view.last_event == "UnschedulableTimeout" for view in world.queue.views())


def test_postponed_groups_without_pods_are_dropped(
    monkeypatch: pytest.MonkeyPatch, slow: Slow
) -> None:
    monkeypatch.setattr(wakeups, "PRUNE_FROM", 10)
    for turn in range(20):
        slow.waiting(40, name=f"t{turn}-")
        slow.world.happen(NODE_ADD)
        for pod in list(slow.world.pods.values()):
            slow.world.pods.pop(pod.key)
            slow.world.queue.delete(pod)
    # No due work was run, as in a standby replica.
    assert slow.world.queue.statistics().wakeups_left < 1_200


def by_prefix(pod: Pod) -> str | None:
    """Put pods `a-1`, `a-2`, ... into a group `a`."""
    group, dash, _ = pod.metadata.name.partition("-")
    return group if dash else None


def held(count: int = 100) -> tuple[World, GateDouble, list[str]]:
    """Return a world with a gated group and slices of 16 checks, and the names of its members."""
    gate = GateDouble("G")
    world = World(gate, slice_seconds=0.0)
    world.queue.recognize_groups(by_prefix, None)
    names = [f"big-{number}" for number in range(count)]
    gate.closed = dict.fromkeys(names, unresolvable("closed"))
    for name in names:
        world.queue.add(make_pod(name))
    gate.closed = {}
    gate.runs.clear()
    return world, gate, names


def test_groups_are_not_popped_before_all_their_members_were_rechecked() -> None:
    world, gate, names = held()
    world.queue.recheck(f"uid-{name}" for name in names)
    assert 0 < len(gate.runs) < 100
    assert world.queue.pop() is None, "a part of a group would seem to be all of it"
    world.queue.validate()
    while len(gate.runs) < 100:
        assert world.queue.pop() is None
        world.queue.run_due()
    first = world.queue.pop()
    assert first is not None
    assert first.pod.metadata.name == "big-0", "the order does not change"


def test_a_deleted_member_does_not_hold_its_group_for_ever() -> None:
    world, _, names = held(20)
    world.queue.recheck(f"uid-{name}" for name in names)
    assert world.queue.pop() is None
    for name in names[16:]:
        world.queue.delete(make_pod(name))
    assert world.queue.pop() is not None


def test_members_of_a_held_group_are_not_popped_from_backoff() -> None:
    world, _, names = held()
    world.queue.add(make_pod("big-again"))
    info = world.queue.pop()
    assert info is not None
    world.queue.add_unschedulable_if_not_present(info)
    assert world.queue.statistics().backoff == 1
    world.queue.recheck(f"uid-{name}" for name in names)
    assert world.queue.pop() is None


def test_who_rechecks_a_group_again_and_again_delays_no_other_pod() -> None:
    world, _, names = held(1_000)
    queue = world.queue
    uids = [f"uid-{name}" for name in names]
    queue.recheck(uids)
    for number in range(50):
        queue.add(make_pod(f"single{number}"))
        queue.add(make_pod(f"other{number}-0"))
        popped = {each.pod.metadata.name for each in (queue.pop(), queue.pop()) if each is not None}
        assert popped == {f"single{number}", f"other{number}-0"}
        queue.run_due()
        queue.recheck(uids)
        queue.validate()


def test_rechecks_do_not_delay_the_pods_that_an_event_helps(slow: Slow) -> None:
    slow.waiting(40)
    queue, endless = slow.world.queue, [f"uid-p{number}" for number in range(40)]
    slow.world.happen(NODE_ADD)
    for _ in range(10):
        queue.recheck(endless)
        queue.run_due()
    assert {name for name, *_ in slow.calls} == {f"p{number}" for number in range(40)}


def test_rechecks_run_in_time_slices() -> None:
    gate = GateDouble("G")
    world = World(gate, slice_seconds=0.0)
    queue, names = world.queue, [f"p{number}" for number in range(100)]
    gate.closed = dict.fromkeys(names, unresolvable("closed"))
    for name in names:
        queue.add(make_pod(name))
    queue.add(make_pod("open"))
    gate.closed.clear()
    gate.runs.clear()
    uids = [f"uid-{name}" for name in names]
    queue.recheck(uids)
    queue.recheck(uids[50:])
    assert 0 < len(gate.runs) < 100
    queue.delete(make_pod("p99"))
    left = turns(world)
    assert len(left) > 2
    assert sorted(set(gate.runs)) == sorted(names[:99])
    assert len(gate.runs) < 2 * len(names)
    assert queue.statistics().active == 100
    assert queue.pop() is not None


def test_rechecks_may_gate_in_time_slices() -> None:
    gate = GateDouble("G")
    world = World(gate, slice_seconds=0.0)
    names = [f"p{number}" for number in range(100)]
    for name in names:
        world.queue.add(make_pod(name))
    gate.closed = dict.fromkeys(names, unresolvable("closed"))
    world.queue.recheck(f"uid-{name}" for name in names)
    assert 0 < world.queue.statistics().active < 100
    turns(world)
    assert world.queue.statistics().active == 0
    assert world.queue.pop() is None
