"""Early retries are suppressed for pods of a signature that was just rejected."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from scheduler.api import Pod, PodSignatures
from scheduler.api.pod import PodSpec
from scheduler.framework.queued import PostFilterOutcome, QueuedPodInfo
from scheduler.queue.retry_suppressor import ROUND_SECONDS, pod_signature
from tests.unit.queue.doubles import (
    NODE_ADD,
    NODE_LABEL,
    QUEUE,
    SKIP,
    FilterDouble,
    World,
    make_pod,
)

SIGNATURE = object()


def world_of(*names: str, signature: Any = SIGNATURE, event: Any = QUEUE) -> World:
    """Return pods of one signature that were rejected once, in backoff after an event."""
    world = World(FilterDouble("P", [(NODE_ADD, event), (NODE_LABEL, SKIP)]))
    for name in names:
        world.rejected(make_pod(name, signature=signature), "P")
    world.happen(NODE_ADD)
    world.pass_time(ROUND_SECONDS)
    return world


def try_early(world: World) -> list[str]:
    """Pop until nothing is left; every attempt is rejected."""
    tried = []
    while (info := world.queue.pop()) is not None:
        tried.append(info.pod.metadata.name)
        world.fail(info, "P")
        world.queue.validate()
    return tried


def test_one_pod_of_a_signature_is_tried_and_the_others_wait_out_their_backoff() -> None:
    world = world_of("a", "b", "c")
    assert try_early(world) == ["a"]
    assert world.places() == {"a": "unschedulable", "b": "backoff", "c": "backoff"}
    world.pass_time(2.0)
    assert world.pop_names() == ["b", "c"]


@pytest.mark.parametrize("event", [NODE_ADD, NODE_LABEL])
def test_with_the_next_registered_event_one_more_is_tried(event: Any) -> None:
    world = world_of("a", "b", "c", "d")
    assert try_early(world) == ["a"]
    world.happen(event)
    assert try_early(world)[:1] == ["b"]


def test_while_events_keep_coming_one_of_a_signature_is_tried_each_round() -> None:
    world = world_of(*"abcdef")
    assert try_early(world) == ["a"]
    tried = []
    for _ in range(10):
        world.happen(NODE_LABEL)
        tried.append(try_early(world))
        world.pass_time(ROUND_SECONDS * 0.3)
    # At once, and then every fourth time: events in between take effect in the next round.
    assert [len(names) for names in tried] == [1, 0, 0, 0, 1, 0, 0, 0, 1, 0]
    assert {name for names in tried for name in names} == {"b", "c", "d"}


def test_the_last_event_of_a_storm_takes_effect_when_the_round_is_due() -> None:
    world = world_of("a", "b", "c")
    assert try_early(world) == ["a"]
    world.happen(NODE_LABEL)
    assert try_early(world) == ["b"]
    world.queue.next_wakeup()
    timers: list[bool] = []
    world.queue.signals.on_timer.subscribe(lambda: timers.append(True))
    world.happen(NODE_LABEL)
    assert timers == [True]
    assert world.queue.next_wakeup() == world.clock.now() + ROUND_SECONDS
    world.pass_time(ROUND_SECONDS)
    assert try_early(world) == ["c"]


def test_a_round_schedules_all_pods_that_fit() -> None:
    world = world_of("a", "b", "c", "d")
    assert try_early(world) == ["a"]
    world.happen(NODE_LABEL)
    assert try_early(world) == ["b"]
    world.happen(NODE_LABEL)
    world.pass_time(ROUND_SECONDS)
    assert sorted(world.pop_names()) == ["c", "d"]


def test_if_the_first_is_scheduled_the_next_is_tried_at_once() -> None:
    world = world_of("a", "b", "c")
    assert try_early(world) == ["a"]
    world.happen(NODE_LABEL)
    assert world.pop_names() == ["b", "c"]


def test_pods_of_other_signatures_or_labels_or_not_interned_are_tried() -> None:
    world = world_of("a", "b")
    for name, pod in {
        "other": make_pod("other", signature=object()),
        "labelled": make_pod("labelled", signature=SIGNATURE, labels={"x": "1"}),
        "raw": make_pod("raw"),
        "raw-too": make_pod("raw-too"),
    }.items():
        assert name == pod.metadata.name
        world.rejected(pod, "P")
    world.happen(NODE_ADD)
    assert sorted(try_early(world)) == ["a", "labelled", "other", "raw", "raw-too"]


@pytest.mark.parametrize(
    "wake",
    [
        lambda world: world.queue.wake(["uid-a"], "P", "Quota"),
        lambda world: world.queue.recheck(["uid-a"]),
        lambda world: world.queue.tick_time_hints(),
        lambda world: world.queue.activate([]),
    ],
)
def test_a_request_for_another_attempt_ends_the_suppression(wake: Callable[[World], Any]) -> None:
    world = world_of("a", "b")
    assert try_early(world) == ["a"]
    wake(world)
    assert "b" in try_early(world)


def test_an_event_during_the_attempt_counts_as_later() -> None:
    world = world_of("a", "b")
    info = world.pop()
    world.happen(NODE_LABEL)
    world.fail(info, "P")
    assert try_early(world) == ["b"]


def test_a_pod_that_waits_for_its_victims_suppresses_no_other() -> None:
    world = world_of("a", "b")
    info = world.pop()
    info.post_filter = PostFilterOutcome.NOMINATED
    world.fail(info, "P")
    assert try_early(world) == ["b"]


def test_an_attempt_that_ended_in_an_error_suppresses_no_other() -> None:
    world = world_of("a", "b")
    world.fail(world.pop())
    assert try_early(world) == ["b"]


def test_a_suppressed_pod_may_change_or_be_deleted() -> None:
    world = world_of("a", "b", "c")
    assert try_early(world) == ["a"]
    b, c = world.pods["default/b"], world.pods["default/c"]
    world.delete(c)
    world.update(b, make_pod("b", signature=object()))
    assert try_early(world) == ["b"]


def test_the_loop_is_woken_when_a_suppressed_pod_may_be_tried() -> None:
    world = world_of("a", "b")
    woken: list[bool] = []
    world.queue.signals.on_ready.subscribe(lambda: woken.append(True))
    assert try_early(world) == ["a"]
    assert woken == []
    world.happen(NODE_LABEL)
    assert woken == [True]


def test_suppressed_signatures_do_not_keep_signature_objects_alive() -> None:
    subject = Pod(spec=PodSpec(scheduler_name="kubestow"))
    signature = PodSignatures().intern(subject)
    alike = pod_signature(QueuedPodInfo(subject, timestamp=0.0))
    assert alike is not None
    assert signature not in flattened(alike)


def flattened(value: object) -> list[object]:
    """Return all elements of nested tuples."""
    return [x for each in value for x in flattened(each)] if isinstance(value, tuple) else [value]
