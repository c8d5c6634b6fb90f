"""`.ci/run`: every gate runs, in an order that uses two cores and starts nothing too early."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from devtools import gates
from devtools.gates import CORES, GATES, Gate, Run, chosen, counts, named, run_all
from tests.unit.repository.tree import ROOT

#: Ends as its name says; writes the summary of a test runner.
FAKE = """
import sys
print("=== 3 passed, 1 skipped in 0.10s ===")
sys.exit(7 if sys.argv[1] in ("bad", "worse") else 0)
"""


def test_every_gate_is_a_target_of_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text()
    phony = set(re.findall(r"^\.PHONY: (\S+)$", makefile, re.MULTILINE))
    assert {gate.name for gate in GATES} <= phony
    names = [gate.name for gate in GATES]
    for gate in GATES:
        assert {*gate.after} <= {*names[: names.index(gate.name)]}


def running(gate: Gate) -> Run:
    nothing: Any = None
    return Run(gate, nothing, nothing, 0.0)


@pytest.mark.parametrize("slowest", [gate.name for gate in GATES])
def test_all_gates_run_once_each_after_what_it_needs(slowest: str) -> None:
    """Whichever takes longest."""
    waiting, now, passed = list(GATES), list[Gate](), list[Gate]()
    while waiting or now:
        begun = chosen(passed, waiting, [running(gate) for gate in now])
        for gate in begun:
            waiting.remove(gate)
            assert {*gate.after} <= {each.name for each in passed}
        now += begun
        assert now
        assert sum(gate.build for gate in now) <= 1
        assert sum(gate.cores for gate in now if not gate.build) <= CORES
        ended = min(now, key=lambda gate: (gate.name == slowest, GATES.index(gate)))
        now.remove(ended)
        passed.append(ended)
    assert sorted(passed, key=GATES.index) == list(GATES)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["lint", "types"], ["venv", "lint", "types"]),
        (["chart"], ["venv", "chart"]),
        (["e2e-short", "venv"], ["venv", "envtest-build", "e2e-build", "e2e-short"]),
    ],
)
def test_gates_that_are_asked_for_bring_what_they_need(
    names: list[str], expected: list[str]
) -> None:
    assert [gate.name for gate in named(names)] == expected


def test_a_gate_for_all_cores_is_not_passed_by_for_ever() -> None:
    big, small = Gate("big", after=(), cores=CORES), Gate("small", after=())
    first = running(Gate("first"))
    assert chosen((), [big, small], [first]) == []
    assert chosen((), [big, small], []) == [big]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("==== 2 failed, 12913 passed, 4 skipped in 379.10s (0:06:19) ====", (2, 12913, 4)),
        ("1 failed in 0.1s\n\n3 passed in 2.25s\n", (0, 3, 0)),
        ("nothing was tested in 3 s", (0, 0, 0)),
    ],
)
def test_the_last_summary_of_pytest_counts(text: str, expected: tuple[int, int, int]) -> None:
    found = counts(text)
    assert tuple(found.get(each, 0) for each in ("failed", "passed", "skipped")) == expected


def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    monkeypatch.setattr(gates, "LOGS", tmp_path / "logs")
    script = tmp_path / "fake.py"
    script.write_text(FAKE)
    return sys.executable, str(script)


def test_what_passed_is_in_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    make = fake(tmp_path, monkeypatch)
    assert run_all([Gate("a", after=()), Gate("b", after=("a",))], make) == 0
    rows = [line.split() for line in capfd.readouterr().out.rpartition("\n\n")[2].splitlines()]
    assert rows[0] == ["gate", "wall", "CPU", "tests", "reruns", "result"]
    assert [(row[0], *row[-3:]) for row in rows[2:4]] == [
        ("a", "3", "0", "passed"),
        ("b", "3", "0", "passed"),
    ]
    assert rows[4][0] == "all"


def test_after_a_failure_no_gate_begins_and_those_that_run_say_what_they_find(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    make = fake(tmp_path, monkeypatch)
    # It needs the cores of both.
    never = Gate("never", after=(), cores=CORES)
    wanted = [Gate("bad", after=()), Gate("later", after=()), never]
    assert run_all(wanted, make) == 7
    printed = capfd.readouterr().out
    assert "make bad: FAILED with status 7" in printed
    assert "===== make later: passed" in printed
    assert "make bad failed; not run: never" in printed


def test_all_gates_that_failed_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    make = fake(tmp_path, monkeypatch)
    assert run_all([Gate("bad", after=()), Gate("worse", after=())], make) == 7
    assert re.search("^make (bad worse|worse bad) failed; not run: none$", capfd.readouterr().out,
                     re.MULTILINE)  # fmt: skip
