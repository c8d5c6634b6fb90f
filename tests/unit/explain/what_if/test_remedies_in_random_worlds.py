"""A few of the worlds of `make remedies`: remedies, applied to a fresh world, place the pod."""

from __future__ import annotations

import pytest

from benchmarks.remedies.judging import judge


@pytest.mark.slow
def test_remedies_work_where_they_are_applied() -> None:
    found = judge(
        # In the last two, rivals must be found, and several steps concern one node.
        [("preemption", 1), ("spread", 2), ("taints", 0), ("preemption", 7), ("changing", 8)]
    )
    assert found.pending
    assert found.wrong == []
    assert found.helpless == []


@pytest.mark.slow
def test_no_priority_is_shown_where_a_pod_on_another_node_stays_in_the_way() -> None:
    """Preemption frees one node; a claim of one pod at a time is held elsewhere."""
    assert judge([("volumes", 15)]).wrong == []
