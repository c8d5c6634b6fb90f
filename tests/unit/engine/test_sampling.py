"""Nodes that a search looks at, and its start (schedule_one.go: numFeasibleNodesToFind)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from scheduler.framework import (
    Columns,
    CycleState,
    ReuseRule,
    Status,
    unschedulable,
)
from tests.unit.engine.harness import Calls, World, answering, plugin, three_nodes

# -- how many nodes are looked at ----------------------------------------------------------------


def scalar_world(nodes: int, **options: Any) -> tuple[World, Calls]:
    calls = Calls()
    world = World(
        plugin("F", filter=calls("filter")),
        plugin("S", score=lambda state, pod, node: 1),
        **options,
    )
    world.nodes(*(f"n{index}" for index in range(nodes)))
    return world, calls


@pytest.mark.parametrize(
    ("nodes", "options", "looked_at"),
    [
        (10, {}, 10),
        (1000, {}, 420),
        (1000, {"percentage": 40, "global_percentage": 100}, 400),
        (1000, {"global_percentage": 30}, 300),
        (1000, {"percentage": 1}, 100),
        (150, {"percentage": 10}, 100),
        (99, {"percentage": 10}, 99),
        (1000, {"percentage": 100}, 1000),
    ],
)
def test_the_search_ends_when_enough_nodes_are_found(
    nodes: int, options: dict[str, int], looked_at: int
) -> None:
    world, calls = scalar_world(nodes, **options)
    attempt = world.attempt()
    assert attempt.result is not None
    assert calls.take() == ["filter"] * looked_at
    assert attempt.result.feasible_nodes == attempt.result.evaluated_nodes == looked_at


@pytest.mark.parametrize(
    ("nodes", "percentage", "expected"), [(6000, 0, 300), (6000, 40, 2400), (1_000_000, 0, 50_000)]
)
def test_the_number_of_nodes_follows_upstreams_formula(
    nodes: int, percentage: int, expected: int
) -> None:
    world, _ = scalar_world(1, percentage=percentage)
    assert world.algorithm.search._feasible_to_find(nodes) == expected


def test_without_scoring_one_node_is_enough() -> None:
    calls = Calls()
    attempt = three_nodes(plugin("F", filter=calls("filter"))).attempt()
    assert attempt.result is not None
    assert (calls.made, attempt.result.evaluated_nodes) == (["filter"], 1)


def columnar(**methods: Any) -> type[Any]:
    return plugin(
        "F",
        filter=answering(None),
        filter_reuse=ReuseRule(Columns.EXISTENCE),
        filter_rows=lambda state, pod, table, rows: np.zeros(len(rows), dtype=np.int32),
        filter_status=answering(unschedulable("no")),
        score_rows=lambda state, pod, table, rows: np.zeros(len(rows), dtype=np.int64),
        score_reuse=ReuseRule(Columns.EXISTENCE),
        **methods,
    )


@pytest.mark.parametrize(
    ("percentage", "looked_at"), [(None, 500), (0, 500), (100, 500), (30, 150), (1, 100)]
)
def test_columnar_profiles_evaluate_all_nodes_unless_configured_otherwise(
    percentage: int | None, looked_at: int
) -> None:
    world = World(columnar(), percentage=percentage)
    world.nodes(*(f"n{index}" for index in range(500)))
    attempt = world.attempt()
    assert attempt.result is not None
    assert attempt.result.feasible_nodes == looked_at


@pytest.mark.parametrize("reuse", [True, False])
def test_each_cycle_begins_where_the_last_one_ended(reuse: bool) -> None:
    seen: list[str] = []

    def note(state: CycleState, pod: Any, node: Any) -> None:
        seen.append(node.name)

    world = World(
        plugin("F", filter=note), plugin("S", score=lambda *_: 1), percentage=30, reuse=reuse
    )
    names = [f"n{index}" for index in range(500)]
    world.nodes(*names)
    for _ in range(5):
        world.chosen()
    assert [len(seen), seen[150], seen[300], seen[499], seen[500]] == [
        5 * 150,
        "n150",
        "n300",
        "n499",
        "n0",
    ]


def test_nodes_that_were_rejected_move_the_start_too() -> None:
    seen: list[str] = []

    def every_other(state: CycleState, pod: Any, node: Any) -> Status | None:
        seen.append(node.name)
        return unschedulable("odd") if int(node.name[1:]) % 2 else None

    world = World(plugin("F", filter=every_other), plugin("S", score=lambda *_: 1), percentage=20)
    world.nodes(*(f"n{index}" for index in range(600)))
    attempt = world.attempt()
    assert attempt.result is not None
    # 20 % of 600 are found after 239 nodes: the 120 even ones and 119 odd ones between them.
    assert (attempt.result.feasible_nodes, attempt.result.evaluated_nodes) == (120, 239)
    seen.clear()
    world.attempt(world.pod("q"))
    assert seen[0] == "n239"
