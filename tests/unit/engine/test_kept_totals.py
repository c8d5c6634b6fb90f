"""Kept totals equal fresh ones, whatever rows the cycles before were about.

Cycles of one signature are of two kinds: over all its feasible rows (`Scoring.totals`), and over a
subset of them (`subset_totals`), such as those without a nominated pod that needs the room. Both
use and change what one `CachedResult` holds.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from plugins.node_resources.fit import NodeResourcesFit
from scheduler.engine import AttemptError, followed_scores, scoring
from scheduler.engine.result_cache import CachedResult
from scheduler.engine.row_columns import INFEASIBLE
from scheduler.engine.scoring import Scoring
from scheduler.framework import (
    Columns,
    CycleState,
    Int64Column,
    NominatingInfo,
    ReuseRule,
    Rows,
    error,
)
from tests.unit.engine.harness import World, plugin

NODES = 4
FEW_ROWS = 2
"""Instead of the real one, so that a small table has changes of few rows and of many."""
EVERY_TIME = "EveryTime"
SCORERS = ("Plain", "Normalized", EVERY_TIME)


@dataclass(frozen=True)
class Step:
    """Changes of rows, and a cycle after them."""

    #: By row: whether it is feasible, and its raw scores.
    changes: dict[int, tuple[bool, int, int]]
    #: Feasible rows that the cycle leaves out; None for a cycle over all of them.
    left_out: frozenset[int] | None
    skipped: frozenset[str]
    normalizing_fails: bool
    #: By row: new scores of the plugin without reuse.
    every_time: dict[int, int] = field(default_factory=dict)


#: Row 0 is the one that is left out, and the one that changes most.
ROWS = st.sampled_from([0] * 8 + [*range(1, NODES)])
#: The highest is out of range.
PLAIN = st.sampled_from([1, 1, 1, 2, 50, 50, 50, 101])
USUALLY = frozenset({EVERY_TIME})
STEPS = st.builds(
    Step,
    changes=st.dictionaries(
        ROWS,
        st.tuples(st.booleans(), PLAIN, st.sampled_from([0] * 7 + [1])),
        max_size=FEW_ROWS + 1,
    ),
    left_out=st.sampled_from([None, frozenset({0})]),
    skipped=st.sampled_from([USUALLY] * 7 + [frozenset({name}) for name in SCORERS[:2]])
    | st.just(frozenset()),
    normalizing_fails=st.sampled_from([False] * 5 + [True]),
    every_time=st.dictionaries(ROWS, PLAIN, max_size=FEW_ROWS + 1),
)
#: Mostly changes of the plugin without reuse alone.
EVERY_TIME_STEPS = st.builds(
    lambda step, alone: replace(
        step, skipped=step.skipped - USUALLY, changes={} if alone else step.changes
    ),
    STEPS,
    st.sampled_from([True] * 3 + [False]),
)


def step(
    row_0: tuple[bool, int] | None = None, *, leaving_out: bool = False, fails: bool = False
) -> Step:
    """Make a step that changes whether row 0 is feasible, and its plain score."""
    changes = {} if row_0 is None else {0: (*row_0, 0)}
    return Step(changes, frozenset({0}) if leaving_out else None, USUALLY, fails)


def every_time(*scores: int) -> Step:
    """Make a step that changes the scores without reuse of the first rows."""
    return Step({}, None, frozenset(), False, dict(enumerate(scores)))


class Cluster:
    """A table whose rows have given scores, and what is kept of one signature."""

    def __init__(self) -> None:
        self.plain = np.full(NODES, 2, dtype=np.int64)
        self.raw = np.zeros(NODES, dtype=np.int64)
        self.every_time = np.zeros(NODES, dtype=np.int64)
        self.normalizing_fails = False
        rule = ReuseRule(Columns.LABELS)
        self.world = World(
            plugin(
                "Plain",
                score_rows=lambda state, pod, table, rows: self.plain[rows],
                score_reuse=rule,
            ),
            plugin(
                "Normalized",
                score_rows=lambda state, pod, table, rows: self.raw[rows],
                normalize_scores=self.normalize,
                score_reuse=rule,
            ),
            plugin(
                EVERY_TIME,
                # Its own array, which it changes later, where it may.
                score_rows=lambda state, pod, table, rows: (
                    self.every_time if len(rows) == NODES else self.every_time[rows]
                ),
            ),
            weights={"Plain": 2, "Normalized": 3, EVERY_TIME: 2},
        )
        self.world.nodes(*(f"n{row}" for row in range(NODES)))
        self.table = self.world.cache.table
        self.pod = self.world.pod()
        self.kept = self.scoring()
        self.entry = CachedResult(self.table.capacity, 1, len(SCORERS))
        self.entry.rejected_by[:NODES] = 0

    def scoring(self) -> Scoring:
        return Scoring(self.world.framework.score_slots, self.table)

    def normalize(self, state: Any, pod: Any, table: Any, rows: Any, scores: Any) -> Any:
        return error("no") if self.normalizing_fails else scores * 100 // max(scores.max(), 1)

    def take(self, step: Step) -> None:
        """Make the changes, and score with what is kept and without."""
        entry = self.entry
        for row, (feasible, self.plain[row], self.raw[row]) in step.changes.items():
            entry.rejected_by[row] = 0 if feasible else 1
            entry.feasible = None
            self.table.change_log.append(row, int(Columns.LABELS))
        for row, raw in step.every_time.items():
            self.every_time[row] = raw
        rows = entry.feasible_rows()
        if step.left_out is not None:
            rows = rows[~np.isin(rows, list(step.left_out))]
        if not len(rows):
            return
        fresh = self.fresh(step, rows)
        state = cycle_state(step)
        self.normalizing_fails = step.normalizing_fails
        if fresh is None:
            with pytest.raises(AttemptError):
                self.score(state, rows, subset=step.left_out is not None)
            return
        try:
            kept, of = self.score(state, rows, subset=step.left_out is not None)
        except AttemptError:
            if not step.normalizing_fails:
                raise
            return
        if of is not None:
            assert kept.tolist() == fresh
            return
        assert kept[rows].tolist() == fresh
        assert (np.delete(kept, rows) == INFEASIBLE).all()
        ties = self.kept.ties(entry, kept)
        assert ties is None or list(ties.rows) == np.flatnonzero(kept == kept.max()).tolist()

    def score(
        self, state: CycleState, rows: Rows, *, subset: bool
    ) -> tuple[Int64Column, Rows | None]:
        """Score with what is kept; returns the totals, and their rows unless all have one."""
        if subset:
            return self.kept.subset_totals(state, self.pod, self.entry, rows), rows
        return self.kept.totals(state, self.pod, self.entry, rows)

    def fresh(self, step: Step, rows: Rows) -> list[int] | None:
        """Return totals made without anything kept; None where a score is out of range."""
        self.normalizing_fails = False
        try:
            totals: list[int] = self.scoring().totals_of(cycle_state(step), self.pod, rows).tolist()
        except AttemptError:
            return None
        return totals


def cycle_state(step: Step) -> CycleState:
    state = CycleState()
    state.skip_score.update(step.skipped)
    return state


@example([step((False, 1)), step((True, 50), leaving_out=True), step((False, 50))])
@example([step((False, 1)), step((True, 50), fails=True), step((False, 50))])
@example([step((True, 1)), step((False, 50), fails=True), step((True, 50))])
@example([every_time(), every_time(), every_time(50), every_time(1, 50), every_time()])
@example([every_time(1), every_time(), every_time(5, 6, 7), every_time(), every_time(8, 6, 8)])
@example([every_time(), every_time(101), every_time(1), every_time(1, 101), every_time(3, 3)])
@example([every_time(), every_time(), every_time(9), step((True, 50)), every_time(9, 9), step()])
@given(steps=st.lists(STEPS, min_size=3, max_size=10) | st.lists(EVERY_TIME_STEPS, min_size=3))
def test_kept_totals_equal_fresh_ones(steps: list[Step]) -> None:
    cluster = Cluster()
    with (
        patch.object(scoring, "FEW_ROWS", FEW_ROWS),
        patch.object(followed_scores, "FEW_SCORES", FEW_ROWS),
    ):
        for step in steps:
            cluster.take(step)


def test_a_full_node_is_not_chosen_though_it_was_empty_for_a_nominated_pod() -> None:
    world = World(NodeResourcesFit, weights={"NodeResourcesFit": 1})
    world.nodes("node1", "node2", "node3")
    whole = {"requests": {"cpu": "8", "memory": "32Gi"}}
    large: dict[str, Any] = {"containers": [{"name": "c", "resources": whole}], "priority": 10}
    for name in ("node2", "node3"):
        world.cache.add_pod(world.pod(f"on-{name}", nodeName=name, **world.requests(6000)))
    victim = world.pod("victim", nodeName="node1", **large)
    preemptor = world.pod("preemptor", **large)

    def choose() -> str:
        return world.chosen(world.pod("p", **world.requests(1000)))

    world.cache.add_pod(victim)
    assert choose() != "node1"
    world.nominations.add_nominated_pod(preemptor, NominatingInfo("node1"))
    world.cache.remove_pod(victim)
    assert choose() != "node1"
    world.nominations.delete_nominated_pod_if_exists(preemptor)
    world.cache.add_pod(world.pod("preemptor", nodeName="node1", **large))
    assert choose() != "node1"
