"""The verdict about two policies: which is better, at what and by how much."""

from __future__ import annotations

import pytest

from simulator.offline.verdict import Contrast, contrasts, verdict

Values = dict[str, dict[str, list[float]]]


def told(values: Values) -> str:
    ((base, other, found),) = contrasts(values)
    return verdict(base, other, found)


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        (
            {"placed": [20.0], "wait_mean": [3.0]},
            {"placed": [25.0], "wait_mean": [6.0]},
            (
                "b is better than a at placed (25 instead of 20), "
                "but worse at wait_mean (6 instead of 3)."
            ),
        ),
        ({"waiting": [0.0]}, {"waiting": [2.0]}, "b is worse than a at waiting (2 instead of 0)."),
        ({"placed": [1.0]}, {"placed": [1.0]}, "b does as well as a: every figure is equal."),
        # Neither more nor fewer nodes are better as such.
        (
            {"nodes_used": [3.0]},
            {"nodes_used": [2.0]},
            "Neither b nor a is clearly better; see the figures that differ.",
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
    assert told(values).startswith("b is better than a at placed")


def test_the_largest_difference_comes_first_and_means_over_time_only_alone() -> None:
    before = {"placed": [10.0], "cpu_allocation": [10.0], "cpu_allocation_mean": [10.0]}
    after = {"placed": [11.0], "cpu_allocation": [20.0], "cpu_allocation_mean": [20.0]}
    ((_, _, found),) = contrasts({"a": before, "b": after})
    assert [each.figure for each in found] == ["cpu_allocation", "placed"]
    (only,) = contrasts({"a": {"m_mean": [1.0]}, "b": {"m_mean": [2.0]}})
    assert [each.figure for each in only[2]] == ["m_mean"]


def test_the_difference_is_said_in_per_cent_where_there_was_anything() -> None:
    assert str(Contrast("x", [20.0], [15.0], "things")) == "15 instead of 20, 25 % less: things"
    assert str(Contrast("x", [0.0], [2.0], "things")) == "2 instead of 0: things"
