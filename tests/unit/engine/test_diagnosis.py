"""The groups of a diagnosis: each filter with each of its codes, counted."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scheduler.engine.diagnosis import RejectedRows
from scheduler.framework import Code, Status

CODES = st.integers(0, 3) | st.sampled_from([-5, 1023, 1024, 1 << 30])


@given(st.lists(st.tuples(st.integers(0, 3), CODES), max_size=20))
def test_every_pair_of_filter_and_code_is_counted_in_ascending_order(
    pairs: list[tuple[int, int]],
) -> None:
    rejected = RejectedRows(
        np.arange(len(pairs), dtype=np.intp),
        np.array([index for index, _ in pairs], dtype=np.int8),
        np.array([code for _, code in pairs], dtype=np.int32),
        lambda index, code: Status(Code.UNSCHEDULABLE, (f"{index} {code}",)),
    )
    expected = [
        (f"{index} {code}", count) for (index, code), count in sorted(Counter(pairs).items())
    ]
    assert [(status.message, count) for status, count in rejected.groups()] == expected
