"""Nominated nodes, and pods nominated to a node (schedule_one.go: evaluateNominatedNode)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from scheduler.framework import (
    SKIP,
    Columns,
    CycleState,
    NominatingInfo,
    ReuseRule,
    Status,
    error,
    unschedulable,
)
from tests.unit.engine.harness import (
    Calls,
    World,
    answering,
    narrowing,
    plugin,
    raising,
    three_nodes,
)

# -- nominated nodes and nominated pods ----------------------------------------------------------


def counting_filter(rejected: tuple[str, ...] = ()) -> tuple[World, Calls]:
    calls = Calls()

    def check(state: CycleState, pod: Any, node: Any) -> Status | None:
        calls(node.name)()
        return unschedulable("no") if node.name in rejected else None

    return three_nodes(plugin("F", filter=check), plugin("S", score=lambda *_: 0)), calls


def test_a_nominated_node_that_passes_is_the_only_one_evaluated() -> None:
    world, calls = counting_filter()
    attempt = world.attempt(world.pod(nominated="node2"))
    assert attempt.result is not None
    assert (attempt.node_name, calls.made) == ("node2", ["node2"])
    assert (attempt.result.evaluated_nodes, attempt.result.feasible_nodes) == (1, 1)


def test_a_nominated_node_that_fails_costs_one_more_call() -> None:
    world, calls = counting_filter(rejected=("node2",))
    assert world.chosen(world.pod(nominated="node2")) in ("node1", "node3")
    assert calls.made == ["node2", "node1", "node2", "node3"]


def test_an_unknown_nominated_node_is_ignored() -> None:
    world, calls = counting_filter()
    world.chosen(world.pod(nominated="gone"))
    assert calls.made == ["node1", "node2", "node3"]


def test_a_failing_plugin_on_the_nominated_node_does_not_end_the_attempt() -> None:
    calls = Calls()

    def once(state: CycleState, pod: Any, node: Any) -> None:
        calls(node.name)()
        if len(calls.made) == 1:
            raise ValueError

    world = three_nodes(plugin("F", filter=once), plugin("S", score=lambda *_: 0))
    world.chosen(world.pod(nominated="node3"))
    assert calls.made == ["node3", "node1", "node2", "node3"]


def test_pre_filter_results_do_not_apply_to_the_nominated_node() -> None:
    world = three_nodes(plugin("A", pre_filter=narrowing("node1"), filter=answering(None)))
    assert world.chosen(world.pod(nominated="node3")) == "node3"


@pytest.mark.parametrize(
    ("priority", "times"), [(5, 1), (10, 2), (11, 2)], ids=["lower", "equal", "higher"]
)
def test_filters_run_twice_where_a_pod_of_equal_or_higher_priority_is_nominated(
    priority: int, times: int
) -> None:
    world, calls = counting_filter()
    other = world.pod("other", priority=priority)
    world.nominations.add_nominated_pod(other, NominatingInfo("node2"))
    world.chosen(world.pod(priority=10))
    assert sorted(calls.made) == sorted(["node1", "node2", "node3"] + ["node2"] * (times - 1))


def test_a_pod_does_not_count_against_itself() -> None:
    world, calls = counting_filter()
    pod = world.pod()
    world.nominations.add_nominated_pod(pod, NominatingInfo("node2"))
    world.chosen(pod)
    assert sorted(calls.made) == ["node1", "node2", "node3"]


def crowded(node: Any) -> Status | None:
    return unschedulable("occupied") if node.pod_count else None


def space_plugin(columnar_form: bool, **methods: Any) -> type[Any]:
    forms: dict[str, Any] = {"filter": lambda state, pod, node: crowded(node)}
    if columnar_form:
        forms |= {
            "filter_reuse": ReuseRule(Columns.USAGE),
            "filter_rows": lambda state, pod, table, rows: np.minimum(
                table.pod_count[rows], 1
            ).astype(np.int32),
            "filter_status": answering(unschedulable("occupied")),
        }
    return plugin("Space", **forms, **methods)


@pytest.mark.parametrize("reuse", [True, False])
@pytest.mark.parametrize("columnar_form", [True, False])
def test_a_nominated_pod_takes_its_place(columnar_form: bool, reuse: bool) -> None:
    world = World(space_plugin(columnar_form), reuse=reuse)
    world.nodes("node1", "node2")
    other = world.pod("other")
    world.nominations.add_nominated_pod(other, NominatingInfo("node1"))
    assert world.chosen() == "node2"
    world.nominations.add_nominated_pod(world.pod("third"), NominatingInfo("node2"))
    assert world.failure_message() == "0/2 nodes are available: 2 occupied."
    world.nominations.delete_nominated_pod_if_exists(other)
    assert world.chosen() == "node1"


@pytest.mark.parametrize("reuse", [True, False])
@pytest.mark.parametrize("narrowed", [True, False])
def test_the_reason_on_a_full_node_counts_the_nominated_pods(reuse: bool, narrowed: bool) -> None:
    """Upstream's first pass has the nominated pods on the node, and its status is the one kept."""

    def count(state: CycleState, pod: Any, node: Any) -> Status | None:
        return unschedulable(f"{node.pod_count} pods") if node.pod_count else None

    chooser = {"pre_filter": narrowing("node1")} if narrowed else {}
    world = World(
        plugin(
            "Count",
            filter=count,
            filter_reuse=ReuseRule(Columns.USAGE),
            filter_rows=lambda state, pod, table, rows: table.pod_count[rows].astype(np.int32),
            filter_status=lambda state, pod, code: unschedulable(f"{code} pods"),
            **chooser,
        ),
        reuse=reuse,
    )
    world.nodes("node1")
    world.cache.add_pod(world.pod("placed", nodeName="node1"))
    world.nominations.add_nominated_pod(world.pod("other"), NominatingInfo("node1"))
    assert world.failure_message() == "0/1 nodes are available: 1 2 pods."


def test_plugins_follow_nominated_pods_with_a_state_of_their_own() -> None:
    class Tally:
        def __init__(self, pods: int) -> None:
            self.pods = pods

        def clone(self) -> Tally:
            return Tally(self.pods)

    def add_pod(state: CycleState, pod: Any, added: Any, node: Any) -> None:
        state.read("Tally").pods += 1

    seen: list[tuple[str, int]] = []

    def check(state: CycleState, pod: Any, node: Any) -> None:
        seen.append((node.name, state.read("Tally").pods))

    world = three_nodes(
        plugin(
            "Tally",
            pre_filter=lambda state, pod, table: state.write("Tally", Tally(0)),
            add_pod=add_pod,
            filter=check,
            score=lambda *_: 0,
        )
    )
    for name in ("other", "third"):
        world.nominations.add_nominated_pod(world.pod(name), NominatingInfo("node1"))
    world.chosen()
    assert sorted(seen) == [("node1", 0), ("node1", 2), ("node2", 0), ("node3", 0)]


@pytest.mark.parametrize(
    "answer", [raising("broken"), answering(error("broken")), answering(unschedulable("broken"))]
)
def test_a_failing_add_pod_is_an_error_for_higher_priorities_only(
    answer: Callable[..., Any],
) -> None:
    world = three_nodes(
        plugin("A", pre_filter=answering(None), add_pod=answer, filter=answering(None))
    )
    world.nominations.add_nominated_pod(world.pod("low", priority=1), NominatingInfo("node1"))
    world.chosen(world.pod(priority=5))
    world.nominations.add_nominated_pod(world.pod("high", priority=9), NominatingInfo("node1"))
    attempt = world.attempt(world.pod(priority=5))
    assert attempt.failure is not None
    assert attempt.failure.message == 'running AddPod on PreFilter plugin "A": broken'
    assert attempt.failure.reason == "SchedulerError"


def test_add_pod_of_a_skipped_plugin_is_not_called_for_nominated_pods() -> None:
    calls = Calls()
    world = three_nodes(
        plugin("A", pre_filter=answering(SKIP), add_pod=calls("add"), filter=calls("filter"))
    )
    world.nominations.add_nominated_pod(world.pod("other"), NominatingInfo("node1"))
    world.chosen()
    assert calls.made == []
