"""The verdict about two policies: which is better, at what and by how much."""

from __future__ import annotations

import pytest

from scheduler.offline.verdict import Contrast, contrasts, foremost, verdict

Values = dict[str, dict[str, list[float]]]


def told(values: Values) -> str:
    ((base, other, found),) = contrasts(values)
    return verdict(base, other, found)


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        (
            {"placed": [20.0], "wait_mean": [30.0]},
            {"placed": [25.0], "wait_mean": [90.0]},
            (
                "b is better than a: pods placed 25 instead of 20 (25 % more). "
                "It is worse at this: mean wait 1m30s instead of 30s (200 % more)."
            ),
        ),
        (
            {"waiting": [0.0]},
            {"waiting": [2.0]},
            "b is worse than a: pods without a node 2 instead of 0.",
        ),
        ({"placed": [1.0]}, {"placed": [1.0]}, "b does as well as a: every figure is equal."),
        # Neither more nor fewer nodes are better as such.
        (
            {"nodes_used": [3.0]},
            {"nodes_used": [2.0]},
            "Neither b nor a is clearly better; see the figures that differ.",
        ),
        # The pods without a node decide for the first policy, too.
        (
            {"waiting": [1.0], "wait_mean": [90.0]},
            {"waiting": [2.0], "wait_mean": [30.0]},
            (
                "b is worse than a: pods without a node 2 instead of 1 (100 % more). "
                "It is better at this: mean wait 30s instead of 1m30s (66.7 % less)."
            ),
        ),
        # Figures that disagree name no winner, and the larger difference comes first.
        (
            {"cpu_fragmentation": [8.5], "memory_fragmentation": [45.8]},
            {"cpu_fragmentation": [8.0], "memory_fragmentation": [53.7]},
            (
                "Neither is better at everything. "
                "a is better at this: free memory of no use 45.8 % instead of 53.7 %. "
                "b is better at this: free cpu of no use 8 % instead of 8.5 %."
            ),
        ),
        (
            {"evicted": [10.0], "wait_mean": [90.0]},
            {"evicted": [11.0], "wait_mean": [30.0]},
            (
                "Neither is better at everything. "
                "b is better at this: mean wait 30s instead of 1m30s (66.7 % less). "
                "a is better at this: pods evicted 10 instead of 11 (9.09 % less)."
            ),
        ),
        # One per cent is no advantage to set against the rest.
        (
            {"cpu_fragmentation": [8.5], "memory_fragmentation": [45.8]},
            {"cpu_fragmentation": [8.41], "memory_fragmentation": [53.7]},
            "b is worse than a: free memory of no use 53.7 % instead of 45.8 %.",
        ),
        # So little makes nobody better.
        (
            {"cpu_allocation_mean": [35.81]},
            {"cpu_allocation_mean": [35.83]},
            "Neither b nor a is clearly better; see the figures that differ.",
        ),
        # Shares are not compared in per cent of per cent; what pods got comes first.
        (
            {"gpu_fragmentation": [40.0], "evicted": [10.0]},
            {"gpu_fragmentation": [10.0], "evicted": [9.0]},
            (
                "b is better than a: pods evicted 9 instead of 10 (10 % less); "
                "free gpu of no use 10 % instead of 40 %."
            ),
        ),
    ],
)
def test_the_better_policy_is_named(
    before: dict[str, list[float]], after: dict[str, list[float]], sentence: str
) -> None:
    assert told({"a": before, "b": after}) == sentence


def test_what_may_be_chance_is_no_verdict() -> None:
    values: Values = {"a": {"placed": [20.0, 24.0]}, "b": {"placed": [23.0, 26.0]}}
    assert told(values).startswith("Neither b nor a is clearly better")
    values["b"]["placed"] = [25.0, 26.0]
    assert told(values).startswith("b is better than a: pods placed")


def test_the_largest_difference_of_each_subject_comes_first() -> None:
    before = {"placed": [10.0], "wait_mean": [9.0], "wait_max": [90.0], "cpu_allocation": [10.0]}
    after = {"placed": [11.0], "wait_mean": [3.0], "wait_max": [80.0], "cpu_allocation": [20.0]}
    mean_too = {"cpu_allocation_mean": [10.0]}, {"cpu_allocation_mean": [11.0]}
    ((_, _, found),) = contrasts({"a": before | mean_too[0], "b": after | mean_too[1]})
    assert [each.figure for each in found] == [
        "wait_mean", "cpu_allocation", "wait_max", "placed", "cpu_allocation_mean",
    ]  # fmt: skip
    assert [each.figure for each in foremost(found)] == ["wait_mean", "cpu_allocation", "placed"]


def test_a_mean_over_the_time_counts_where_the_ends_are_equal() -> None:
    before = {"m_allocation": [0.0], "m_allocation_mean": [10.0]}
    after = {"m_allocation": [0.0], "m_allocation_mean": [20.0]}
    assert told({"a": before, "b": after}) == (
        "b is better than a: m requested, on average 20 % instead of 10 %."
    )


def test_the_difference_is_said_in_per_cent_where_there_was_anything() -> None:
    assert str(Contrast("nodes", [20.0], [15.0])) == "nodes 15 instead of 20 (25 % less)"
    assert str(Contrast("nodes", [0.0], [2.0])) == "nodes 2 instead of 0"
