"""The order of pods while a namespace is deferred, and otherwise QueueSort's."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from scheduler.framework import QueuedPodInfo
from scheduler.queue import active_queue
from scheduler.queue.active_queue import ActiveQueue
from tests.unit.queue.doubles import World, make_pod, priority_sort

HOSTILE = "hostile"
COST = 0.25


def attempt(world: World, cost: float = COST) -> str:
    """Make one attempt at the next pod; those of the hostile namespace are slow and fail."""
    info = world.pop()
    if info.pod.metadata.namespace == HOSTILE:
        world.clock.step(cost)
        world.queue.charge(HOSTILE, cost)
    world.queue.done(info.uid)
    return info.pod.metadata.name


def crowd(world: World, count: int, priority: int = 0) -> None:
    for number in range(count):
        world.add(make_pod(f"hostile{number}", priority, namespace=HOSTILE))


def test_an_ordinary_pod_behind_a_hundred_hostile_ones_is_tried_within_a_second() -> None:
    for cost in (0.02, 0.1, 0.25, 0.5):
        world = World(cycle_budget=0.5)
        crowd(world, 100)
        world.add(make_pod("ordinary"))
        came = world.clock.mono
        while attempt(world, cost) != "ordinary":
            pass
        assert world.clock.mono - came < 1.0, cost


def test_priority_does_not_help_an_expensive_pod_past_other_namespaces() -> None:
    world = World(cycle_budget=0.5)
    crowd(world, 100, priority=1_000)
    world.add(make_pod("ordinary"))
    assert "ordinary" in [attempt(world) for _ in range(4)]


def test_the_hostile_namespace_is_tried_when_no_other_pod_waits() -> None:
    world = World(cycle_budget=0.5)
    crowd(world, 20)
    names = [attempt(world) for _ in range(20)]
    assert names == [f"hostile{number}" for number in range(20)]
    assert world.queue.pop() is None


def test_an_endless_stream_of_other_pods_does_not_starve_it() -> None:
    world = World(cycle_budget=0.5)
    crowd(world, 100)
    waits: list[float] = []
    last = world.clock.mono
    for number in range(300):
        world.queue.add(make_pod(f"ordinary{number}"))
        world.clock.step(0.1)
        if attempt(world).startswith(HOSTILE):
            waits.append(world.clock.mono - last)
            last = world.clock.mono
    # 30 s and more: after the first few, one attempt of 0.25 s for every 2.4 s.
    assert len(waits) > 10
    assert max(waits) < 3.0


def test_views_show_which_pods_are_deferred() -> None:
    world = World(cycle_budget=0.5)
    crowd(world, 5)
    world.add(make_pod("ordinary"))
    for _ in range(2):
        attempt(world)
    views = [view for view in world.queue.views() if view.place == "active"]
    assert [view.name for view in views] == ["ordinary", "hostile2", "hostile3", "hostile4"]
    assert [view.next_retry_reason for view in views[:2]] == [
        "waiting for its turn",
        "waiting behind other namespaces: pods of this one used much CPU time lately",
    ]
    assert [world.queue.view(view.namespace, view.name).position for view in views] == [0, 1, 2, 3]  # type: ignore[union-attr]
    assert world.queue.statistics().deferred_namespaces == (HOSTILE,)


def test_many_pods_are_set_aside_in_several_pops(monkeypatch: Any) -> None:
    monkeypatch.setattr(active_queue, "MAX_MOVES", 10)
    world = World(cycle_budget=0.5)
    crowd(world, 35)
    world.add(make_pod("ordinary"))
    for _ in range(2):
        attempt(world)
    calls: list[None] = []
    world.queue.signals.on_ready.subscribe(lambda: calls.append(None))
    while (info := world.queue.pop()) is None:
        world.queue.validate()
        assert calls, "the loop would sleep"
    assert info.pod.metadata.name == "ordinary"
    assert len(calls) == 3


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 3), st.sampled_from("abc")),
        min_size=1,
        max_size=30,
    ),
    st.lists(st.sets(st.sampled_from("abc")), min_size=1, max_size=8),
    st.data(),
)
def test_the_order_is_that_of_queue_sort_within_both_lanes(
    pods: list[tuple[int, int, str]], deferrals: list[set[str]], data: st.DataObject
) -> None:
    """Whatever was deferred before, each pop returns the first pod by the present deferrals."""
    over: set[str] = set()
    queue = ActiveQueue(priority_sort, lambda: over)
    expected: list[QueuedPodInfo] = []
    for number, (priority, timestamp, namespace) in enumerate(pods):
        info = QueuedPodInfo(make_pod(f"p{number}", priority, namespace=namespace), timestamp)
        queue.add(info)
        expected.append(info)
        if data.draw(st.integers(0, 3)) == 0:
            over = data.draw(st.sampled_from(deferrals))
            _pop(queue, expected, over)
    while expected:
        over = data.draw(st.sampled_from(deferrals))
        if data.draw(st.booleans()):
            gone = data.draw(st.sampled_from(expected))
            expected.remove(gone)
            assert queue.remove(gone.uid) is gone
        elif data.draw(st.booleans()):
            moved = data.draw(st.sampled_from(expected))
            moved.pod.spec.priority = data.draw(st.integers(0, 3))
            queue.add(moved)
        else:
            _pop(queue, expected, over)
        assert queue.violations() == []
        assert len(queue) == len(expected)
        in_order = _order(expected, over)
        assert queue.ordered() == in_order
        assert [queue.rank(info.uid) for info in in_order] == list(range(len(expected)))


def _order(pods: list[QueuedPodInfo], over: set[str]) -> list[QueuedPodInfo]:
    # Sorting is stable, as the queue is: first in, first out among equals.
    return sorted(pods, key=lambda i: (i.pod.metadata.namespace in over, priority_sort(i)))


def _pop(queue: ActiveQueue, expected: list[QueuedPodInfo], over: set[str]) -> None:
    first = _order(expected, over)[0] if expected else None
    assert queue.pop() is first
    if first is not None:
        expected.remove(first)


def test_sort_keys_that_cannot_be_compared_lose_no_pod() -> None:
    over = {"a"}
    keys: dict[str, Any] = {"a1": "x", "a2": "y", "b": "z", "c": 5}
    queue = ActiveQueue(lambda info: keys[info.pod.metadata.name], lambda: over)
    pods = {name: make_pod(name, namespace=name[0]) for name in keys}
    for name in ("a1", "a2", "b"):
        queue.add(QueuedPodInfo(pods[name], 0.0))
    assert _popped(queue) == "b"
    queue.add(QueuedPodInfo(pods["c"], 0.0))
    over = set()
    assert [_popped(queue) for _ in range(3)] == ["c", "a1", "a2"]
    assert len(queue) == 0


def _popped(queue: ActiveQueue) -> str:
    info = queue.pop()
    assert info is not None
    return info.pod.metadata.name
