"""NotBefore holds a pod until its time, and the queue wakes the pod at that moment."""

from __future__ import annotations

import datetime as dt
from types import SimpleNamespace
from typing import Any, cast

import pytest

from examples.gate_until.not_before import NotBefore, NotBeforeArgs, parse_time
from scheduler.api import Pod
from scheduler.framework import Handle
from scheduler.queue import SchedulingQueue, build_hint_map
from scheduler.testing import PluginCase, check_plugin_contract
from tests.unit.plugins.clusters import Cluster
from tests.unit.queue.doubles import PROFILE, FakeClock, make_pod, priority_sort

KEY = "example.com/not-before"
NOON = "2030-01-31T12:00:00Z"
EPOCH = dt.datetime(2030, 1, 31, 12, tzinfo=dt.UTC).timestamp()


class Recorder:
    """Stands for `Handle.events`."""

    def __init__(self) -> None:
        self.notes: list[tuple[str, str]] = []

    def record(self, regarding: Pod, type: str, reason: str, action: str, note: str) -> None:  # noqa: A002
        self.notes.append((reason, note))


class World:
    """The plugin in a queue, and a clock that stands still."""

    def __init__(self, seconds_to_noon: float = 3600.0) -> None:
        self.clock = FakeClock(EPOCH - seconds_to_noon)
        self.events = Recorder()
        handle = cast("Handle", SimpleNamespace(clock=self.clock, events=self.events))
        self.plugin = NotBefore(NotBeforeArgs(), handle)
        self.queue = SchedulingQueue(
            self.clock,
            priority_sort,
            {PROFILE: (self.plugin,)},
            {PROFILE: build_hint_map([self.plugin])},
            pod_lister=lambda namespace, name: None,
        )

    def popped(self) -> str | None:
        self.queue.run_due()
        self.queue.validate()
        info = self.queue.pop()
        return None if info is None else info.pod.metadata.name


def at(time: str | None) -> Pod:
    return make_pod("p", annotations={} if time is None else {KEY: time})


@pytest.mark.parametrize(
    ("annotation", "requeue_after"),
    [
        (None, None),
        (NOON, 3600.0),
        ("2030-01-31T13:00:00+01:00", 3600.0),
        ("2030-01-31T11:00:00.5Z", 0.5),
        ("2030-01-31T11:00:00Z", None),
        ("1970-01-01T00:00:00Z", None),
    ],
)
def test_a_pod_waits_until_its_time(annotation: str | None, requeue_after: float | None) -> None:
    status = World().plugin.pre_enqueue(at(annotation))
    assert (None if status is None else status.requeue_after) == requeue_after
    if status is not None:
        assert status.rejected
        assert status.message == f"waiting until {annotation}"


@pytest.mark.parametrize("text", ["", "soon", "2030-01-31T12:00:00", "2030-01-31", "1896091200"])
def test_what_is_no_time_keeps_the_pod_and_says_so(text: str) -> None:
    world = World()
    status = world.plugin.pre_enqueue(at(text))
    assert status is not None
    assert status.requeue_after is None
    assert world.events.notes == [("InvalidNotBefore", status.message)]
    assert f'"{text}" is no time' in status.message


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_times_at_the_ends_of_the_calendar_are_times(text: str) -> None:
    assert parse_time(text) is not None
    World().plugin.pre_enqueue(at(text))


def test_the_queue_wakes_the_pod_at_its_time_and_not_before() -> None:
    world = World(seconds_to_noon=3600.0)
    world.queue.add(at(NOON))
    # Before that the flush of pods that wait too long looks at it.
    wakeup = world.queue.next_wakeup()
    assert wakeup is not None
    assert wakeup <= EPOCH
    world.clock.step(3599.0)
    assert world.popped() is None
    world.clock.step(1.0)
    assert world.popped() == "p"


@pytest.mark.parametrize("new", [None, "2030-01-31T10:00:00Z"], ids=["removed", "moved ahead"])
@pytest.mark.parametrize("old", [NOON, "soon"])
def test_a_changed_annotation_frees_the_pod_at_once(old: str, new: str | None) -> None:
    world = World()
    world.queue.add(at(old))
    assert world.popped() is None
    world.queue.update(at(old), at(new))
    assert world.popped() == "p"


def test_an_annotation_moved_back_keeps_the_pod_longer() -> None:
    world = World(seconds_to_noon=60.0)
    world.queue.add(at(NOON))
    world.queue.update(at(NOON), at("2030-01-31T12:01:00Z"))
    world.clock.step(61.0)
    assert world.popped() is None
    world.clock.step(60.0)
    assert world.popped() == "p"


def test_updates_that_leave_the_annotation_alone_do_not_run_the_gate() -> None:
    world = World()
    world.queue.add(at(NOON))
    runs = world.queue.statistics().pre_enqueue_runs
    labelled = make_pod("p", annotations={KEY: NOON}, labels={"a": "b"})
    world.queue.update(at(NOON), labelled)
    assert world.queue.statistics().pre_enqueue_runs == runs


def test_the_contract_holds() -> None:
    cluster = Cluster()
    pods: list[Any] = [cluster.intern(at(text)) for text in (None, NOON, "soon")]
    check_plugin_contract(World().plugin, PluginCase(cluster.table, pods, now=EPOCH))


def test_a_wrong_annotation_key_is_refused() -> None:
    problems = list(NotBefore.validate_args(NotBeforeArgs(annotation="a/b/c")))
    assert problems == [("annotation", '"a/b/c" is no annotation key')]
