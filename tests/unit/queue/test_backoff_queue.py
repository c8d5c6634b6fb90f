"""Backoff arithmetic, windows, and the two heaps."""

from __future__ import annotations

import math
from typing import get_args

import msgspec
import pytest

from scheduler.framework import QueuedPodInfo
from scheduler.queue.backoff_queue import NO_BACKOFF, BackoffPolicy, BackoffQueue
from tests.unit.queue.doubles import NODE_ADD, QUEUE, FilterDouble, World, make_pod, priority_sort


def record(name: str = "p", timestamp: float = 0.0, **fields: object) -> QueuedPodInfo:
    info = QueuedPodInfo(make_pod(name), timestamp)
    for key, value in fields.items():
        setattr(info, key, value)
    return info


@pytest.mark.parametrize(
    ("initial", "maximum", "count", "seconds"),
    [
        (1, 10, 0, 0),
        (1, 10, 1, 1),
        (1, 10, 2, 2),
        (1, 10, 4, 8),
        (1, 10, 5, 10),
        (1, 10, 500, 10),
        (1, 32, 16, 32),
        (3, 1000, 5, 48),
        (3, 2**31 - 1, 32, 2**31 - 1),
        (3, 2**63 - 1, 64, 2**63 - 1),
        (1, 0, 16, 0),
    ],
)
def test_backoff_doubles_up_to_its_maximum(
    initial: float, maximum: float, count: int, seconds: float
) -> None:
    assert BackoffPolicy(initial, maximum).duration(count) == seconds


def test_backoff_counts_consecutive_errors_if_there_are_any() -> None:
    policy = BackoffPolicy(1, 100_000)
    info = record(unschedulable_count=5, consecutive_errors_count=16)
    assert policy.expiry(info) == 2**15


def test_no_maximum_or_no_failure_means_no_backoff() -> None:
    assert BackoffPolicy(1, 0).expiry(record(unschedulable_count=3)) == NO_BACKOFF
    assert BackoffPolicy(1, 10).expiry(record()) == NO_BACKOFF


def test_a_stored_expiry_is_returned_as_it_is() -> None:
    info = record(unschedulable_count=1, backoff_expiration=77.0)
    assert BackoffPolicy(1, 10).expiry(info) == 77.0


@pytest.mark.parametrize(
    ("failed", "leaves"), [(10.0, 12.0), (10.7, 12.0), (10.99, 12.0), (11.0, 13.0)]
)
def test_backoff_ends_with_the_window_after_its_expiry(failed: float, leaves: float) -> None:
    policy = BackoffPolicy(1, 10)
    info = record(timestamp=failed, unschedulable_count=1)
    assert policy.release(policy.expiry(info)) == leaves
    assert policy.backing_off(info, math.nextafter(leaves, 0))
    assert not policy.backing_off(info, leaves)


def test_without_windows_backoff_ends_right_after_its_expiry() -> None:
    policy = BackoffPolicy(1, 10, aligned=False)
    info = record(timestamp=10.7, unschedulable_count=1)
    assert policy.backing_off(info, 11.7)
    assert not policy.backing_off(info, policy.release(policy.expiry(info)))


def waiting(aligned: bool) -> BackoffQueue:
    """Pods whose expiry lies in the windows 98, 99 (three), 100 and 101."""
    queue = BackoffQueue(BackoffPolicy(1, 10, aligned=aligned), priority_sort)
    for name, expiry, priority in (
        ("later", 101.0, 9),
        ("now", 100.0, 9),
        ("b", 99.7, 1),
        ("c", 99.2, 5),
        ("a", 99.5, 1),
        ("first", 98.9, 0),
    ):
        info = QueuedPodInfo(make_pod(name, priority), expiry - 1)
        info.unschedulable_count = 1
        info.unschedulable_plugins = {"P"}
        queue.add(info)
    return queue


def drain(queue: BackoffQueue, now: float) -> list[str]:
    names = []
    while (info := queue.next_completed(now)) is not None:
        queue.remove(info.uid)
        names.append(info.pod.metadata.name)
    return names


def test_a_flush_releases_whole_windows_in_the_order_of_the_active_queue() -> None:
    assert drain(waiting(aligned=True), 100.3) == ["first", "c", "a", "b"]


def test_without_windows_the_flush_goes_strictly_by_expiry() -> None:
    assert drain(waiting(aligned=False), 100.3) == ["first", "c", "a", "b", "now"]


def test_a_flush_empties_the_normal_heap_before_the_error_heap() -> None:
    queue = BackoffQueue(BackoffPolicy(1, 10), priority_sort)
    for name, expiry, plugins in (
        ("broken", 90.0, set()),
        ("broken-later", 110.0, set()),
        ("rejected", 95.0, {"P"}),
        ("rejected-later", 110.0, {"P"}),
    ):
        queue.add(
            record(
                name,
                unschedulable_count=1,
                backoff_expiration=expiry,
                unschedulable_plugins=plugins,
            )
        )
    assert drain(queue, 100.0) == ["rejected", "broken"]
    assert len(queue.errors) == 1
    assert queue.next_release() == 111.0


@pytest.mark.parametrize("pop_from_backoff", [True, False])
def test_seven_failures_back_off_longer_and_longer(pop_from_backoff: bool) -> None:
    world = World(FilterDouble("P", [(NODE_ADD, QUEUE)]), pop_from_backoff=pop_from_backoff)
    world.add(make_pod("p"))
    for attempt, backoff in enumerate([1, 2, 4, 8, 10, 10, 10], start=1):
        info = world.pop()
        assert info.attempts == attempt
        world.fail(info, "P")
        assert world.happen(NODE_ADD) == 1
        assert world.place("p") == "backoff"
        world.pass_time(backoff - 0.001)
        assert world.place("p") == "backoff"
        world.pass_time(1.001)
        assert world.place("p") == "active"


def test_an_event_during_backoff_leads_to_the_backoff_queue_and_after_it_to_active() -> None:
    world = World(FilterDouble("P", [(NODE_ADD, QUEUE)]))
    world.rejected(make_pod("early"), "P")
    world.rejected(make_pod("late"), "P")
    world.clock.step(1)
    world.happen(NODE_ADD, pre_check=lambda pod: pod.metadata.name == "early")
    assert world.places() == {"early": "backoff", "late": "unschedulable"}
    world.clock.step(1)
    world.happen(NODE_ADD)
    assert world.places() == {"early": "backoff", "late": "active"}


def with_every_kind(pop_from_backoff: bool) -> World:
    world = World(
        FilterDouble("P", [(NODE_ADD, QUEUE)]),
        pop_from_backoff=pop_from_backoff,
        max_backoff=1000.0,
    )
    high, broken = make_pod("high", 9), make_pod("broken", 10)
    world.add(high, broken, make_pod("rejected", 11))
    world.fail(world.pop(), "P")
    world.fail(world.pop())
    running = world.pop()
    world.happen(NODE_ADD, pre_check=lambda pod: pod.priority == 9)
    world.fail(running, "P")
    world.add(make_pod("mid", 5))
    assert world.places() == {
        "mid": "active", "high": "backoff", "broken": "backoff", "rejected": "unschedulable",
    }  # fmt: skip
    return world


def test_pop_takes_from_the_normal_backoff_heap_when_nothing_is_active() -> None:
    world = with_every_kind(pop_from_backoff=True)
    assert world.pop_names() == ["mid", "high"]
    assert world.metrics.incoming["active", "PopFromBackoffQ"] == 1


def test_pop_leaves_backoff_alone_when_the_gate_is_off() -> None:
    assert with_every_kind(pop_from_backoff=False).pop_names() == ["mid"]


DURATIONS = {"pause"}
"""Fields of seconds in a record that are no times of the wall clock."""


def test_every_time_of_a_record_is_shifted_with_the_wall_clock() -> None:
    numbers = {
        each.name
        for each in msgspec.structs.fields(QueuedPodInfo)
        if float in (each.type, *get_args(each.type))
    }
    times = numbers - DURATIONS
    assert "timestamp" in times
    info = record()
    for name in times:
        setattr(info, name, 1000.0)
    BackoffPolicy(1, 10).shift(info, 50.0)
    left = {name for name in times if getattr(info, name) != 1050.0}
    assert left == set(), "shift these in BackoffPolicy.shift (scheduler/queue/backoff_queue.py)"
