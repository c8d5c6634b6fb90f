"""The best nodes of a decision, with their scores, are those of a fresh examination."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.engine import Attempt
from scheduler.engine.leaders import Leaders, highest_rows
from scheduler.framework import QueuedPodInfo
from scheduler.history import DecisionHistory, DecisionRecorder
from tests.unit.explain.examining.explaining import ExplainedWorld, in_tree_world

ZONE: Final = "topology.kubernetes.io/zone"
KINDS: Final = ("plain", "soft spread", "preferred node", "preferred pods", "scalar")


def spec_of(kind: str, milli: int) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "containers": [{"name": "c", "resources": {"requests": {"cpu": f"{milli}m"}}}]
    }
    if kind == "soft spread":
        spec["topologySpreadConstraints"] = [
            {
                "maxSkew": 1,
                "topologyKey": ZONE,
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {"app": "x"}},
            }
        ]
    elif kind == "preferred node":
        zone = {"key": ZONE, "operator": "In", "values": ["z1"]}
        term: dict[str, Any] = {"matchExpressions": [zone]}
        preferred = [{"weight": 30, "preference": term}]
        spec["affinity"] = {
            "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}
        }
    elif kind == "preferred pods":
        term = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": ZONE}
        spec["affinity"] = {
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 50, "podAffinityTerm": term}
                ]
            }
        }
    return spec


def add_node(world: ExplainedWorld, number: int) -> None:
    size = {"cpu": str(4 + 4 * (number % 3)), "memory": "32Gi", "pods": "110"}
    taints = [{"key": "old", "effect": "PreferNoSchedule"}] if number % 5 == 4 else []
    labels = {ZONE: f"z{number % 3}", "kubernetes.io/hostname": f"n{number}"}
    world.node(f"n{number}", labels=labels, allocatable=size, spec={"taints": taints})


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["place", "place", "place", "place", "forget", "node", "drop"]),
        st.sampled_from(KINDS),
        st.sampled_from([100, 700, 1900]),
    ),
    min_size=5,
    max_size=60,
)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(nodes=st.integers(2, 90), steps=STEPS)
def test_the_best_nodes_are_those_of_a_fresh_examination(
    nodes: int, steps: list[tuple[str, str, int]]
) -> None:
    world = in_tree_world()
    for number in range(nodes):
        add_node(world, number)
    history = DecisionHistory()
    recorder = DecisionRecorder(history, world.cache.table, world.clock.monotonic)
    placed: list[Attempt] = []
    for number, (step, kind, milli) in enumerate(steps):
        if step == "forget" and placed:
            world.engine.abandon(placed.pop(0))
        elif step == "node":
            add_node(world, nodes + number)
        elif step == "drop":
            world.cache.remove_node(f"n{number % nodes}")
        if step != "place":
            continue
        pod = world.exists(world.pod(f"p{number}", **spec_of(kind, milli)))
        pod.metadata.labels = {"app": "x"}
        fresh = world.explainer.explain("default", pod.metadata.name, top=200).nodes
        assert fresh is not None
        attempt = world.engine.attempt(QueuedPodInfo(pod, 0.0, attempts=1))
        recorder.record(attempt)
        (decision,) = history.of_pod("default", pod.metadata.name)
        if attempt.result is None:
            assert not fresh.feasible
            continue
        placed.append(attempt)
        assert decision.node == attempt.result.node_name
        if fresh.feasible < 2:
            assert not decision.best
            continue
        known = {each.node: each for each in fresh.best}
        assert decision.best[0].node == decision.node
        assert [each.total for each in decision.best] == [each.total for each in fresh.best[:5]]
        for each in decision.best:
            assert each == known[each.node]
            assert sum(score.weighted for score in each.scores) == each.total


@settings(max_examples=60, deadline=None)
@given(
    totals=st.lists(st.integers(-1, 9), min_size=1, max_size=40),
    changes=st.lists(st.tuples(st.integers(0, 39), st.integers(0, 9)), max_size=60),
    kept=st.integers(1, 12),
)
def test_leaders_are_the_best_rows_after_any_changes(
    totals: list[int], changes: list[tuple[int, int]], kept: int
) -> None:
    column = np.array(totals, dtype=np.int64)
    leaders = Leaders(column, kept)
    for row, after in [(-1, 0), *changes]:
        if 0 <= row < len(totals) and column[row] >= 0:
            leaders.change(row, int(column[row]), after)
            column[row] = after
        feasible = sorted((int(each) for each in column if each >= 0), reverse=True)
        for count in (1, 3):
            best = leaders.best(count)
            if best is not None:
                assert [int(column[each]) for each in best] == feasible[:count]
                assert len(set(best)) == len(best)


@settings(max_examples=60, deadline=None)
@given(
    totals=st.lists(st.integers(-1, 4), min_size=1, max_size=40),
    count=st.integers(1, 8),
    guess=st.none() | st.integers(-2, 6),
)
def test_the_highest_rows_are_the_first_of_equals_whatever_the_guess(
    totals: list[int], count: int, guess: int | None
) -> None:
    found = highest_rows(np.array(totals, dtype=np.int64), count, guess).tolist()
    order = sorted(range(len(totals)), key=lambda row: (-totals[row], row))
    assert sorted(found) == sorted(order[:count])


def test_what_was_derived_from_the_best_rows_lasts_until_one_of_them_changes() -> None:
    totals = np.array([5, 9, 9, 9, 1, 9], dtype=np.int64)

    def after(step: Callable[[Leaders], None]) -> object:
        leaders = Leaders(totals)
        leaders.best(3)
        leaders.shared, leaders.packed = "derived", {2: b"x", 5: b"y"}
        step(leaders)
        leaders.best(3)
        assert 5 in leaders.packed
        return leaders.shared

    assert after(lambda leaders: leaders.forget(4)) == "derived"
    assert after(lambda leaders: leaders.change(5, 9, 8)) == "derived"
    assert after(lambda leaders: leaders.forget(2)) is None
    assert after(lambda leaders: leaders.change(2, 9, 8)) is None
    assert after(lambda leaders: leaders.change(0, 5, 9)) is None
