"""`kubestow simulate --sweep` prints figures, and goes on where it was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.cli.command_line import Shell
from tests.unit.simulator.sweeps.sweep_files import CONFIG, prepare, sweep_file

RAISING = """\
class Raising:
    name = "example.com/Raising"

    def __init__(self, args: object, handle: object) -> None:
        pass

    def filter(self, state: object, pod: object, node: object) -> None:
        raise ZeroDivisionError("by this policy")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return prepare(tmp_path)


def test_the_command_prints_figures_and_goes_on_where_it_was(folder: Path, shell: Shell) -> None:
    plugins = folder / "plugins"
    plugins.mkdir()
    (plugins / "raising.py").write_text(RAISING)
    profile = "profiles: [{plugins: {multiPoint: {enabled: [{name: 'raising:Raising'}]}}}]\n"
    (folder / "bad.yaml").write_text(CONFIG + profile)
    file = sweep_file(folder, policies={"good": None, "bad": "bad.yaml"}, pluginDirs=["plugins"])
    command = ["simulate", "--sweep", str(file), "--results", str(folder / "r"), "--processes", "0"]
    ended = shell(*command)
    assert ended.code == 3, ended.err
    lines = [" ".join(line.split()) for line in ended.out.splitlines()]
    assert lines[:2] == ["FIGURE GOOD", "placed 1"]
    assert any(line.startswith("bad-0 failed: ") for line in lines)
    assert lines[-1].startswith("2 runs, 0 of them from ")
    again = shell(*command, "-o", "json")
    records = [json.loads(line) for line in again.out.splitlines()]
    assert [each["name"] for each in records] == ["good-0", "bad-0"]
    assert {each["apiVersion"] for each in records} == {"simulate.kubestow.io/v1"}
    assert records[0]["result"]["placed"] == 1
    assert "plugin example.com/Raising" in records[1]["error"]
    assert "ZeroDivisionError" in records[1]["error"]
    assert "1 of them from" in shell(*command).out


@pytest.mark.slow
def test_what_was_filled_in_is_said_once(folder: Path, shell: Shell) -> None:
    """For the dumps, and for the templates of workloads."""
    job = {"containers": [{"name": "c", "resources": {"limits": {"cpu": "3"}}}]}
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": job}
    (folder / "a.yaml").write_text(json.dumps(manifest))
    workload = {"file": "trace.csv", "templates": ["a.yaml"]}
    file = sweep_file(folder, workloads={"one": workload, "two": workload}, seeds="0-1")
    command = ["simulate", "--sweep", str(file), "--results", str(folder / "r"), "--processes", "0"]
    ended = shell(*command, "-o", "json")
    assert ended.code == 0, ended.err
    said = [line for line in ended.err.splitlines() if "as an API server would" in line]
    assert len(said) == 1
    assert "requests from limits" in said[0]
    assert "LimitRanges" in said[0]


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        (["cluster.json"], 2, "names the dumps"),
        (["--dask", "tcp://127.0.0.1:1"], 1, "Dask cluster tcp://127.0.0.1:1"),
    ],
)
def test_what_cannot_begin_is_named(
    folder: Path,
    shell: Shell,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    code: int,
    error: str,
) -> None:
    monkeypatch.setattr("simulator.sweeps.dask_cluster.CONNECT_SECONDS", 0.2)
    monkeypatch.chdir(folder)
    ended = shell("simulate", "--sweep", str(sweep_file(folder)), *arguments)
    assert (ended.code, error in ended.err) == (code, True), ended.err
    broken = sweep_file(folder, seeds="x")
    assert shell("simulate", "--sweep", str(broken)).code == 2


@pytest.fixture
def command(folder: Path) -> list[str]:
    file = sweep_file(folder, policies={"good": None}, seeds="0-1")
    return ["simulate", "--sweep", str(file), "--results", str(folder / "r"), "--processes", "0"]


def test_assertions_are_checked_for_every_run(command: list[str], shell: Shell) -> None:
    assert shell(*command, "--assert", "placed == 1").code == 0
    ended = shell(*command, "--assert", "placed == 1", "--assert", "waiting == 99")
    assert ended.code == 3
    assert "holds: placed == 1 (good, seed 0)" in ended.out
    assert "fails: waiting == 99 (good, seed 1)" in ended.out
    as_json = shell(*command, "--assert", "waiting == 99", "-o", "json")
    assert as_json.code == 3
    line = json.loads(as_json.out.splitlines()[0])
    assert line["assertions"] == [{"text": "waiting == 99", "holds": False}]


def test_a_run_that_failed_fails_every_assertion(folder: Path, shell: Shell) -> None:
    plugins = folder / "plugins"
    plugins.mkdir()
    (plugins / "raising.py").write_text(RAISING)
    profile = "profiles: [{plugins: {multiPoint: {enabled: [{name: 'raising:Raising'}]}}}]\n"
    (folder / "bad.yaml").write_text(CONFIG + profile)
    file = sweep_file(folder, policies={"bad": "bad.yaml"}, pluginDirs=["plugins"])
    ended = shell("simulate", "--sweep", str(file), "--results", str(folder / "r"),
                  "--processes", "0", "--assert", "placed >= 0")  # fmt: skip
    assert ended.code == 3
    assert "fails: placed >= 0 (bad, seed 0)" in ended.out


@pytest.mark.parametrize(
    ("expression", "error"),
    [("plcaed == 1", "plcaed"), ("base.placed == 1", "base. and compared. need --compare")],
)
def test_a_wrong_assertion_ends_before_the_first_run(
    command: list[str], folder: Path, shell: Shell, expression: str, error: str
) -> None:
    ended = shell(*command, "--assert", expression)
    assert ended.code == 2
    assert error in ended.err
    assert not (folder / "r").exists()


def test_seeds_take_the_place_of_those_in_the_file(command: list[str], shell: Shell) -> None:
    ended = shell(*command, "--seeds", "5-7", "-o", "json")
    assert ended.code == 0
    names = [json.loads(line)["name"] for line in ended.out.splitlines()]
    assert names == ["good-5", "good-6", "good-7"]


def test_a_report_has_the_figures_of_every_policy(
    command: list[str], folder: Path, shell: Shell
) -> None:
    pytest.importorskip("matplotlib")
    path = folder / "report.html"
    ended = shell(*command, "--report", str(path), "--assert", "placed == 1")
    assert ended.code == 0, ended.err
    page = path.read_text()
    assert "Every assertion holds." in page
    assert "good: 1 pod placed, 0 evicted, 0 waiting, on average over 2 seeds" in page
    assert "--sweep" in page
