"""The choice among candidate nodes (preemption.go: pickOneNodeForPreemption)."""

from __future__ import annotations

import pytest

from tests.unit.engine.preemption.harness import ALLOCATABLE, Cluster, cluster


@pytest.mark.parametrize(
    ("first", "second", "why"),
    [
        ([(10, "01")], [(20, "01")], "lower priority of the most important victim"),
        ([(10, "01"), (5, "01")], [(10, "01"), (6, "01")], "the sum of priorities"),
        ([(10, "05"), (5, "01")], [(10, "04"), (5, "02")], "the most important started later"),
        ([(10, ""), (5, "01")], [(10, "04"), (5, "02")], "not started counts as now"),
    ],
)
def test_the_candidate_of_the_lowest_rank_is_chosen(
    first: list[tuple[int, str]], second: list[tuple[int, str]], why: str
) -> None:
    for order in (("n1", "n2"), ("n2", "n1")):
        c = cluster(2)
        for node, pods in zip(order, (first, second), strict=True):
            for index, (priority, start) in enumerate(pods):
                c.place(f"{node}-{index}", node, "1", priority, start)
            c.place(f"{node}-rest", node, f"{4 - len(pods)}", 500)
        assert c.decide(c.incoming(f"{len(first)}", 100)).node_name == order[0], why


def test_more_victims_rank_higher_even_at_negative_priority() -> None:
    c = cluster(2)
    c.place("n1-mid", "n1", "2", 10)
    c.place("n1-neg", "n1", "2", -5)
    c.place("n2-mid", "n2", "2", 10)
    c.place("n2-neg1", "n2", "1", -5)
    c.place("n2-neg2", "n2", "1", -5)
    assert c.decide(c.incoming("4")).node_name == "n1"


def test_ties_are_broken_at_random_and_repeatably() -> None:
    def picks(seed: int) -> list[str]:
        c = Cluster(seed=seed)
        for number in range(5):
            c.node(f"n{number}", allocatable=ALLOCATABLE)
            c.place(f"p{number}", f"n{number}", "4")
        return [c.decide(c.incoming(name=f"in{index}")).node_name for index in range(12)]

    assert picks(1) == picks(1)
    assert len(set(picks(1))) > 1
