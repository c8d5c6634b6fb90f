"""Pauses of pods whose cycle used up its budget: their length, and what ends them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler.api.pod import Toleration
from scheduler.framework import QueuedPodInfo
from tests.unit.queue.doubles import NODE_ADD, QUEUE, FilterDouble, World, make_pod


def paused(world: World, seconds: float, *plugins: str) -> QueuedPodInfo:
    """Return a pod whose attempt ended with a pause."""
    world.add(make_pod("p"))
    info = world.pop()
    info.pause = seconds
    world.fail(info, *plugins)
    return info


@pytest.mark.parametrize("options", [{}, {"max_backoff": 0.0}, {"pop_from_backoff": False}])
def test_the_pod_waits_for_the_whole_pause_beyond_the_longest_backoff(
    options: dict[str, Any],
) -> None:
    world = World(**options)
    paused(world, 120.0)
    wakeup = world.queue.next_wakeup()
    assert wakeup is not None
    assert wakeup > world.clock.now() + 120.0 - 1e-6
    world.pass_time(119.9)
    assert world.queue.pop() is None
    world.pass_time(1.2)
    assert world.pop_names() == ["p"]


def test_an_event_does_not_end_the_pause() -> None:
    world = World(FilterDouble("F", [(NODE_ADD, QUEUE)]))
    paused(world, 120.0)
    world.happen(NODE_ADD)
    assert world.place("p") == "backoff"
    assert world.queue.pop() is None


def test_views_show_why_the_pod_waits() -> None:
    world = World()
    paused(world, 120.0)
    view = world.queue.view("default", "p")
    assert view is not None
    assert view.next_retry is not None
    assert view.next_retry >= world.clock.now() + 120.0
    assert view.next_retry_reason == "pause after a scheduling cycle that used too much CPU time"


def test_another_spec_ends_the_pause_and_another_label_does_not() -> None:
    world = World()
    paused(world, 120.0)
    old = world.pods["default/p"]
    labelled = make_pod("p", labels={"a": "b"})
    world.update(old, labelled)
    world.pass_time(30.0)
    assert world.place("p") == "backoff"
    assert world.queue.next_wakeup() is not None
    timer_calls: list[None] = []
    world.queue.signals.on_timer.subscribe(lambda: timer_calls.append(None))
    spec = msgspec.structs.replace(labelled.spec, tolerations=(Toleration(key="k"),))
    world.update(labelled, msgspec.structs.replace(labelled, spec=spec))
    assert timer_calls, "the loop would sleep until the pause had ended"
    world.queue.run_due()
    assert world.pop_names() == ["p"]


def test_the_next_attempt_without_a_pause_has_the_ordinary_backoff() -> None:
    world = World()
    info = paused(world, 120.0)
    world.pass_time(122.0)
    assert world.pop() is info
    info.pause = 0.0
    world.fail(info)
    world.pass_time(4.0)
    assert world.pop_names() == ["p"]
