"""Replacing the plugins of profiles: what happens to the pods in each part of the queue.

`test_machine` replaces plugins at random; here each consequence stands alone.
"""

from __future__ import annotations

import math

from scheduler.framework import QueuedPodInfo, unresolvable
from tests.unit.queue.doubles import (
    NODE_ADD,
    PROFILE,
    SKIP,
    FilterDouble,
    GateDouble,
    World,
    make_pod,
)

REPLACED = "ProfilesReplaced"


def test_unschedulable_pod_of_a_changed_profile_is_retried_after_its_backoff() -> None:
    world = World(FilterDouble("F", [(NODE_ADD, SKIP)]))
    world.rejected(make_pod("waiting"), "F")
    world.replace({PROFILE: (FilterDouble("F", [(NODE_ADD, SKIP)]),)}, {PROFILE})
    assert world.place("waiting") == "backoff"
    view = world.queue.view("default", "waiting")
    assert view is not None
    assert (view.last_event, view.attempts) == (REPLACED, 1)


def test_pod_of_an_unchanged_profile_stays_and_its_hints_still_work() -> None:
    kept, other = FilterDouble("F", [(NODE_ADD, SKIP)]), FilterDouble("G")
    world = World(profiles={"kept": (kept,), "other": (other,)})
    world.rejected(make_pod("waiting", profile="kept"), "F")
    world.replace({"kept": (kept,), "other": (FilterDouble("G"),)}, {"other"})
    assert world.place("waiting") == "unschedulable"
    world.happen(NODE_ADD)
    assert [name for name, _, _ in kept.calls] == ["waiting"]


def test_gated_pod_enters_when_its_gate_is_removed() -> None:
    gate = GateDouble("G")
    gate.closed["held"] = unresolvable("no")
    world = World(gate)
    world.add(make_pod("held"))
    assert world.place("held") == "gated"
    world.replace({PROFILE: ()}, {PROFILE})
    assert world.place("held") == "active"


def test_active_pod_that_a_new_gate_rejects_is_not_popped() -> None:
    world = World()
    world.add(make_pod("first", 2), make_pod("held", 1), make_pod("last"))
    gate = GateDouble("G")
    gate.closed["held"] = unresolvable("no")
    world.replace({PROFILE: (gate,)}, {PROFILE})
    assert world.pop_names() == ["first", "last"]
    assert world.place("held") == "gated"


def test_active_pod_runs_a_new_gate_once() -> None:
    world = World()
    world.add(make_pod("one"))
    gate = GateDouble("G")
    world.replace({PROFILE: (gate,)}, {PROFILE})
    info = world.pop()
    world.queue.done(info.uid)
    world.add(info.pod)
    assert gate.runs == ["one", "one"]


def test_pops_between_many_pods_that_a_new_gate_holds_are_limited_by_the_time_slice() -> None:
    world = World(slice_seconds=0.0)
    gate = GateDouble("G")
    for number in range(40):
        world.add(make_pod(f"p{number}"))
        gate.closed[f"p{number}"] = unresolvable("no")
    ready: list[int] = []
    world.queue.signals.on_ready.subscribe(lambda: ready.append(1))
    world.replace({PROFILE: (gate,)}, {PROFILE})
    assert world.queue.pop() is None
    assert 0 < world.queue.statistics().active < 40
    assert ready == [1]
    for _ in range(10):
        assert world.queue.pop() is None
    assert world.queue.statistics().gated == 40


def test_pod_in_flight_that_is_rejected_is_retried_at_once_after_backoff() -> None:
    world = World(FilterDouble("Old", [(NODE_ADD, SKIP)]))
    world.add(make_pod("flying"))
    info = world.pop()
    world.replace({PROFILE: (FilterDouble("New", [(NODE_ADD, SKIP)]),)}, {PROFILE})
    assert world.fail(info, "Old") == "backoff"


def test_pods_without_a_profile_are_forgotten_and_returned() -> None:
    world = World(profiles={"kept": (), "gone": ()})
    world.add(make_pod("mine", profile="kept"), make_pod("theirs", profile="gone"))
    assert world.replace({"kept": ()}, ()) == ["theirs"]
    assert world.pop_names() == ["mine"]


def test_another_sort_key_orders_pods_that_are_queued_already() -> None:
    world = World()
    world.add(make_pod("a", 1), make_pod("b", 2), make_pod("c", 3))
    world.replace({PROFILE: ()}, {PROFILE}, lambda info: info.key)
    assert world.pop_names() == ["a", "b", "c"]


def test_pods_in_backoff_are_retried_early_in_the_order_of_another_sort_key() -> None:
    world = World(FilterDouble("F"))
    for name, priority in (("a", 1), ("b", 2), ("c", 3)):
        world.rejected(make_pod(name, priority), "F")
    world.replace({PROFILE: ()}, {PROFILE})
    assert [world.place(name) for name in "abc"] == ["backoff"] * 3
    world.replace({PROFILE: ()}, {PROFILE}, lambda info: info.key)
    world.queue.validate()
    assert world.pop_names() == ["a", "b", "c"]


def test_one_pod_that_a_new_sort_key_cannot_sort_keeps_no_other_from_its_place() -> None:
    def broken(info: QueuedPodInfo) -> object:
        if info.pod.metadata.name == "b":
            raise RuntimeError("no key")
        return info.key

    world = World()
    world.add(make_pod("a", 1), make_pod("b", 2), make_pod("c", 3))
    world.replace({PROFILE: ()}, {PROFILE}, broken)
    world.queue.validate()
    assert world.place("b") == "gated"
    assert world.pop_names() == ["a", "c"]


def test_pod_that_a_new_sort_key_cannot_sort_is_gated_and_not_lost() -> None:
    def broken(info: object) -> object:
        raise RuntimeError("no key")

    world = World()
    world.add(make_pod("a"))
    world.replace({PROFILE: ()}, {PROFILE}, broken)
    assert world.place("a") == "gated"


def test_retried_pods_are_moved_in_slices() -> None:
    world = World(FilterDouble("F"), slice_seconds=0.0, max_backoff=0.0)
    for number in range(60):
        world.rejected(make_pod(f"p{number}", signature=f"signature {number}"), "F")
    world.replace({PROFILE: (FilterDouble("F"),)}, {PROFILE})
    assert world.queue.statistics().wakeups_left == 60
    for _ in range(100):
        world.queue.run_due()
    assert world.queue.statistics().active == 60


def test_postponed_events_do_not_return_a_pod_to_a_retired_group() -> None:
    """A gate that still holds the pod afterwards must find it by the new registrations."""
    gate = GateDouble("G", [(NODE_ADD, SKIP)])
    gate.closed["held"] = unresolvable("no")
    world = World(gate, slice_seconds=0.0)
    world.add(make_pod("held", signature="one"))
    following = GateDouble("G", [(NODE_ADD, lambda pod, old, new: None)])
    following.closed["held"] = unresolvable("still no")
    world.replace({PROFILE: (following,)}, {PROFILE})
    world.queue.run_due()
    assert world.place("held") == "gated"
    world.queue.validate()
    following.closed.clear()
    world.happen(NODE_ADD)
    world.queue.run_due()
    assert world.place("held") == "active"


def test_everything_is_moved_at_once_without_a_time_slice() -> None:
    world = World(FilterDouble("F"), slice_seconds=math.inf, max_backoff=0.0)
    world.rejected(make_pod("a"), "F")
    world.replace({PROFILE: (FilterDouble("F"),)}, {PROFILE})
    assert world.place("a") == "active"
