"""Output on a terminal of 100 columns: nothing is cut off, and reasons appear once."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from rich.console import Console

from scheduler.cli import explanation, queue
from scheduler.explain.records import (
    BindingView,
    Decision,
    DecisionResult,
    Examination,
    ExplainPage,
    NodeScore,
    PluginScore,
    PodExplanation,
    PodState,
    PodView,
    QueuePage,
    QueueState,
    QueueStatistics,
    Rejection,
    Remedies,
)
from scheduler.explain.records.story import tell

WIDTH = 100
NODE = "ip-10-0-13-17.eu-central-1.compute.internal"
PLUGINS = (
    "NodeResourcesFit", "NodeResourcesBalancedAllocation", "ImageLocality", "TaintToleration",
    "NodeAffinity", "PodTopologySpread", "InterPodAffinity",
)  # fmt: skip

VIEW = PodView(
    namespace="analytics",
    name="nightly-batch-7f9c5d8b6-x2k4v",
    uid="u",
    profile="kubestow",
    place=QueueState.UNSCHEDULABLE,
    position=None,
    attempts=12,
    timestamp=900.0,
    next_retry=1_245.0,
    next_retry_reason="periodic flush",
    gating_plugin="",
    message="0/32 nodes are available: 30 Insufficient cpu,\n2 node(s) had untolerated taint(s).",
    unschedulable_plugins=("NodeResourcesFit", "Quota", "TaintToleration"),
    pending_plugins=("Quota",),
    nominated_node="",
    last_event="ScheduleAttemptFailure",
    last_hint="",
)


def terminal() -> Console:
    return Console(file=io.StringIO(), width=WIDTH, force_terminal=True, color_system=None)


def lines(console: Console) -> list[str]:
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue().splitlines()
    assert max(map(len, shown)) <= WIDTH
    return shown


def words(shown: list[str]) -> str:
    return " ".join(" ".join(shown).split())


def page(*views: PodView, **changes: int) -> QueuePage:
    numbers: dict[str, Any] = dict.fromkeys(QueueStatistics.__dataclass_fields__, 0)
    statistics = QueueStatistics(**numbers | changes)
    return QueuePage(
        now=1_000.0, leading=True, namespace="", limit=2, statistics=statistics, pods=list(views)
    )


def test_pods_whose_binding_waits_are_listed_below() -> None:
    console = terminal()
    slow = BindingView(
        "s5", "nosc", "u", "n1", 940.0, "node n1 was chosen 1m ago; its binding waits"
    )
    alone = msgspec.structs.replace(page(), binding=[slow])
    queue.show(alone, console)
    assert words(lines(console)).endswith(
        "1 pod in no queue any more, not bound yet: "
        "s5/nosc: node n1 was chosen 1m ago; its binding waits"
    )
    assert "no pod waits" not in words(lines(console))
    screen = [each.plain for each in queue.draw(alone, 80, 20, ())]
    assert "  s5/nosc: node n1 was chosen 1m ago; its binding waits" in screen


def test_pods_that_wait_for_the_same_reason_share_one_line_about_it() -> None:
    console = terminal()
    gated = replace(
        VIEW, name="g", place=QueueState.GATED, gating_plugin="Gate", next_retry=None, message="no"
    )
    second = replace(VIEW, name="second", next_retry=None)
    queue.show(page(VIEW, second, gated, unschedulable=9, gated=1), console)
    shown = lines(console)
    text = words(shown)
    assert text.count("0/32 nodes are available") == 1
    assert "[1] 2 pods: Quota (pending), NodeResourcesFit, TaintToleration: 0/32 nodes are" in text
    assert "[2] 1 pod: gate Gate: no" in text
    assert shown[2].rstrip() == "unschedulable"
    assert shown[3].split() == [
        "analytics/nightly-batch-7f9c5d8b6-x2k4v",
        "12",
        "in",
        "4m5s",
        "[1]",
    ]
    assert any("second" in line and "after an event" in line for line in shown)
    assert any("when the gate opens" in line and "[2]" in line for line in shown)
    assert shown[-1].rstrip() == "not shown: 7 unschedulable (--limit)"


def test_text_of_plugins_is_shown_as_it_is_without_control_over_the_terminal() -> None:
    console = terminal()
    queue.show(page(replace(VIEW, message="[red]\x1b]0;owned\x07 [/]"), unschedulable=1), console)
    assert "[red]?]0;owned? [/]" in words(lines(console))


def test_the_scores_of_a_placement_are_in_a_table() -> None:
    console = terminal()
    pod = PodExplanation("shop", "p", "u", "kubestow", 0, PodState.BOUND, "bound", 9.0, node="n1")
    fit = (PluginScore("NodeResourcesFit", 90, 90, 180), PluginScore("ImageLocality", 0, 0, 0))
    best = (
        NodeScore("n1", 180, fit),
        NodeScore("n2", 12, (PluginScore("NodeResourcesFit", 6, 6, 12),)),
    )
    decision = Decision(
        seq=1, pod="shop/p", uid="u", profile="kubestow", attempt=1, time=8.0, queue="active",
        event="", hint_plugin="", result=DecisionResult.PLACED, node="n1", message="", nodes=9,
        evaluated=9, feasible=7, best=best,
    )  # fmt: skip
    page = ExplainPage(leading=True, pod=pod, story=["bound"], decisions=[decision])
    explanation.show(page, console, verbose=True)
    shown = lines(console)
    assert "The best of 7 nodes when it was placed" in words(shown)
    rows = [line.split() for line in shown if line.startswith(("n1 ", "n2 "))]
    assert rows == [["n1", "180", "90"], ["n2", "12", "6"]]
    assert "Image" not in words(shown)


def explained(console: Console, nodes: Examination, **changes: object) -> None:
    """Show an explanation with all tables."""
    told = PodExplanation(
        "analytics", "p", "u", "kubestow", 7, PodState.QUEUED, "told", 1_000.0,
        queue=VIEW, nodes=nodes,
    )  # fmt: skip
    pod = replace(told, **changes)  # type: ignore[arg-type]
    explanation.show(ExplainPage(leading=True, pod=pod, story=tell(pod)), console, verbose=True)


def test_scores_of_a_whole_profile_and_long_names_of_nodes_fit() -> None:
    console = terminal()
    scores = tuple(PluginScore(name, 7, 7, 14) for name in PLUGINS[:-1])
    affinity = PluginScore(PLUGINS[-1], -12345, 100, 200)
    nodes = Examination(
        nodes=40,
        feasible=3,
        rejections=(
            Rejection("NodeResourcesFit", "Unschedulable", ("Insufficient cpu",), 30, (NODE,) * 2),
            Rejection("Quota", "Pending", ("later",), 7, ("n1",), only_nominated=True),
        ),
        best=(NodeScore(NODE, 284, (*scores, affinity)), NodeScore("n2", 284, scores)),
        tied=2,
        weights=dict.fromkeys(PLUGINS, 2),
        skipped_filters=("NodePorts",),
        skipped_scores=("DynamicResources",),
    )
    explained(console, nodes)
    shown = lines(console)
    text = words(shown)
    assert "37 of 40 nodes reject the pod" in text
    assert any(line.lstrip().startswith("30 ") and "might help" in line for line in shown)
    assert any(NODE in line for line in shown)
    assert any("Quota" in line and "later (counting" in line for line in shown)
    assert "It fits on 3 of 40 nodes" in text
    assert any(line.split() == ["NODE", "n2"] for line in shown)
    for note in ("1 more fit", "2 nodes share the highest total", "NodePorts", "DynamicResources"):
        assert note in text


@pytest.mark.parametrize(
    ("nodes", "told"),
    [
        (Examination(0, 0, notes=("the cluster has no nodes",)), "note: the cluster has no nodes"),
        (Examination(2, 0, error="running P: \x1b[0m no"), "with an error running P: ?[0m no"),
        # A profile without Score plugins.
        (Examination(1, 1, best=(NodeScore("n1", 0, ()),)), "It fits on 1 of 1 nodes n1"),
    ],
)
def test_explanations_without_tables(nodes: Examination, told: str) -> None:
    console = terminal()
    explained(console, nodes, queue=None)
    assert told in words(lines(console))


def test_in_a_pipe_a_pod_is_one_line_and_only_wide_ones_have_the_whole_message() -> None:
    message = f"{VIEW.message} preemption: 0/32 nodes are available."
    long, more = replace(VIEW, message="x" * 500), replace(VIEW, message=message)
    told = {}
    for wide in (False, True):
        console = Console(file=io.StringIO(), width=10_000, force_terminal=False)
        queue.show(page(long, more, unschedulable=2), console, wide=wide)
        assert isinstance(console.file, io.StringIO)
        told[wide] = console.file.getvalue().splitlines()
        assert len(told[wide]) == 1 + 1 + 2
    assert "x" * 500 in told[True][2]
    assert told[False][2].endswith("xxx…")
    assert told[True][3].endswith(
        "2 node(s) had untolerated taint(s). preemption: 0/32 nodes are available."
    )
    assert "30 Insufficient cpu, 2 node(s)" in told[False][3]
    assert "preemption" not in told[False][3]
    assert max(map(len, told[False])) < 120 + queue.MAX_HELD


@pytest.mark.parametrize(
    ("remedies", "search", "text"),
    [
        (Remedies(complete=False), "quick", "not tried in the time: --remedies all takes more"),
        (Remedies(complete=False), "all", "There may be others, which were not tried in the time."),
        (Remedies(tried=7), "quick", "No single change that would place it was found in 7 trials."),
    ],
)
def test_a_search_for_remedies_that_ended_early_says_so(
    remedies: Remedies, search: str, text: str
) -> None:
    console = terminal()
    pod = PodExplanation("a", "p", "u", "kubestow", 0, PodState.QUEUED, "told", 1_000.0, queue=VIEW)
    found = ExplainPage(leading=True, pod=pod, story=tell(pod), remedies=remedies)
    explanation.show(found, console, search=search)
    shown = words(lines(console))
    assert text in shown
    assert ("There may be others" in shown) == (not remedies.complete)
