"""A shadow beside the real kube-scheduler: it agrees, and the audit log has no write of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.shadow.__main__ import SCENARIOS, agreement
from benchmarks.shadow.beside import READING, Outcome, Plan, run

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
    assert outcome.summary["judged"] >= 100
    assert set(outcome.requests) <= READING
    assert outcome.requests["watch"] > outcome.requests["list"] > 0


def test_another_profile_names_the_plugin(tmp_path: Path) -> None:
    outcome = beside("most-allocated", tmp_path)
    differing = [each for each in outcome.judged if each["verdict"] == "other"]
    assert len(differing) > 75
    named = [each for each in differing if each["plugin"] == "NodeResourcesFit"]
    assert len(named) >= 0.95 * len(differing)
