"""`kubestow shadow`: bad input is refused in a sentence, and its rights are those to read."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from scheduler.cli import exit_codes
from scheduler.cli.exit_codes import CommandError
from scheduler.cli.shadow import check_compared
from scheduler.cli.shadow_following import End, warn_of_expiry
from scheduler.client.credentials import StaticCredentials
from scheduler.explain.records.shadow import (
    ScoreDifference,
    ShadowPod,
    ShadowSummary,
    ShadowVerdict,
)
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
            verdict=ShadowVerdict.OTHER,
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


@pytest.mark.parametrize(
    ("silent", "missing", "code", "text"),
    [
        (0.0, None, 0, ""),
        (720.0, None, exit_codes.UNREACHABLE, "API server for the last 12m: 401 Unauthorized"),
        (720.0, "list pods", exit_codes.NOT_PERMITTED, "list pods"),
        (0.0, "list pods", exit_codes.NOT_PERMITTED, "kubestow config rbac --shadow"),
    ],
)
def test_a_comparison_that_ended_early_is_no_success(
    silent: float, missing: str | None, code: int, text: str
) -> None:
    summary = msgspec.structs.replace(SUMMARY, silent=silent, silent_error="401 Unauthorized")
    end = End(summary, summary, [], missing)
    if code == 0:
        check_compared(end)
        return
    with pytest.raises(CommandError, match=text) as caught:
        check_compared(end)
    assert caught.value.exit_code == code


def jwt(claims: dict[str, Any]) -> str:
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"Bearer e30.{body}.c2ln"


@pytest.mark.parametrize(
    ("left", "seconds", "warned"),
    [(600, 3600.0, True), (600, None, True), (600, 60.0, False), (-5, 60.0, False)],
)
def test_a_token_that_expires_before_the_end_is_told(
    capsys: pytest.CaptureFixture[str], left: float, seconds: float | None, warned: bool
) -> None:
    warn_of_expiry(StaticCredentials(jwt({"exp": time.time() + left})), seconds)
    err = capsys.readouterr().err
    assert err.startswith("warning: the token in the kubeconfig expires in ") == warned


@pytest.mark.parametrize("header", [None, "Basic eDp5", "Bearer opaque", "Bearer a.b.c", jwt({})])
def test_a_credential_without_an_expiry_is_no_matter(
    capsys: pytest.CaptureFixture[str], header: str | None
) -> None:
    warn_of_expiry(StaticCredentials(header), None)
    assert capsys.readouterr().err == ""


def test_the_live_screen_says_what_there_is_or_that_nothing_is_heard() -> None:
    from scheduler.cli.shadow_report import draw

    empty = msgspec.structs.replace(SUMMARY, judged=0, verdicts={}, differing=(), nodes=3)
    head, state = map(str, draw(empty, 80))
    assert head == "0 decisions of default-scheduler in 10m"
    assert state == "0 pods of default-scheduler in a cluster of 3 nodes; Ctrl-C ends it"
    silent = msgspec.structs.replace(empty, silent=720.0, silent_error="401 Unauthorized")
    _, state = map(str, draw(silent, 80))
    assert state == "nothing heard from the API server for the last 12m: 401 Unauthorized"
