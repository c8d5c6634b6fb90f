"""`kubestow explain POD --node A --node B`: the nodes one after another, the pod once."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from scheduler.cli.endpoint import Endpoint
from scheduler.cli.explain import MAX_NODES_ASKED
from scheduler.explain.records import ExplainPage, NodeCheck, NodeReport, PodExplanation, PodState
from tests.unit.cli.command_line import Shell

ZONES = "zone, maxSkew 1: b 0 (skew 1), a 2 (skew 3)"
POD = PodExplanation("shop", "p", "u", "kubestow", 0, PodState.QUEUED, "it waits", 9.0)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the nodes that a scheduler is asked about; it rejects a pod on all of them."""
    nodes: list[str] = []

    def get(_: Endpoint, path: str, query: dict[str, str]) -> bytes:
        assert path == "/debug/explain"
        nodes.append(query["node"])
        checks = (
            NodeCheck("PodTopologySpread", "Unschedulable", ("too many",), ZONES),
            NodeCheck("NodeResourcesFit", "Unschedulable", ("no cpu",), f"wants 9, {nodes[-1]}"),
            NodeCheck("NodeName", "Success"),
        )
        report = NodeReport(query["node"], fits=False, checks=checks)
        pod = replace(POD, report=report)
        page = ExplainPage(leading=True, pod=pod, story=["None of 12 nodes fits."])
        return msgspec.json.encode(page)

    monkeypatch.setattr(Endpoint, "get", get)
    return nodes


def test_what_concerns_the_whole_cluster_is_said_once(asked: list[str], shell: Shell) -> None:
    ended = shell("explain", "shop/p", "--node", "n1", "--node", "n2", "--node", "n1")
    assert (ended.code, ended.err, asked) == (0, "", ["n1", "n2"])
    assert ended.out.count("None of 12 nodes fits.") == 1
    assert ended.out.count(ZONES) == 1
    before, _, after = ended.out.partition("Node n2")
    assert "Node n1" in before
    assert "too many; see n1" in after
    assert "no cpu; wants 9, n2" in after


def test_a_node_alone_is_told_in_full(asked: list[str], shell: Shell) -> None:
    assert ZONES in shell("explain", "shop/p", "--node", "n1").out
    assert asked == ["n1"]


def test_the_questions_are_few(asked: list[str], shell: Shell) -> None:
    many = [part for number in range(MAX_NODES_ASKED + 1) for part in ("--node", f"n{number}")]
    for arguments in (many, ["--node", "a", "--node", "b", "-o", "json"]):
        ended = shell("explain", "shop/p", *arguments)
        assert (ended.code, asked) == (2, [])
        assert "at most 10 nodes, and 1 with -o json" in " ".join(ended.err.split())
