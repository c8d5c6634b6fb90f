"""From looks at the node table to a verdict."""

from __future__ import annotations

import pytest

from scheduler.explain.records import NodeScore, PluginScore
from scheduler.explain.records.shadow import ShadowVerdict
from scheduler.shadow.judging import MAX_MESSAGE, Look, differences, judge, reasons, same_reasons


def score(node: str, **weighted: int) -> NodeScore:
    scores = tuple(PluginScore(name, each, each, each) for name, each in weighted.items())
    return NodeScore(node, sum(weighted.values()), scores)


FAR = Look(
    "a",
    fits=True,
    best=score("a", Fit=90, Spread=200, Image=0),
    there=score("b", Fit=95, Spread=0, Image=0),
)


def test_the_binding_is_right_in_any_look() -> None:
    assert judge([FAR, Look("b", agrees=True, fits=True)]).verdict is ShadowVerdict.WINDOW


def test_the_first_look_gives_the_reason() -> None:
    later = Look("c", plugin="Taints", message="no")
    found = judge([FAR, later])
    assert (found.verdict, found.best, found.plugin) == (ShadowVerdict.OTHER, "a", "Spread")
    assert [(each.plugin, each.best - each.there) for each in found.scores] == [
        ("Spread", 200),
        ("Fit", -5),
    ]


def test_no_more_looks_are_taken_than_needed() -> None:
    taken = []

    def looks() -> object:
        for number in range(3):
            taken.append(number)
            yield Look("a", agrees=True)

    judge(looks())  # type: ignore[arg-type]
    assert taken == [0]


@pytest.mark.parametrize(
    ("look", "verdict"),
    [
        (Look("a", plugin="Taints"), ShadowVerdict.WOULD_NOT_FIT),
        (Look(plugin="Fit", message="0/1"), ShadowVerdict.WOULD_HAVE_WAITED),
        (Look(plugin="Mine", error="KeyError()"), ShadowVerdict.UNJUDGED),
        (Look("a", fits=True), ShadowVerdict.OTHER),
    ],
)
def test_verdicts(look: Look, verdict: ShadowVerdict) -> None:
    found = judge([look])
    assert (found.verdict, found.plugin) == (verdict, look.plugin)


def test_a_message_is_bounded() -> None:
    assert len(judge([Look(plugin="x", message="m" * 5000)]).message) == MAX_MESSAGE
    assert len(judge([Look(plugin="x", error="m" * 5000)]).message) == MAX_MESSAGE


def test_without_scores_there_are_no_differences() -> None:
    assert differences(None, score("b", Fit=1)) == ()
    assert differences(score("a", Fit=1), score("b", Fit=1)) == ()


@pytest.mark.parametrize(
    ("here", "there", "same"),
    [
        ("", "", True),
        ("0/2 nodes are available: 2 Insufficient cpu.", "no nodes available", False),
        ("a plugin says, 3 times, no", "a plugin says, 3 times, no", True),
        (
            "0/3 nodes are available: 1 node(s) had untolerated taint {a: b, c}, 2 Too many pods.",
            "0/9 nodes are available: 8 Too many pods, 1 node(s) had untolerated taint {a: b, c}.",
            True,
        ),
        (
            "0/1 nodes are available: 1 Insufficient cpu. preemption: not eligible due to x.",
            "0/1 nodes are available: 1 Insufficient cpu, preemption: 0/1 nodes are available.",
            True,
        ),
    ],
)
def test_reasons_are_compared_without_numbers(here: str, there: str, same: bool) -> None:
    assert same_reasons(here, there) is same


def test_a_huge_message_costs_little() -> None:
    assert reasons("1 " * 1_000_000)
