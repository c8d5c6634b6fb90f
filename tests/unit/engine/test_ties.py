"""Ties kept while rows change equal those of a fresh search."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.offline import arrivals
from scheduler import offline
from scheduler.engine.ties import Ties

SCORES = st.integers(-1, 4)


@given(
    start=st.lists(SCORES, min_size=1, max_size=12),
    changes=st.lists(st.tuples(st.integers(0, 11), SCORES, st.booleans()), max_size=40),
    block=st.sampled_from([1, 2, 3, 4, 16]),
)
def test_kept_ties_equal_fresh_ones(
    start: list[int], changes: list[tuple[int, int, bool]], block: int
) -> None:
    totals = np.array(start, dtype=np.int64)
    ties = Ties(totals, block)
    for place, after, read in changes:
        row = place % len(totals)
        before = totals.item(row)
        totals[row] = after
        if before >= ties.floor or after >= ties.floor:
            ties.change(row, before, after)
        if read:
            expected = (totals == totals.max()).nonzero()[0].tolist()
            rows = ties.rows
            assert list(rows) == list(rows[:]) == np.asarray(rows).tolist() == expected
            assert [rows[each] for each in range(len(rows))] == expected
            assert 4 * len(totals) >= ties.nbytes >= 4 * len(expected)


def test_rows_are_ascending() -> None:
    totals = np.array([3, 1, 3, 2, 3], dtype=np.int64)
    ties = Ties(totals)
    totals[2], totals[1] = 0, 3
    ties.change(2, 3, 0)
    ties.change(1, 1, 3)
    assert list(ties.rows) == [0, 1, 4]


def test_only_the_block_that_lost_its_maximum_is_searched_again() -> None:
    totals = np.array([2, 2, 9, 2], dtype=np.int64)
    ties = Ties(totals, block=2)
    assert list(ties.rows) == [2]
    totals[2] = 1
    ties.change(2, 9, 1)
    # Not known to the ties, so a search of the first block would find it.
    totals[0] = 5
    assert list(ties.rows) == [0, 1, 3]


def test_an_index_beyond_the_rows_is_an_error() -> None:
    rows = Ties(np.zeros(4, dtype=np.int64), block=2).rows
    with pytest.raises(IndexError):
        rows[4]


def test_pods_get_the_same_nodes_whatever_the_size_of_blocks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    results = []
    for block in (4, 16, 1 << 14):
        monkeypatch.setattr("scheduler.engine.scoring.Ties", partial(Ties, block=block))
        with offline.World(seed=1) as world:
            world.add_nodes(offline.node(cpu=16, memory="64Gi"), count=40)
            results.append(world.run(workload=list(arrivals(100, seed=2))).to_json())
    assert results[0] == results[1] == results[2]
