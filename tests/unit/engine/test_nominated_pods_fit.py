"""Rows on which nominated pods matter, and the cached results for them."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.api import Pod
from scheduler.cache.change_log import ChangeLog
from scheduler.engine import nominated_pods_fit
from scheduler.engine.nominated_pods_fit import (
    NOMINATED_CODES,
    NominatedPodsFit,
    NominatedRows,
)
from scheduler.engine.plugin_calls import run_synchronously
from scheduler.engine.row_cache import RowCache
from scheduler.framework import (
    Columns,
    CycleState,
    NodeInfo,
    NominatingInfo,
    ReuseRule,
    Status,
    unschedulable,
)
from tests.unit.engine.harness import World, plugin

NODES = [f"n{number}" for number in range(6)]


def expected(world: World, priority: int, uid: str) -> list[int]:
    """Return the rows, found node by node."""
    rows = []
    for name in world.nominations.nominated_nodes():
        row = world.cache.table.row_of(name)
        pods = world.nominations.nominated_pods_for_node(name)
        if row is not None and any(p.priority >= priority and p.uid != uid for p in pods):
            rows.append(row)
    return sorted(rows)


@given(seed=st.integers(0, 10_000), log=st.sampled_from([4, 256]))
@settings(max_examples=40, deadline=None)
def test_rows_equal_those_found_node_by_node(seed: int, log: int) -> None:
    random, world = Random(seed), World()
    # As short as that the tail is passed.
    world.cache.table.change_log = ChangeLog(log)
    known = NominatedRows(world.cache.table, world.nominations)
    pods: list[Pod] = []
    for step in range(40):
        name = random.choice(NODES)
        match random.choice(("node", "gone", "nominate", "nominate", "move", "end")):
            case "node":
                world.node(name)
            case "gone":
                world.cache.remove_node(name)
            case "nominate":
                pods.append(world.pod(f"p{step}", priority=random.randrange(3)))
                world.nominations.add_nominated_pod(pods[-1], NominatingInfo(name))
            case "move" if pods:
                world.nominations.add_nominated_pod(random.choice(pods), NominatingInfo(name))
            case "end" if pods:
                world.nominations.delete_nominated_pod_if_exists(random.choice(pods))
        if random.random() < 0.7:
            uid = random.choice(pods).uid if pods else "none"
            for priority in range(4):
                found = known.at_least(priority, uid).tolist()
                assert found == expected(world, priority, uid)


def counted(calls: list[str], **rules: Any) -> type[Any]:
    """A filter that allows one pod on a node, counting nominated pods; records scalar calls."""

    def check(state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        calls.append(node.name)
        return unschedulable(f"taken by {node.pod_count}") if node.pod_count else None

    rules.setdefault("filter_reuse", ReuseRule(Columns.USAGE))
    return plugin(
        "Space",
        filter=check,
        filter_rows=lambda state, pod, table, rows: np.minimum(table.pod_count[rows], 1).astype(
            np.int32
        ),
        filter_status=lambda *_: unschedulable("taken"),
        **rules,
    )


def crowded_world(calls: list[str], **rules: Any) -> World:
    world = World(counted(calls, **rules))
    world.nodes("n1", "n2", "n3")
    for number, name in enumerate(("n1", "n2")):
        world.nominations.add_nominated_pod(world.pod(f"o{number}"), NominatingInfo(name))
    return world


def feasible(world: World, pod: Pod) -> list[str]:
    found = run_synchronously(world.algorithm.search.find(CycleState(), pod))
    return [world.cache.table.names[row] for row in found.rows.tolist()]


def test_nodes_are_filtered_once_for_all_pods_of_a_kind() -> None:
    calls: list[str] = []
    world = crowded_world(calls)
    for _ in range(3):
        assert feasible(world, world.pod()) == ["n3"]
    assert sorted(calls) == ["n1", "n2"]
    calls.clear()
    world.nominations.add_nominated_pod(world.pod("third"), NominatingInfo("n2"))
    assert feasible(world, world.pod()) == ["n3"]
    assert calls == ["n2"]
    calls.clear()
    world.cache.table.bump("events")
    assert feasible(world, world.pod()) == ["n3"]
    assert sorted(calls) == ["n1", "n2"]


def test_a_filter_runs_again_when_a_version_named_in_its_rule_changes() -> None:
    calls: list[str] = []
    world = crowded_world(calls, filter_reuse=ReuseRule(Columns.USAGE, ("leases",)))
    for changed, again in (("", ["n1", "n2"]), ("events", []), ("leases", ["n1", "n2"])):
        world.cache.table.bump(changed, revise=False)
        calls.clear()
        assert feasible(world, world.pod()) == ["n3"]
        assert sorted(calls) == again, changed


def test_results_of_a_nominated_pod_are_not_used_for_others() -> None:
    calls: list[str] = []
    world = crowded_world(calls)
    own = world.pod("own")
    world.nominations.add_nominated_pod(own, NominatingInfo("n3"))
    for _ in range(2):
        assert feasible(world, own) == ["n3"]
        assert "3 taken by 1" in world.failure_message(world.pod("other"))


@pytest.mark.parametrize(
    "rules",
    [{"filter_reuse": None}, {"add_pod": lambda *_: None, "pre_filter": lambda *_: None}],
    ids=["not reusable", "follows pods"],
)
def test_filters_that_depend_on_more_than_the_row_run_each_time(rules: dict[str, Any]) -> None:
    calls: list[str] = []
    world = crowded_world(calls, **rules)
    for _ in range(2):
        assert feasible(world, world.pod()) == ["n3"]
    assert sorted(calls) == ["n1", "n1", "n2", "n2"]


def test_messages_count_nominated_pods_by_their_own_reasons() -> None:
    calls: list[str] = []
    world = crowded_world(calls)
    for number in range(2):
        nominee = world.pod(f"more{number}")
        world.nominations.add_nominated_pod(nominee, NominatingInfo(f"n{number + 2}"))
    text = "0/3 nodes are available: 1 taken by 2, 2 taken by 1."
    assert [world.failure_message() for _ in range(2)] == [text, text]


def test_messages_are_right_in_the_search_with_too_many_statuses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(nominated_pods_fit, "_MAX_STATUSES", 1)
    world = crowded_world([])
    world.nominations.add_nominated_pod(world.pod("second"), NominatingInfo("n2"))
    # n3 is taken without its nominated pods, too, and therefore looked at last.
    world.cache.add_pod(world.pod("placed", nodeName="n3"))
    for name in ("third", "fourth"):
        world.nominations.add_nominated_pod(world.pod(name), NominatingInfo("n3"))
    text = "0/3 nodes are available: 1 taken by 1, 1 taken by 2, 1 taken by 3."
    assert [world.failure_message() for _ in range(2)] == [text, text]


def test_too_many_statuses_are_dropped_when_a_row_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(nominated_pods_fit, "_MAX_STATUSES", 1)
    world = World()
    world.nodes("n1", "n2")
    cache = RowCache(world.cache.table, NominatedPodsFit)
    known = cache.recall("kind")
    for row in (0, 1):
        known.note(row, 0, unschedulable(f"reason {row}"))
    held = known.statuses
    assert cache.recall("kind").statuses is held
    world.nodes("n3")
    assert cache.recall("kind").statuses == []
    assert len(held) == 2, "a diagnosis may still hold it"


def test_a_status_is_kept_once() -> None:
    fit = NominatedPodsFit(4)
    rows = np.arange(4)
    assert fit.unknown(rows) == [0, 1, 2, 3]
    fit.note(0, 2, unschedulable("a"))
    fit.note(1, 1, unschedulable("b"))
    fit.note(2, 2, unschedulable("a"))
    fit.note(3, 0, None)
    rejected_by, codes = fit.results(rows)
    assert rejected_by.tolist() == [3, 2, 3, 0]
    assert [fit.statuses[code - NOMINATED_CODES].message for code in codes[:3]] == [
        "a",
        "b",
        "a",
    ]
    assert len(fit.statuses) == 2
    fit.forget(rows[1:2])
    assert fit.unknown(rows) == [1]
