"""Everything that commands print, with long and hostile names, on narrow terminals and in pipes.

On a terminal no line is too long, no word is broken that fits on a line, and nothing controls the
terminal. In a pipe nothing is lost or wrapped.
"""

from __future__ import annotations

import io
import unicodedata
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner
from rich.cells import cell_len
from rich.console import Console

from scheduler import offline
from scheduler.cli import (
    capacity,
    check,
    config,
    explanation,
    quota,
    quota_limits,
    replay,
    simulation_output,
    tables,
    top,
    whatif,
)
from scheduler.cli import queue as queue_command
from scheduler.cli.main import program
from scheduler.cli.quota_limits import QuotaRow
from scheduler.explain.records import (
    Awaited,
    Decision,
    DecisionResult,
    Examination,
    ExplainPage,
    NodeCheck,
    NodeFill,
    NodeReport,
    NodeScore,
    Placement,
    PluginScore,
    PodExplanation,
    PodState,
    PodView,
    QueuePage,
    QueueState,
    QueueStatistics,
    Rates,
    Rejection,
    RejectionCount,
    ResourceRoom,
    ResourceUse,
    SummaryPage,
    WhatIfResult,
)
from scheduler.explain.records.story import tell
from scheduler.framework.permissions import Permission
from scheduler.offline import Capacity
from scheduler.offline.judgement import Judgement
from scheduler.recording.outcomes import Outcome

Show = Callable[[Console], None]

LONGEST: Final = "n-" + 62 * "abc." + "end"
"""As long as a name can be: it has to be folded."""
NODE: Final = "ip-10-0-13-17.eu-central-1.compute.internal"
POD: Final = "nightly-batch-report-generator-7f9c5d8b6-x2k4v"
HOSTILE: Final = "\x1b[31mred\x1b]0;title\x07 \u202eback\r\n\x9b2J\x00 [bold]markup[/] \u200bend"
SENTENCE: Final = f"0/41 nodes are available: {HOSTILE}, 30 Insufficient example.com/accelerator."
PLUGINS: Final = (
    *("NodeResourcesFit", "NodeResourcesBalancedAllocation", "ImageLocality", "TaintToleration"),
    *("NodeAffinity", "PodTopologySpread", "InterPodAffinity"),
)


def view(name: str, place: QueueState, **changes: Any) -> PodView:
    """Return a pod that waits."""
    given: dict[str, Any] = {
        "namespace": "analytics",
        "name": name,
        "uid": "0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f",
        "profile": "kubestow",
        "place": place,
        "position": None,
        "attempts": 123_456,
        "timestamp": 1_000.0,
        "next_retry": 90_000.0,
        "next_retry_reason": "requested by the rejecting plugin",
        "gating_plugin": "",
        "message": SENTENCE,
        "unschedulable_plugins": PLUGINS[:4],
        "pending_plugins": ("ResourceQuota",),
        "nominated_node": NODE,
        "last_event": "storage.k8s.io/CSIStorageCapacityUpdate",
        "last_hint": "NodeResourcesBalancedAllocation",
        "waiting_since": 10.0,
    }
    return PodView(**given | changes)


VIEWS: Final = [
    view(POD, QueueState.ACTIVE, position=12, next_retry=None, message=""),
    view(LONGEST, QueueState.UNSCHEDULABLE),
    view(HOSTILE, QueueState.GATED, gating_plugin="SchedulingGates", next_retry=None),
]
NUMBERS: Final = {each.name: 123_456 for each in fields(QueueStatistics)} | {
    "closed": False,
    "deferred_namespaces": (),
}
STATISTICS: Final = QueueStatistics(**NUMBERS)  # type: ignore[arg-type]
QUEUE: Final = QueuePage(
    now=9_000.0, leading=True, namespace="", limit=3, statistics=STATISTICS, pods=VIEWS
)
SCORES: Final = tuple(PluginScore(name, -12_345, 100, 200) for name in PLUGINS)
BEST: Final = tuple(NodeScore(name, 1_400, SCORES) for name in (NODE, LONGEST, HOSTILE, "n4"))
NODES: Final = Examination(
    nodes=50_000,
    feasible=40,
    rejections=(
        Rejection("NodeResourcesFit", "Unschedulable", (SENTENCE,), 30_000, (NODE, LONGEST)),
        Rejection(
            "NodeResourcesBalancedAllocation, PodTopologySpread",
            "UnschedulableAndUnresolvable",
            (HOSTILE, "node(s) didn't match pod topology spread constraints"),
            19_960,
            (HOSTILE,),
            only_nominated=True,
            detail=SENTENCE,
        ),
    ),
    best=BEST,
    tied=2,
    weights=dict.fromkeys(PLUGINS, 2),
    skipped_filters=PLUGINS,
    skipped_scores=PLUGINS,
    error=SENTENCE,
    notes=(SENTENCE,),
    explanations={"ResourceQuota": (SENTENCE, HOSTILE)},
)
REPORT: Final = NodeReport(
    node=LONGEST,
    fits=False,
    checks=(
        NodeCheck("NodeResourcesFit", "Success"),
        NodeCheck(PLUGINS[1], "Pending", (SENTENCE,)),
    ),
    room=(
        ResourceRoom("example.com/" + "accelerator" * 5, 8, -2, 6),
        ResourceRoom("memory", 1 << 40, 1 << 30, 3 << 40),
    ),
    score=BEST[0],
    rank=3,
    feasible=40,
)
DECISION: Final = Decision(
    seq=1, pod=f"analytics/{POD}", uid="u", profile="kubestow", attempt=123, time=5_000.0,
    queue="backoff", event="storage.k8s.io/CSIStorageCapacityUpdate", hint_plugin=PLUGINS[1],
    result=DecisionResult.UNSCHEDULABLE, node="", message=SENTENCE, nodes=50_000,
    evaluated=50_000, feasible=0,
    rejections=(RejectionCount("NodeResourcesFit", "Unschedulable", SENTENCE, 30_000, HOSTILE),),
    victims=(f"analytics/{POD}", HOSTILE), nominated_node=NODE,
    phases={"queued": 12.5, "prefilter": 0.001, HOSTILE: 0.5},
)  # fmt: skip


def explained(name: str, **changes: Any) -> ExplainPage:
    """Return an explanation with everything in it."""
    given: dict[str, Any] = {
        "namespace": "analytics",
        "name": name,
        "uid": "u",
        "profile": HOSTILE,
        "priority": 2_000_000_000,
        "state": PodState.QUEUED,
        "summary": SENTENCE,
        "now": 9_000.0,
        "queue": VIEWS[1],
        "nodes": NODES,
        "awaits": (Awaited("NodeResourcesFit", ("NodeAdd", HOSTILE)),),
        "report": REPORT,
    }
    pod = PodExplanation(**given | changes)
    placed = {"result": DecisionResult.PLACED, "node": NODE, "best": BEST, "message": ""}
    last = {each.name: getattr(DECISION, each.name) for each in fields(Decision)} | placed
    decisions = [DECISION, Decision(**last)]
    return ExplainPage(leading=True, pod=pod, story=tell(pod, decisions), decisions=decisions)


SUMMARY: Final = SummaryPage(
    now=9_000.0,
    leading=False,
    started=1_000.0,
    queue=STATISTICS,
    attempts={"scheduled": 1_234_567, "unschedulable": 2},
    rates=Rates(60.0, {"scheduled": 1_234.5, "unschedulable": 0.1, "error": 12.0}),
    nodes=50_000,
    pods=1_500_000,
    assumed_pods=3,
    resources=[
        ResourceUse("cpu", 12_345.5, 100_000.0),
        ResourceUse("example.com/" + "accelerator" * 5, 3e12, 1e12),
        ResourceUse(HOSTILE, 0, 0),
    ],
    fill=[4_000, 10, 0, 3, 0, 0, 0, 0, 1, 2, 45_984],
    fullest=[
        NodeFill(name, 999, "example.com/accelerator", 110, unschedulable=True)
        for name in (NODE, LONGEST, HOSTILE)
    ],
    oldest=VIEWS,
    placed=[
        Placement(8_000.0, f"analytics/{name}", NODE, 12, 1_400, 0.5)
        for name in (POD, LONGEST, HOSTILE)
    ],
)


ANSWER: Final = WhatIfResult(
    leading=True, now=9_000.0, resource_version="123456789", changed=True,
    pod=f"analytics/{POD}", fits=False, node=NODE, feasible=2, nodes=50_000, message=SENTENCE,
    plugins=list(PLUGINS), preemption_node=LONGEST, victims=[f"analytics/{POD}", HOSTILE] * 6,
    copies=2, by_node={NODE: 1, LONGEST: 1, HOSTILE: 1}, complete=False, slices=12,
    longest_slice=0.004, notes=[SENTENCE],
)  # fmt: skip
OUTCOME: Final = Outcome(reason="Unschedulable", message=SENTENCE)
JUDGEMENTS: Final = [
    Judgement(123_456, 9_000.0, f"analytics/{POD}", result, SENTENCE, OUTCOME)
    for result in ("reproduced", "different", "unjudged")
]


WAITING: Final = offline.Waiting(HOSTILE, "unschedulable", SENTENCE, (), 3, 1.0)
SIMULATED: Final = offline.Result(
    0.0, 1.0, (offline.Placement(LONGEST, NODE, 0.5, 0.5, 1, 3, 3),), (WAITING,),
    (offline.Eviction(POD, NODE, 0.5),),
)  # fmt: skip
NEEDED: Final = offline.NodesNeeded(
    12, (POD,), 1, (offline.Verdict(HOSTILE, "", SENTENCE), offline.Verdict(LONGEST, "", SENTENCE)),
    (POD,), (WAITING,), limited=True,
)  # fmt: skip
CONSOLIDATED: Final = offline.Consolidation(
    (offline.Emptied(NODE, 0.25, {LONGEST: NODE, HOSTILE: HOSTILE}),),
    (offline.Kept(LONGEST, 0.5, SENTENCE), offline.Kept(HOSTILE, 1.0, SENTENCE)),
)


def lines_of(drawn: list[Any]) -> Show:
    """Print lines that were drawn for a screen."""

    def show(console: Console) -> None:
        for line in drawn:
            console.print(line, soft_wrap=True)

    return show


def judged(console: Console) -> None:
    """Print what a replay says about attempts."""
    for each in JUDGEMENTS:
        replay._show(each, "wide", console, whole=True)


OTHER: Final = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{schedulerName: another-scheduler-with-a-long-name}]
"""
SHOWN: Final[dict[str, Show]] = {
    "queue": lambda console: queue_command.show(QUEUE, console),
    "explain": lambda console: explanation.show(explained(POD), console),
    "explain --node --history -v": lambda console: explanation.show(
        explained(LONGEST), console, history=True, verbose=True
    ),
    "explain of a bound pod": lambda console: explanation.show(
        explained(HOSTILE, state=PodState.BOUND, node=NODE, queue=None, nodes=None),
        console,
        history=True,
        verbose=True,
    ),
    "top": lambda console: lines_of(top.draw(SUMMARY, console.width, 100, [SENTENCE]))(console),
    "queue --watch": lambda console: lines_of(
        queue_command.draw(QUEUE, console.width, 100, [SENTENCE])
    )(console),
    "whatif": lambda console: whatif.show(ANSWER, 3, console),
    "replay": judged,
    "simulate": lambda console: simulation_output.show_result(SIMULATED, console),
    "simulate --how-many-fit": lambda console: capacity.show_capacity(
        Capacity(9, {NODE: 4, LONGEST: 3, HOSTILE: 2, "n1": 1}, SENTENCE), console
    ),
    "simulate --nodes-needed": lambda console: capacity.show_needed(NEEDED, console),
    "simulate --consolidate": lambda console: capacity.show_consolidation(CONSOLIDATED, console),
}


def printed(show: Show, width: int) -> list[str]:
    """Return the lines on a terminal that knows no colour."""
    console = Console(
        file=io.StringIO(), width=width, force_terminal=True, color_system=None, highlight=False
    )
    show(console)
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().split("\n")]


def controls(text: str) -> list[str]:
    """Return what is no plain character: controls, and formats such as right-to-left."""
    return [hex(ord(each)) for each in text if unicodedata.category(each) in {"Cc", "Cf", "Zl"}]


@pytest.mark.parametrize("width", [40, 60, 80, 132])
@pytest.mark.parametrize("name", SHOWN)
def test_no_line_is_too_long_and_none_controls_the_terminal(name: str, width: int) -> None:
    lines = printed(SHOWN[name], width)
    assert len(lines) > 5
    assert [line for line in lines if cell_len(line) > width] == []
    assert [found for line in lines if (found := controls(line))] == []


LIVE: Final = ("top", "queue --watch")
"""Screens that cut lines off at the edge."""
TEXTS: Final = (POD, NODE, "UnschedulableAndUnresolvable", "example.com/accelerator.", *PLUGINS)


@pytest.mark.parametrize("name", [name for name in SHOWN if name not in LIVE])
def test_no_word_is_broken_that_fits_on_a_line_of_80_columns(name: str) -> None:
    whole = " ".join(printed(SHOWN[name], 10_000)).split()
    words = " ".join(printed(SHOWN[name], 80)).split()
    long = {each for each in whole if cell_len(each) > 50}
    missing = set(whole) - set(words) - long
    assert {each for each in missing if not is_made_of(each, words)} == set()


def is_made_of(word: str, words: list[str]) -> bool:
    """Whether a heading of a wide table was laid out otherwise in the narrow one."""
    return word.isupper() or word.startswith("x") or word in {"might", "cannot"} or not words


@pytest.mark.parametrize("name", SHOWN)
def test_in_a_pipe_a_row_is_one_line_and_says_everything(name: str) -> None:
    console = Console(file=io.StringIO(), width=tables.PIPED_WIDTH, highlight=False)
    SHOWN[name](console)
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert controls(text.replace("\n", "")) == []
    if name == "queue":
        rows = [
            line for line in text.splitlines() if line.startswith(("active ", "unsched", "gated"))
        ]
        assert len(rows) == len(VIEWS) + 1
        assert LONGEST in text
    if name.startswith("explain --node"):
        for each in (LONGEST, NODE, *PLUGINS, "Insufficient example.com/accelerator"):
            assert any(each in line for line in text.splitlines()), each


class Terminal:
    """Stands for the console of commands that make their own."""

    def __init__(self) -> None:
        self.console = Console(
            file=io.StringIO(), width=80, force_terminal=True, color_system=None, highlight=False
        )

    def __call__(self, **_: object) -> Console:
        return self.console


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Every command prints its tables to a terminal of 80 columns."""
    made = Terminal()
    for module in (check, config, quota):
        monkeypatch.setattr(module, "wide_console", made)
    return made


def quota_rows(*_: object) -> list[QuotaRow]:
    """Limits with long names, in place of those of a cluster."""
    return [
        QuotaRow("analytics", POD, "requests.example.com/accelerator", True, None, 10**18, 123_456),
        QuotaRow(LONGEST[:63], HOSTILE, "limits.cpu", True, 10**21, 10**21, 0),
    ]


def reviewed() -> None:
    """Print a review of permissions."""
    permission = Permission(
        group="resource.k8s.io", resource="resourceclaimtemplates", verbs=("get", "list", "watch"),
        purpose=SENTENCE, without="pods with claims of this long sentence are not scheduled at all",
    )  # fmt: skip
    check._print([check.Finding(permission, denied=("list",), absent=False)], [], verbose=False)


def test_tables_of_other_commands_fit(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    quotas = [{"metadata": {"namespace": "analytics", "name": POD}}]
    monkeypatch.setattr(quota, "_read", lambda *_: (quotas, {"analytics": []}))
    monkeypatch.setattr(quota_limits, "rows", quota_rows)
    monkeypatch.setattr(quota_limits, "unreadable", lambda _: [])
    other = tmp_path / "other.yaml"
    other.write_text(OTHER)
    plain = tmp_path / "plain.yaml"
    plain.write_text(OTHER.replace("another-scheduler-with-a-long-name", "x"))
    for arguments in (
        ["config", "gates"],
        ["quota", "show"],
        ["config", "diff", str(other), str(plain)],
    ):
        CliRunner().invoke(program, arguments, catch_exceptions=False)
    reviewed()
    assert isinstance(terminal.console.file, io.StringIO)
    text = terminal.console.file.getvalue()
    lines = [line.rstrip() for line in text.split("\n")]
    assert [line for line in lines if cell_len(line) > 80] == []
    assert [found for line in lines if (found := controls(line))] == []
    words = text.split()
    for each in (
        POD,
        "another-scheduler-with-a-long-name",
        "requests.example.com/accelerator",
        "resourceclaimtemplates",
        "123456",
    ):
        assert any(each in word for word in words), each
