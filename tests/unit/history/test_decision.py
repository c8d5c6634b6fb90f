"""Decision: the record of one attempt, and what follows from it."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import msgspec

from scheduler.explain.records import NodeScore, PluginScore
from scheduler.history import Decision, DecisionResult, RejectionCount

PLACED: Final = Decision(
    seq=1,
    pod="default/web-0",
    uid="u1",
    profile="kubestow",
    attempt=2,
    time=100.0,
    queue="active",
    event="NodeAdd",
    hint_plugin="NodeAffinity",
    result=DecisionResult.PLACED,
    node="n2",
    message="",
    nodes=3,
    evaluated=3,
    feasible=2,
    best=(
        NodeScore("n1", 90, (PluginScore("NodeResourcesFit", 90, 90, 90),)),
        NodeScore("n2", 80, (PluginScore("NodeResourcesFit", 80, 80, 80),)),
    ),
    phases={"queued": 0.5},
    bound=100.25,
)


def test_the_score_is_that_of_the_chosen_node() -> None:
    assert PLACED.score == 80


def test_a_decision_without_scores_has_no_score() -> None:
    assert replace(PLACED, best=()).score is None


def test_the_latency_ends_with_the_binding() -> None:
    assert PLACED.seconds == 0.25
    assert replace(PLACED, bound=0.0).seconds == 0.0


def test_json_decodes_to_the_same_record() -> None:
    rejected = replace(
        PLACED,
        result=DecisionResult.UNSCHEDULABLE,
        rejections=(RejectionCount("NodeResourcesFit", "Unschedulable", "Insufficient cpu", 3),),
    )
    for decision in (PLACED, rejected):
        assert msgspec.json.decode(msgspec.json.encode(decision), type=Decision) == decision
