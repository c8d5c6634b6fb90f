"""A few of the worlds of `make remedies`: remedies, applied to a fresh world, place the pod."""

from __future__ import annotations

from benchmarks.remedies.judging import judge


def test_remedies_work_where_they_are_applied() -> None:
    found = judge(
        # In the last two, rivals must be found, and several steps concern one node.
        [("preemption", 1), ("spread", 2), ("taints", 0), ("preemption", 7), ("changing", 8)]
    )
    assert found.pending
    assert found.wrong == []
    assert found.helpless == []
