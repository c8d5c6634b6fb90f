"""Assume, Reserve, Permit: what a failure undoes and how it is reported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from scheduler.engine.failure import from_status
from scheduler.framework import (
    CLEAR_NOMINATION,
    Code,
    NominatingInfo,
    Status,
    error,
    pending,
    unresolvable,
    unschedulable,
)
from tests.unit.engine.harness import Calls, World, plugin, raising


def one_node(*plugins: type[Any]) -> World:
    world = World(*plugins)
    world.nodes("node1", "node2")
    world.cache.remove_node("node2")
    return world


def reserving(answer: Any) -> type[Any]:
    return plugin("R", reserve=answer, unreserve=lambda *_: None)


def permitting(status: Status | None) -> Callable[..., tuple[Status | None, float]]:
    return lambda *_: (status, 0.0)


REJECTIONS = [
    (unschedulable("no"), {"P"}, set()),
    (unresolvable("no"), {"P"}, set()),
    (pending("no"), {"P"}, {"P"}),
]


@pytest.mark.parametrize(("status", "unschedulable_plugins", "pending_plugins"), REJECTIONS)
@pytest.mark.parametrize("point", ["reserve", "permit"])
def test_a_rejection_is_reported_over_one_node(
    point: str, status: Status, unschedulable_plugins: set[str], pending_plugins: set[str]
) -> None:
    post_filter = Calls()
    answer = permitting(status) if point == "permit" else (lambda *_: status)
    world = one_node(
        plugin("P", **{point: answer}), plugin("Q", post_filter=post_filter("PostFilter"))
    )
    attempt = world.attempt()
    assert attempt.failure is not None
    assert attempt.result is None
    assert attempt.failure.message == "0/1 nodes are available: 1 no."
    assert attempt.failure.reason == "Unschedulable"
    assert attempt.failure.result == "unschedulable"
    assert attempt.failure.unschedulable_plugins == unschedulable_plugins
    assert attempt.failure.pending_plugins == pending_plugins
    assert attempt.failure.nominating == CLEAR_NOMINATION
    assert world.cache.statistics().pods == 0
    assert post_filter.made == []


@pytest.mark.parametrize("point", ["reserve", "permit"])
def test_a_rejection_may_choose_its_reason_and_time(point: str) -> None:
    status = Status(Code.UNSCHEDULABLE, ("no",), requeue_after=7.0, condition_reason="Quota")
    answer = permitting(status) if point == "permit" else (lambda *_: status)
    attempt = one_node(plugin("P", **{point: answer})).attempt()
    assert attempt.failure is not None
    assert (attempt.failure.reason, attempt.failure.requeue_after) == ("Quota", 7.0)
    assert attempt.failure.rejected


@pytest.mark.parametrize(
    ("methods", "message"),
    [
        ({"reserve": raising()}, 'running Reserve plugin "P": boom'),
        ({"reserve": lambda *_: error("boom")}, 'running Reserve plugin "P": boom'),
        ({"reserve": lambda *_: Status(Code.SKIP, ("x",))}, 'running Reserve plugin "P": x'),
        ({"permit": raising()}, 'running Permit plugin "P": boom'),
        ({"permit": permitting(error("boom"))}, 'running Permit plugin "P": boom'),
        ({"permit": permitting(Status(Code.SKIP, ("x",)))}, 'running Permit plugin "P": x'),
    ],
)
def test_an_error_is_retried_without_waiting_for_an_event(
    methods: dict[str, Any], message: str
) -> None:
    world = one_node(plugin("P", **methods))
    attempt = world.attempt()
    assert attempt.failure is not None
    assert attempt.failure.message == message
    assert attempt.failure.reason == "SchedulerError"
    assert attempt.failure.result == "error"
    assert attempt.failure.unschedulable_plugins == frozenset()
    assert world.cache.statistics().pods == 0
    assert not len(world.engine.waiting_pods)


def test_all_reserve_plugins_are_undone_in_reverse_even_those_that_never_ran() -> None:
    calls = Calls()

    def named(name: str, answer: Any = None) -> type[Any]:
        return plugin(
            name, reserve=calls(f"reserve {name}", answer), unreserve=calls(f"unreserve {name}")
        )

    world = one_node(named("A"), named("B", unschedulable("no")), named("C"))
    world.attempt()
    assert calls.made == [
        "reserve A",
        "reserve B",
        "unreserve C",
        "unreserve B",
        "unreserve A",
    ]


def test_an_unreserve_that_raises_does_not_stop_the_others() -> None:
    calls = Calls()
    world = one_node(
        plugin("A", reserve=calls("reserve A"), unreserve=calls("unreserve A")),
        plugin("B", reserve=lambda *_: None, unreserve=raising()),
        plugin("C", permit=permitting(unschedulable("no"))),
    )
    attempt = world.attempt()
    assert calls.made == ["reserve A", "unreserve A"]
    assert attempt.failure is not None
    assert attempt.failure.message == "0/1 nodes are available: 1 no."
    assert world.plugin_errors == ["B Unreserve p: boom"]
    assert world.cache.statistics().pods == 0


def test_plugins_see_the_assumed_pod_and_the_node() -> None:
    seen: list[tuple[str, str]] = []

    def note(state: Any, pod: Any, node_name: str) -> None:
        seen.append((pod.spec.node_name, node_name))

    world = one_node(plugin("P", reserve=note))
    attempt = world.attempt()
    assert seen == [("node1", "node1")]
    assert attempt.pod.spec.node_name == "node1"
    assert attempt.info.pod.spec.node_name == ""
    assert world.cache.is_assumed("p")


def test_assuming_ends_the_nomination() -> None:
    world = one_node()
    pod = world.pod()
    world.nominations.add_nominated_pod(pod, NominatingInfo("node1"))
    world.attempt(pod)
    assert world.nominations.nominated_nodes() == ()


def test_a_pod_that_is_in_the_cache_already_cannot_be_assumed() -> None:
    calls = Calls()
    world = one_node(plugin("P", reserve=calls("reserve"), unreserve=calls("unreserve")))
    world.attempt(world.pod())
    calls.take()
    attempt = world.attempt(world.pod())
    assert attempt.failure is not None
    assert attempt.failure.message == "pod p(default/p) is in the cache, so can't be assumed"
    assert attempt.failure.reason == "SchedulerError"
    assert world.cache.is_assumed("p")
    assert calls.made == []


def test_abandoning_undoes_reserve_and_assume_once() -> None:
    calls = Calls()
    world = one_node(plugin("P", reserve=calls("reserve"), unreserve=calls("unreserve")))
    attempt = world.attempt()
    assert world.engine.abandon(attempt)
    assert not world.engine.abandon(attempt)
    assert calls.made == ["reserve", "unreserve", "unreserve"]


# -- waiting -------------------------------------------------------------------------------------

WAIT = Status(Code.WAIT)


def waiting_world() -> World:
    return one_node(
        plugin("P1", permit=lambda *_: (WAIT, 10.0)),
        plugin("P2", permit=lambda *_: (WAIT, 60.0)),
        plugin("P3", permit=lambda *_: (None, 0.0)),
    )


def test_a_pod_waits_for_every_plugin_that_returned_wait() -> None:
    world = waiting_world()
    attempt = world.attempt()
    waiting = attempt.waiting
    assert waiting is not None
    assert attempt.failure is None
    assert world.engine.waiting_pods.get("p") is waiting
    assert waiting.pending_plugins() == ["P1", "P2"]
    assert waiting.deadline() == world.clock.time + 10
    results: list[Status] = []
    waiting.on_result.subscribe(results.append)
    waiting.allow("P1")
    assert results == []
    assert waiting.deadline() == world.clock.time + 60
    waiting.allow("P2")
    assert [each.code for each in results] == [Code.SUCCESS]
    assert ("Permit", "Wait") in world.metrics.points


def test_a_rejecting_plugin_beats_those_that_wait() -> None:
    world = one_node(
        plugin("P1", permit=lambda *_: (WAIT, 10.0)),
        plugin("P2", permit=permitting(unschedulable("no"))),
    )
    attempt = world.attempt()
    assert attempt.failure is not None
    assert attempt.waiting is None
    assert not len(world.engine.waiting_pods)
    assert world.cache.statistics().pods == 0


def test_statistics_count_waiting_pods_and_reuse() -> None:
    world = waiting_world()
    world.attempt()
    statistics = world.engine.statistics()
    assert statistics["waiting_pods"] == 1
    assert statistics["reuse"]["test"].entries == 1


def test_a_rejected_bind_is_unschedulable_but_no_plugin_is_responsible() -> None:
    failure = from_status(unschedulable("taken"))
    assert (failure.reason, failure.message) == ("Unschedulable", "taken")
    assert failure.unschedulable_plugins == frozenset()
    assert from_status(error("lost")).reason == "SchedulerError"
