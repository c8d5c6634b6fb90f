"""PostFilter after a failed search (`framework.go: RunPostFilterPlugins`), and the message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from plugins import NodeResourcesFit
from scheduler.framework import (
    CLEAR_NOMINATION,
    Code,
    NodeToStatus,
    NominatingInfo,
    PostFilterOutcome,
    PostFilterResult,
    Status,
    error,
    pending,
    unresolvable,
    unschedulable,
)
from tests.unit.engine.harness import Calls, World, plugin

FULL = "0/2 nodes are available: 2 full."

HERE = NominatingInfo("node1")


def full(*plugins: type[Any], status: Status | None = None) -> World:
    rejection = status or unschedulable("full")
    world = World(plugin("F", filter=lambda *_: rejection), *plugins)
    world.nodes("node1", "node2")
    return world


def post(name: str, status: Status | None, nominating: NominatingInfo | None = None) -> type[Any]:
    return plugin(name, post_filter=lambda *_: PostFilterResult(status, nominating))


@pytest.mark.parametrize(
    ("plugins", "message", "nominating"),
    [
        ([], FULL, CLEAR_NOMINATION),
        ([post("A", None, HERE)], FULL, HERE),
        ([post("A", Status(Code.SUCCESS), HERE)], FULL, HERE),
        ([post("A", unschedulable("a"))], f"{FULL} a", None),
        ([post("A", unschedulable("a"), CLEAR_NOMINATION)], f"{FULL} a", CLEAR_NOMINATION),
        ([post("A", unschedulable("a")), post("B", None, HERE)], FULL, HERE),
        ([post("A", unschedulable("a", "b")), post("B", pending("c"))], f"{FULL} a, b, c", None),
        (
            [post("A", unschedulable("a"), HERE), post("B", unschedulable("b"))],
            f"{FULL} a, b",
            HERE,
        ),
        (
            [post("A", unschedulable("a"), HERE), post("B", unschedulable("b"), CLEAR_NOMINATION)],
            f"{FULL} a, b",
            CLEAR_NOMINATION,
        ),
        (
            [post("A", unschedulable("a")), post("B", unresolvable("b"), CLEAR_NOMINATION)],
            f"{FULL} b",
            CLEAR_NOMINATION,
        ),
        ([post("A", error("broken"), HERE), post("B", None, HERE)], f"{FULL} broken", None),
        ([post("A", Status(Code.SKIP, ("hm",)))], f"{FULL} hm", None),
    ],
)
def test_post_filter_plugins_run_in_order(
    plugins: list[type[Any]], message: str, nominating: NominatingInfo | None
) -> None:
    attempt = full(*plugins).attempt()
    assert attempt.failure is not None
    assert attempt.failure.message == message
    assert attempt.failure.nominating == nominating
    assert attempt.failure.reason == "Unschedulable"
    assert attempt.failure.unschedulable_plugins == {"F"}


@pytest.mark.parametrize(
    ("first", "made"),
    [
        (None, []),
        (error("x"), []),
        (unresolvable("x"), []),
        (unschedulable("x"), ["B"]),
        (pending("x"), ["B"]),
    ],
)
def test_success_error_and_unresolvable_end_the_round(
    first: Status | None, made: list[str]
) -> None:
    calls = Calls()
    second = plugin("B", post_filter=calls("B", PostFilterResult(None)))
    full(post("A", first), second).attempt()
    assert calls.made == made


def test_a_post_filter_that_raises_is_an_error_of_its_own() -> None:
    def raising(*_: Any) -> PostFilterResult:
        msg = "boom"
        raise ValueError(msg)

    world = full(plugin("A", post_filter=raising))
    attempt = world.attempt()
    assert attempt.failure is not None
    assert attempt.failure.message == f"{FULL} boom"
    assert attempt.failure.reason == "Unschedulable"
    assert ("PostFilter", "Error") in world.metrics.points


def skip_all(state: Any, pod: Any, table: Any) -> None:
    state.skip_post_filter = True


@pytest.mark.parametrize(
    ("world", "message"),
    [
        (
            lambda post_filter: full(plugin("S", pre_filter=skip_all), post_filter),
            f"{FULL} All PostFilter plugins are skipped",
        ),
        (
            lambda post_filter: full(
                post_filter, status=Status(Code.UNSCHEDULABLE, ("full",), skip_post_filter=True)
            ),
            FULL,
        ),
    ],
    ids=["by the cycle state", "by every rejection"],
)
def test_post_filter_may_be_skipped(world: Callable[[type[Any]], World], message: str) -> None:
    calls = Calls()
    made = world(plugin("A", post_filter=calls("A", PostFilterResult(None, HERE))))
    assert made.failure_message() == message
    assert calls.made == []


def test_one_node_that_post_filter_could_help_is_enough_to_run_it() -> None:
    calls = Calls()
    world = World(
        plugin(
            "F",
            filter=lambda state, pod, node: Status(
                Code.UNSCHEDULABLE, ("full",), skip_post_filter=node.name == "node1"
            ),
        ),
        plugin("A", post_filter=calls("A", PostFilterResult(None))),
    )
    world.nodes("node1", "node2")
    world.attempt()
    assert calls.made == ["A"]


def test_post_filter_sees_the_status_of_every_node() -> None:
    seen: list[NodeToStatus] = []

    def look(state: Any, pod: Any, statuses: NodeToStatus) -> PostFilterResult:
        seen.append(statuses)
        return PostFilterResult(unschedulable("no"))

    by_node = {"node1": unschedulable("full"), "node2": unresolvable("never")}
    world = World(
        plugin("F", filter=lambda state, pod, node: by_node[node.name]),
        plugin("A", post_filter=look),
    )
    world.nodes("node1", "node2")
    world.attempt()
    (statuses,) = seen
    names = ["node1", "node2", "gone"]
    assert statuses.nodes_for_code(names, Code.UNSCHEDULABLE) == ["node1"]
    assert statuses.nodes_for_code(names, Code.UNSCHEDULABLE_AND_UNRESOLVABLE) == ["node2", "gone"]
    assert statuses.get("node1") == unschedulable("full").by("F")
    assert (len(statuses), sorted(statuses)) == (2, ["node1", "node2"])
    assert statuses.get("gone").reasons == ()
    statuses.set("node1", unresolvable("now never"))
    assert statuses.get("node1").reasons == ("now never",)


def test_the_time_of_post_filter_is_not_counted_as_filter() -> None:
    def slow(*_: Any) -> PostFilterResult:
        world.clock.time += 5
        return PostFilterResult(unschedulable("no"))

    world = full(plugin("A", post_filter=slow))
    world.attempt()
    assert ("PostFilter", "Unschedulable") in world.metrics.points
    durations = world.metrics.durations
    assert (durations["Filter"], durations["PostFilter"]) == (0, 5)


def test_reasons_are_counted_and_sorted_as_text() -> None:
    world = World(
        plugin(
            "F",
            filter=lambda state, pod, node: (
                unschedulable("b") if int(node.name) < 10 else unresolvable("a", "c")
            ),
        )
    )
    world.nodes(*(str(index) for index in range(12)))
    assert world.failure_message() == "0/12 nodes are available: 10 b, 2 a, 2 c."


def test_a_rejection_without_a_reason_has_an_empty_message() -> None:
    assert full(status=Status(Code.UNSCHEDULABLE)).failure_message() == ("0/2 nodes are available:")


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (None, PostFilterOutcome.NO_PLUGIN),
        (PostFilterResult(None, NominatingInfo("n1")), PostFilterOutcome.NOMINATED),
        (PostFilterResult(unschedulable("no")), PostFilterOutcome.FAILED),
        (PostFilterResult(unresolvable("no")), PostFilterOutcome.FAILED),
        (PostFilterResult(error("broken")), PostFilterOutcome.NOT_RUN),
        (
            PostFilterResult(unschedulable("no"), outcome=PostFilterOutcome.INELIGIBLE),
            PostFilterOutcome.INELIGIBLE,
        ),
    ],
)
def test_the_queue_record_holds_how_post_filter_ended(
    answer: PostFilterResult | None, outcome: PostFilterOutcome
) -> None:
    plugins = [NodeResourcesFit]
    if answer is not None:
        plugins.append(plugin("Last", post_filter=lambda *_: answer))
    world = World(*plugins)
    world.node("n1", allocatable={"cpu": "1", "pods": "10"})
    containers = [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]
    attempt = world.attempt(world.pod(containers=containers))
    assert attempt.failure is not None
    attempt.failure.apply(attempt.info, 0.0)
    assert attempt.info.post_filter is outcome
