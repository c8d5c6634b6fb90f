"""`kubestow simulate --junit` writes what CI systems read."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from scheduler import offline
from scheduler.offline.assertions import Check
from scheduler.offline.experiment import SimulatedRun
from scheduler.offline.junit import junit
from scheduler.offline.records import Result
from tests.unit.cli.command_line import Shell
from tests.unit.simulator.sweeps.sweep_files import prepare, sweep_file

NOTHING = Result(0.0, 0.0, (), ())


@pytest.fixture
def dump(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    items = [offline.node("n", cpu=4), offline.pod("a", cpu=3), offline.pod("b", cpu=3)]
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"kind": "List", "items": items}))
    monkeypatch.chdir(tmp_path)
    return path


def counts(element: ET.Element) -> tuple[str | None, ...]:
    return tuple(element.get(each) for each in ("tests", "failures", "errors"))


def test_each_assertion_is_a_test_case_of_its_run(shell: Shell, dump: Path) -> None:
    asserts = ["--assert", "placed == 1", "--assert", "waiting == 0", "--seeds", "1-2"]
    ended = shell("simulate", str(dump), *asserts, "--junit", "out.xml")
    assert ended.code == 3
    suites = ET.parse("out.xml").getroot()
    assert counts(suites) == ("6", "2", "0")
    assert [counts(each) for each in suites] == [("3", "1", "0")] * 2
    (failure, *_) = suites.iter("failure")
    assert failure.get("message") == "waiting is 1"


def test_without_assertions_every_pod_must_have_a_node(shell: Shell, dump: Path) -> None:
    ended = shell("simulate", str(dump), "--junit", "out.xml")
    assert ended.code == 3
    suites = ET.parse("out.xml").getroot()
    assert counts(suites) == ("2", "1", "0")
    shell("simulate", str(dump), "--add-node", "cpu=4", "--junit", "out.xml")
    assert counts(ET.parse("out.xml").getroot()) == ("2", "0", "0")


def test_a_sweep_has_a_suite_for_each_run(shell: Shell, tmp_path: Path) -> None:
    file, out = sweep_file(prepare(tmp_path)), tmp_path / "out.xml"
    given = ["--results", str(tmp_path / "r"), "--processes", "0", "--junit", str(out)]
    ended = shell("simulate", "--sweep", str(file), *given, "--assert", "placed == 1")
    assert ended.code == 0, ended.err
    assert len(ET.parse(out).getroot()) == 2


def test_texts_of_others_stay_text() -> None:
    run = SimulatedRun("<&>\x00\x1b", 0, {}, NOTHING, error="plugin x: \x07<b>\ud800")
    check = Check('waiting < 1 and "', run.name, 0, holds=False)
    suites = ET.fromstring(junit([run], [check]))
    assert counts(suites) == ("2", "1", "1")
    (error,) = suites.iter("error")
    assert "<b>" in str(error.get("message"))


def test_a_file_that_cannot_be_written_is_an_error(shell: Shell, dump: Path) -> None:
    ended = shell("simulate", str(dump), "--junit", "nowhere/out.xml")
    assert ended.code == 1
    assert "nowhere/out.xml: No such file or directory" in ended.err


@pytest.mark.usefixtures("dump")
def test_a_question_about_capacity_has_none(shell: Shell, dump: Path) -> None:
    ended = shell("simulate", str(dump), "--consolidate", "--junit", "out.xml")
    assert ended.code == 2
    assert "--consolidate does not use --junit" in ended.err
