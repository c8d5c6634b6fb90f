"""The choice among nodes of equal totals: at random, or by name."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.engine.tie_rules import NODE_NAME, RANDOM, FirstByName, tie_rule
from tests.unit.engine.harness import World, plugin

NAMES = ("n10", "n9", "a", "n1", "z")


def scoring(totals: Mapping[str, int]) -> type[Any]:
    return plugin("S", score=lambda state, pod, node: totals[node.name])


def chosen(totals: Mapping[str, int] | None, tie_breaking: str, seed: int) -> str:
    """Return the choice of a cycle; without totals the profile scores nothing."""
    plugins = () if totals is None else (scoring(totals),)
    world = World(*plugins, seed=seed, tie_breaking=tie_breaking)
    world.nodes(*NAMES)
    return world.chosen()


EQUAL = dict.fromkeys(NAMES, 5)


@pytest.mark.parametrize(
    ("totals", "expected"),
    [
        (EQUAL, "a"),
        (None, "a"),
        (EQUAL | {"a": 4}, "n1"),
        (EQUAL | {"a": 4, "n1": 0}, "n10"),
        (EQUAL | {"z": 6}, "z"),
    ],
)
def test_by_name_the_smallest_of_the_best_is_chosen_whatever_the_seed(
    totals: Mapping[str, int] | None, expected: str
) -> None:
    assert {chosen(totals, NODE_NAME, seed) for seed in range(8)} == {expected}


@pytest.mark.parametrize("totals", [EQUAL, None])
def test_at_random_any_of_the_best_is_chosen_and_the_seed_decides(
    totals: Mapping[str, int] | None,
) -> None:
    first = [chosen(totals, RANDOM, seed) for seed in range(20)]
    assert len(set(first)) > 1
    assert [chosen(totals, RANDOM, seed) for seed in range(20)] == first


@given(
    changes=st.lists(st.sampled_from([*NAMES, "b", "n11"]), max_size=12),
    wanted=st.sets(st.integers(0, 6), min_size=2),
)
def test_the_order_of_names_follows_nodes_that_come_and_go(
    changes: list[str], wanted: set[int]
) -> None:
    world = World()
    table = world.cache.table
    rule = FirstByName(table)
    for name in changes:
        if table.row_of(name) is None:
            world.node(name)
        else:
            world.cache.remove_node(name)
        rows = table.rows[[place for place in sorted(wanted) if place < len(table.rows)]]
        if len(rows) > 1:
            assert table.names[rule(rows)] == min(table.names[row] for row in rows.tolist())


def test_the_choice_by_name_draws_no_random_number() -> None:
    source = random.Random(3)
    before = source.getstate()
    world = World()
    world.nodes(*NAMES)
    tie_rule(NODE_NAME, world.cache.table, source)(world.cache.table.rows)
    assert source.getstate() == before
    tie_rule(RANDOM, world.cache.table, source)(world.cache.table.rows)
    assert source.getstate() != before
