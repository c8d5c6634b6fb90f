"""Plugins that return nonsense, or end the process: the attempt fails, and names them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from scheduler.framework import Code, ReuseRule, Status
from tests.unit.engine.harness import World, plugin

SCORED = 'running Score plugins: plugin "X" failed with: '
NORMALIZED = 'running Normalize on Score plugins: plugin "X" failed with: '
FILTERED = 'running "X" filter plugin: '


def returning(result: Any) -> Callable[..., Any]:
    return lambda *_: result


FILTER = {"filter": returning(None), "filter_status": returning(None)}
SCORE = {"score": returning(1)}


@pytest.mark.parametrize(
    ("methods", "message"),
    [
        (
            {**FILTER, "filter_rows": returning([0, 0])},
            FILTERED + "filter_rows returned [0, 0], which is not a NumPy array",
        ),
        (
            {**FILTER, "filter_rows": returning(None)},
            FILTERED + "filter_rows returned None, which is not a NumPy array",
        ),
        (
            {**FILTER, "filter_rows": returning(np.zeros(2))},
            FILTERED + "filter_rows returned an array of float64, not of integers",
        ),
        (
            {**FILTER, "filter_rows": returning(np.zeros((2, 2), dtype=np.int32))},
            FILTERED + "filter_rows returned an array of 2 dimensions, not of one",
        ),
        (
            {**FILTER, "filter_rows": returning(np.full(2, 1 << 40))},
            FILTERED + "filter_rows returned a code beyond 32 bits",
        ),
        (
            {**FILTER, "filter_rows": returning(np.full(2, 1 << 31, dtype=np.uint32))},
            FILTERED + "filter_rows returned a code beyond 32 bits",
        ),
        (
            {"permit": returning((Status(Code.WAIT), math.nan))},
            'running Permit plugin "X": permit returned a timeout that is no number',
        ),
        ({"filter": returning("no")}, FILTERED + "answered 'no', which is not a Status"),
        (
            {**SCORE, "score_rows": returning(np.full(2, np.nan))},
            SCORED + "score_rows returned an array of float64, not of integers",
        ),
        (
            {**SCORE, "score_rows": returning(np.array(["a", "b"]))},
            SCORED + "score_rows returned an array of <U1, not of integers",
        ),
        (
            {**SCORE, "normalize_scores": returning(None)},
            NORMALIZED + "normalize_scores returned None, which is not a NumPy array",
        ),
        (
            {**SCORE, "normalize_scores": returning(np.zeros(1, dtype=np.int64))},
            NORMALIZED + "normalize_scores gave 1 scores for 2 rows",
        ),
        (
            {**SCORE, "normalize_scores": returning(np.full(2, np.nan))},
            NORMALIZED + "normalize_scores returned something that is no number",
        ),
        (
            {"score": returning("high")},
            SCORED + "score returned 'high', which is not a 64-bit integer",
        ),
        ({"score": returning(None)}, SCORED + "score returned None, which is not a 64-bit integer"),
        ({"score": returning(0.5)}, SCORED + "score returned 0.5, which is not a 64-bit integer"),
        (
            {"score": returning(1 << 70)},
            SCORED + f"score returned {1 << 70}, which is not a 64-bit integer",
        ),
    ],
)
@pytest.mark.parametrize("rule", [ReuseRule(), None])
def test_nonsense_is_an_error_of_the_plugin(
    methods: dict[str, Any], message: str, rule: ReuseRule | None
) -> None:
    world = World(plugin("X", filter_reuse=rule, score_reuse=rule, **methods))
    world.nodes("node1", "node2")
    for _ in range(2):
        assert world.failure_message() == message


def test_a_weighted_sum_of_narrow_scores_does_not_wrap_around() -> None:
    def scores(state: Any, pod: Any, table: Any, rows: Any) -> Any:
        return np.array([100, 20], dtype=np.int8)

    world = World(plugin("X", score=returning(1), score_rows=scores), weights={"X": 2})
    world.nodes("node1", "node2")
    assert world.chosen() == "node1"


@pytest.mark.parametrize("raised", [SystemExit(3), GeneratorExit()])
@pytest.mark.parametrize(("method", "where"), [("filter", FILTERED), ("score", SCORED)])
def test_a_plugin_that_ends_the_process_costs_its_attempt_only(
    raised: BaseException, method: str, where: str
) -> None:
    def leave(*_: Any) -> None:
        raise raised

    world = World(plugin("X", **{method: leave}))
    world.nodes("node1", "node2")
    assert world.failure_message() == f"{where}{raised!r}"
