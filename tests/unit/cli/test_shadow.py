"""`kubestow shadow`: bad input is refused in a sentence, and its rights are those to read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler.explain.records.shadow import ScoreDifference, ShadowPod, ShadowSummary, Verdict
from tests.unit.cli.command_line import Shell

SUMMARY = ShadowSummary(
    began=0.0,
    now=600.0,
    names=("default-scheduler",),
    judged=2,
    verdicts={"same": 1, "other": 1},
    differing=(
        ShadowPod(
            pod="a/\x1b[31mb",
            uid="u",
            profile="p",
            verdict=Verdict.OTHER,
            there="n1",
            best="n2",
            bound=1.0,
            scores=(ScoreDifference("Fit", 90, 40),),
        ),
    ),
)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--for", "soon"), "write 30s, 10m, 2h or 1d"),
        (("--for", "0s"), "write 30s, 10m, 2h or 1d"),
        (("--for", "0"), "write 30s, 10m, 2h or 1d"),
        (("--for", "-5m"), "write 30s, 10m, 2h or 1d"),
        (("--listen", "8080"), "write 127.0.0.1:8080"),
        (("--listen", ":99999"), "write 127.0.0.1:8080"),
        (("--assert", "agrement > 9"), "did you mean agreement?"),
        (("--assert", "import os"), "--assert"),
        (("--assert", "agreement >= ninety"), "there is no figure ninety"),
        (("--assert", ""), "--assert"),
        (("--report", "/nowhere/page.html"), "/nowhere/page.html: No such file or directory"),
        (("--config", "/nowhere.yaml"), "/nowhere.yaml"),
        (("--plugin-dir", "/nowhere"), "/nowhere"),
    ],
)
def test_bad_input_is_a_sentence(shell: Shell, arguments: tuple[str, ...], text: str) -> None:
    ended = shell("shadow", *arguments)
    assert ended.code == 2
    assert text in ended.err
    assert "Traceback" not in ended.err


def test_a_configuration_that_is_refused_names_the_field(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{plugins: {score: {enabled: [{name: NodeResourcesFitt}]}}}]\n"
    )
    ended = shell("shadow", "--config", str(path))
    assert ended.code == 2
    assert "NodeResourcesFitt" in ended.err
    assert "Traceback" not in ended.err


def test_several_profiles_are_no_answer(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "two.yaml"
    path.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{schedulerName: one}, {schedulerName: two}]\n"
    )
    ended = shell("shadow", "--config", str(path))
    assert ended.code == 2
    assert "none is named default-scheduler" in ended.err


def test_its_rights_are_to_read(shell: Shell) -> None:
    ended = shell("config", "rbac", "--shadow")
    assert ended.code == 0
    (role,) = yaml.safe_load_all(ended.out)
    assert role["kind"] == "ClusterRole"
    assert role["metadata"] == {"name": "kubestow-shadow"}
    verbs: set[Any] = {verb for rule in role["rules"] for verb in rule["verbs"]}
    assert verbs == {"get", "list", "watch"}
    assert not any("nonResourceURLs" in rule for rule in role["rules"])
    resources = {name for rule in role["rules"] for name in rule["resources"]}
    assert {"pods", "nodes", "persistentvolumeclaims", "poddisruptionbudgets"} <= resources
    assert not {"leases", "events", "pods/status", "pods/binding"} & resources


def test_rights_of_one_kind_at_a_time(shell: Shell) -> None:
    assert shell("config", "rbac", "--shadow", "--explainer").code == 2


def test_a_report_begins_with_the_answer_and_controls_no_terminal() -> None:
    from scheduler.cli.shadow_report import report

    lines = report(SUMMARY)
    assert lines[0].startswith("2 decisions of default-scheduler in 10m: 50.0 % the same")
    assert "  a/?[31mb: n1 there, n2 here (other; Fit +50)" in lines
