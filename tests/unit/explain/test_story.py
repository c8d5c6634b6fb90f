"""Explanations in plain words, sentence by sentence."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import Any, Final

import pytest

from scheduler.explain.records import (
    Awaited,
    Decision,
    DecisionResult,
    Examination,
    NodeScore,
    NotRemembered,
    PluginScore,
    PodExplanation,
    PodState,
    PodView,
    QueueState,
    Rejection,
    RejectionCount,
)
from scheduler.explain.records.story import compared, tell

VIEW = PodView(
    namespace="default", name="web", uid="u", profile="kubestow", place=QueueState.UNSCHEDULABLE,
    position=None, attempts=3, timestamp=900.0, next_retry=1_185.0,
    next_retry_reason="periodic flush", gating_plugin="", message="0/41 nodes are available",
    unschedulable_plugins=("NodeResourcesFit",), pending_plugins=(), nominated_node="",
    last_event="", last_hint="",
)  # fmt: skip
CPU = Rejection("NodeResourcesFit", "Unschedulable", ("Insufficient cpu",), 40, ("n1", "n2"))
TAINT = Rejection("TaintToleration", "UnschedulableAndUnresolvable", ("untolerated",), 1, ("n9",))
NODES = Examination(41, 0, (CPU, TAINT))


def pending(view: PodView = VIEW, nodes: Examination = NODES) -> PodExplanation:
    return PodExplanation(
        "default", "web", "u", "kubestow", 0, PodState.QUEUED, "", 1_000.0, queue=view,
        nodes=nodes, awaits=(Awaited("NodeResourcesFit", ("NodeAdd", "AssignedPodDelete")),),
    )  # fmt: skip


def decision(**changes: Any) -> Decision:
    given: dict[str, Any] = {
        "seq": 7, "pod": "default/web", "uid": "u", "profile": "kubestow", "attempt": 2,
        "time": 990.0, "queue": "active", "event": "NodeAdd", "hint_plugin": "NodeResourcesFit",
        "result": DecisionResult.PLACED, "node": "n1", "message": "", "nodes": 50,
        "evaluated": 45, "feasible": 41, "bound": 990.25,
    }  # fmt: skip
    return Decision(**given | changes)


def test_a_pod_that_fits_nowhere() -> None:
    counts = RejectionCount("NodeResourcesFit", "Unschedulable", "Insufficient cpu", 40, "wants 6")
    last = decision(result=DecisionResult.UNSCHEDULABLE, node="", rejections=(counts,))
    assert tell(pending(), [last]) == [
        (
            "None of 41 nodes fits: 40 lack CPU (wants 6); "
            "1 (n9) is rejected by TaintToleration: untolerated."
        ),
        "It is unschedulable, after 3 attempts, the last 1m40s ago.",
        (
            "It is tried again when a node appears; when a placed pod goes; "
            "and in 3m5s at the latest (periodic flush)."
        ),
    ]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"place": QueueState.ACTIVE, "position": 0},
            "waits for its turn in the queue: it is next",
        ),
        ({"place": QueueState.ACTIVE, "position": 12}, "in the queue: 12 pods before it."),
        ({"place": QueueState.BACKOFF}, "It is tried again in 3m5s at the latest"),
        ({"place": QueueState.IN_FLIGHT}, "It is being scheduled at this moment."),
        ({"place": QueueState.GATED, "gating_plugin": "Gate"}, "Plugin Gate does not let it"),
        ({"nominated_node": "n5"}, "Node n5 is nominated for it."),
        ({"next_retry": None}, "when a placed pod goes."),
    ],
)
def test_places_in_the_queue(changes: dict[str, Any], sentence: str) -> None:
    assert sentence in " ".join(tell(pending(replace(VIEW, **changes))))


@pytest.mark.parametrize(
    ("nodes", "sentence"),
    [
        (Examination(0, 0), "The cluster has no nodes."),
        (Examination(3, 0, error="P failed"), "would end with an error: P failed."),
        (Examination(3, 2, best=(NodeScore("n1", 7, ()),)), "It fits on 2 of 3 nodes now, best on"),
        (
            Examination(3, 2, best=(NodeScore("n1", 7, ()),), tied=2),
            "on 2 of 3 nodes now, best on n1 and 1 other alike, of which one is chosen.",
        ),
        (Examination(1, 0, (TAINT,)), "Evicting other pods would not help."),
        (replace(NODES, evictable=3), "might help on 3 nodes."),
        (
            replace(NODES, evictable=0),
            "would not help: no pod on those nodes has a lower priority.",
        ),
        (replace(NODES, otherwise=(CPU,)), "untolerated. Apart from that, 40 lack CPU. It is uns"),
        (
            Examination(9, 0, tuple(replace(CPU, plugin=each) for each in "ABCDE")),
            "80 others for other reasons (-v).",
        ),
        (
            Examination(41, 0, (CPU, replace(CPU, status=TAINT.status, nodes=1, examples=("n3",)))),
            "None of 41 nodes fits: 41 lack CPU.",
        ),
        (
            Examination(41, 0, (replace(CPU, detail="a"), replace(CPU, nodes=1, detail="b"))),
            "40 lack CPU (a); 1 (n1) lacks CPU (b).",
        ),
    ],
)
def test_results_of_nodes(nodes: Examination, sentence: str) -> None:
    assert sentence in " ".join(tell(pending(nodes=nodes)))


@pytest.mark.parametrize(
    ("plugins", "detail", "said"),
    [
        ("A", "", "3 are ruled out by A."),
        ("A, B", "", "3 are ruled out by A, B."),
        ("NodeAffinity", "node n9 does not exist",
         "3 are not nodes that it names (node n9 does not exist)."),
    ],
)  # fmt: skip
def test_a_plugin_that_leaves_nodes_out_is_named_once(plugins: str, detail: str, said: str) -> None:
    reason = f"node(s) didn't satisfy plugin(s) [{plugins.replace(',', '')}]"
    left_out = Rejection(plugins, "UnschedulableAndUnresolvable", (reason,), 3, (), detail=detail)
    assert tell(pending(nodes=Examination(3, 0, (left_out,))))[0] == f"None of 3 nodes fits: {said}"


def test_several_resources_are_joined() -> None:
    both = replace(CPU, reasons=("Insufficient cpu", "Insufficient memory"))
    assert "40 lack CPU and memory." in tell(pending(nodes=Examination(40, 0, (both,))))[0]


def test_a_permission_that_the_scheduler_lacks_is_named() -> None:
    fits = Examination(3, 3, best=(NodeScore("n1", 7, ()),))
    told = (
        'running Bind plugin "DefaultBinder": POST /bindings: 403 Forbidden: pods "web" is '
        'forbidden: User "{user}" cannot create resource "pods/binding" in API group ""'
    )
    for user, account in (
        ("system:serviceaccount:ops:kubestow", " --service-account ops/kubestow"),
        ("kubestow", ""),
    ):
        message = told.format(user=user)
        view = replace(VIEW, place=QueueState.BACKOFF, message=message)
        assert (
            "The scheduler itself lacks the permission to create pods/binding: "
            f"`kubestow check{account}` shows the rule to add."
        ) in tell(pending(view, fits))
    assert "lacks the permission" not in " ".join(tell(pending(nodes=fits)))


def score(node: str, fit: int, image: int) -> NodeScore:
    scores = (PluginScore("Fit", 0, 0, fit), PluginScore("ImageLocality", 0, 0, image))
    return NodeScore(node, fit + image, scores)


BOUND = PodExplanation(
    "default", "web", "u", "kubestow", 0, PodState.BOUND, "bound to node n1", 1_000.0, node="n1"
)


def test_a_bound_pod_is_compared_with_the_next_best_node() -> None:
    best = (score("n1", 380, 3), score("n3", 368, 5))
    assert tell(BOUND, [decision(best=best, victims=("default/a",))]) == [
        "Bound to node n1.",
        (
            "Chosen: n1 (total 383) of 41 that fit, 45 of 50 looked at; "
            "next n3: Fit -12, ImageLocality +2."
        ),
        "It was attempt 2, bound 250 ms after it began.",
        "Evicted for it: default/a.",
    ]
    assert tell(BOUND, [decision()])[1].endswith("; nothing was scored.")
    alone = tell(BOUND, [decision(feasible=1)])[1]
    assert alone.endswith("; nothing was scored, as no other was found to fit.")


PREEMPTING: Final = {
    "attempt": 1,
    "result": DecisionResult.UNSCHEDULABLE,
    "node": "",
    "nominated_node": "n1",
    "victims": ("default/a", "default/b", "default/c", "default/d"),
}
VICTIMS: Final = "default/a, default/b, default/c and 1 other (--history)"


@pytest.mark.parametrize(
    ("changes", "sentences"),
    [
        ({}, [f"Evicted for it: {VICTIMS}."]),
        ({"nominated_node": "n2"}, [f"Evicted for it on n2: {VICTIMS}."]),
        ({"victims": ()}, []),
        ({"uid": "an earlier pod of the name"}, []),
    ],
)
def test_the_pods_that_an_earlier_attempt_evicted_are_named(
    changes: dict[str, Any], sentences: list[str]
) -> None:
    told = tell(BOUND, [decision(**PREEMPTING | changes), decision(feasible=1)])
    assert told[3:] == sentences


def test_the_pods_that_are_leaving_are_named_after_another_attempt() -> None:
    view = replace(VIEW, nominated_node="n1")
    again = decision(result=DecisionResult.UNSCHEDULABLE, node="")
    told = tell(pending(view), [decision(**PREEMPTING), again])
    assert f"Pods were evicted ({VICTIMS}) to make room on n1." in told


def test_evictions_on_another_node_say_nothing_of_the_nominated_one() -> None:
    view = replace(VIEW, nominated_node="n1")
    told = tell(pending(view), [decision(**PREEMPTING | {"nominated_node": "n2"})])
    assert "Node n1 is nominated for it." in told
    assert not [each for each in told if "evicted" in each]


def test_equal_scores_and_many_plugins_are_compared() -> None:
    assert compared(score("a", 1, 2), score("b", 1, 2)).startswith("equal scores")
    many = tuple(PluginScore(f"P{n}", 0, 0, n) for n in range(8))
    text = compared(NodeScore("a", 28, many), NodeScore("b", 0, ()))
    assert text == "P7 -7, P6 -6, P5 -5, P4 -4, 3 other plugins -6"


@pytest.mark.parametrize("why", [NotRemembered.OFF, NotRemembered.EARLIER, NotRemembered.EVICTED])
def test_a_decision_that_is_not_remembered_is_said_so_and_why(why: NotRemembered) -> None:
    first, second = tell(BOUND, (), why)
    assert (first, second[:38]) == (
        "Bound to node n1.",
        "Why this node was chosen is not known:"[:38],
    ) or (why is NotRemembered.EVICTED and second.startswith("Why this node was chosen is not"))


def test_decisions_about_another_node_explain_nothing() -> None:
    assert tell(BOUND, [decision(node="n2")]) == ["Bound to node n1."]


def test_the_records_are_imported_without_numpy_and_the_engine() -> None:
    code = (
        "import sys, scheduler.cli.explanation, scheduler.cli.top, scheduler.cli.live\n"
        "print([name for name in ('numpy', 'aiohttp', 'scheduler.engine') if name in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"
