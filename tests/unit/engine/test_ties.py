"""Ties kept while rows change equal those of a fresh search."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scheduler.engine.ties import Ties

SCORES = st.integers(-1, 4)


@given(
    start=st.lists(SCORES, min_size=1, max_size=12),
    changes=st.lists(st.tuples(st.integers(0, 11), SCORES), max_size=40),
)
def test_kept_ties_equal_fresh_ones(start: list[int], changes: list[tuple[int, int]]) -> None:
    totals = np.array(start, dtype=np.int64)
    ties = Ties(totals)
    for place, after in changes:
        row = place % len(totals)
        ties.change(row, int(totals[row]), after)
        totals[row] = after
        if not ties.rows:
            # The last one fell behind: whoever holds them looks again.
            assert totals.max() < ties.highest
            ties = Ties(totals)
        fresh = Ties(totals)
        assert (ties.highest, ties.rows, ties.nbytes) == (fresh.highest, fresh.rows, fresh.nbytes)


def test_rows_are_ascending() -> None:
    ties = Ties(np.array([3, 1, 3, 2, 3], dtype=np.int64))
    ties.change(2, 3, 0)
    ties.change(1, 1, 3)
    assert list(ties.rows) == [0, 1, 4]
