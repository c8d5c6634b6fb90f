"""A shadow beside schedulers in force: it agrees, and the audit log has no write of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.shadow.__main__ import SCENARIOS, agreement
from benchmarks.shadow.beside import (
    READING,
    Outcome,
    Plan,
    audited,
    create,
    fill,
    reading_user,
    requests_of,
    run,
    start_force,
    until_bound,
)
from tests.integration.explain.pseudo_terminal import NORMAL, PseudoTerminal

pytestmark = pytest.mark.envtest("kube-scheduler")


def beside(scenario: str, directory: Path, *, restarts: int = 0) -> Outcome:
    plan = Plan(nodes=30, pods=150, rate=50.0, seed=1, restarts=restarts, **SCENARIOS[scenario])
    return run(plan, directory)


def test_it_agrees_with_rights_to_read_alone(tmp_path: Path) -> None:
    outcome = beside("same", tmp_path)
    assert outcome.unbound == 0
    assert outcome.summary["judged"] == 150
    assert agreement(outcome) >= 98.0, [each for each in outcome.judged if each["plugin"]]
    assert set(outcome.requests) == {"list", "watch"}
    assert outcome.refused == {}


def test_it_writes_nothing_with_a_token_that_may(tmp_path: Path) -> None:
    outcome = beside("may-write", tmp_path, restarts=1)
    assert outcome.unbound == 0
    # What is bound while the shadow has no connection it cannot judge: the end of the first half.
    judged = {each["pod"].rpartition("-")[2] for each in outcome.judged}
    assert judged >= {f"{number:05d}" for number in range(75, 150)}
    assert set(outcome.requests) <= READING
    assert outcome.requests["watch"] > outcome.requests["list"] > 0


def test_another_profile_names_the_plugin(tmp_path: Path) -> None:
    outcome = beside("most-allocated", tmp_path)
    differing = [each for each in outcome.judged if each["verdict"] == "other"]
    assert len(differing) > 75
    named = [each for each in differing if each["plugin"] == "NodeResourcesFit"]
    assert len(named) >= 0.95 * len(differing)


def test_another_profile_beside_a_running_kubestow(tmp_path: Path) -> None:
    """Live table in 80 columns, answer and report, as a person sees them."""
    plan = Plan(nodes=30, pods=100, rate=50.0, seed=1, ours=True)
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    config, page = tmp_path / "config.json", tmp_path / "report.html"
    config.write_text(json.dumps({**head, **SCENARIOS["most-allocated"]["shadow"]}))
    with audited(tmp_path) as (plane, log):
        pods = fill(plane, plan)
        start_force(plane, plan)
        with PseudoTerminal(
            "shadow", "--of=kubestow", f"--config={config}", f"--kubeconfig={reading_user(plane)}",
            f"--report={page}", "--counterfactual",
        ) as terminal:  # fmt: skip
            terminal.wait_for(
                lambda frame: begins(frame, 1, "0 pods of kubestow in a cluster of 30 nodes;")
            )
            create(plane, pods, plan.rate)
            assert until_bound(plane, len(pods)) == 0
            frame = terminal.wait_for(lambda frame: begins(frame, 0, "100 decisions of kubestow"))
            terminal.press("\x03")
            code = terminal.ended()
        requests = {each["verb"] for each in requests_of(log)}
    assert code == 0, terminal.printed
    assert requests <= READING
    assert max(map(len, frame)) <= 80
    assert "because of" in map(str.strip, frame)
    assert "warning: the token in the kubeconfig expires in " in terminal.printed
    answer = " ".join(terminal.printed.rpartition(NORMAL)[2].split())
    assert "other nodes, mostly because of NodeResourcesFit" in answer
    assert "if its decisions had held, in " in answer
    report = page.read_text()
    assert "because of NodeResourcesFit" in report
    assert "Here is the shadow, there is kubestow." in report
    assert "MostAllocated" in report


def begins(frame: Sequence[str], line: int, text: str) -> bool:
    return len(frame) > line and frame[line].startswith(text)
