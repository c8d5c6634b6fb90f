"""Sweeps: results stream into a folder, and nothing that is finished runs again."""

from __future__ import annotations

import fcntl
import io
import os
import select
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from simulator import sweeps
from simulator.sweeps.runs import outcome
from simulator.sweeps.storage import Storage
from tests.unit.simulator.sweeps import functions

NUMBERS = (1, 2, -3, 4)
RUNS = [sweeps.SweepRun(f"run-{number}", {"number": number}) for number in NUMBERS]


def contents(folder: Path) -> dict[str, bytes]:
    """Return what a sweep has written, by path."""
    files = (each for each in folder.rglob("*") if each.is_file() and each.name != ".lock")
    return {each.relative_to(folder).as_posix(): each.read_bytes() for each in files}


def results(folder: Path) -> dict[str, Any]:
    return {each.run.name: each.result for each in sweeps.read(folder)}


def test_each_run_has_a_file_and_the_index_has_them_in_order(tmp_path: Path) -> None:
    summary = sweeps.sweep(functions.double, RUNS, tmp_path, processes=0)
    assert summary == sweeps.Summary(finished=3, reused=0, failed=("run--3",))
    assert summary.total == 4
    assert sorted(contents(tmp_path)) == [
        "index.json",
        *(f"runs/run-{number}.json" for number in sorted(NUMBERS)),
    ]
    found = list(sweeps.read(tmp_path))
    assert [each.run for each in found] == RUNS
    assert found[0].result == {"b": 2, "a": [1, "é"]}
    assert found[2].error == "ValueError: -3 is negative"
    assert "in double" in found[2].traceback
    assert "in attempt" not in found[2].traceback


def test_finished_runs_are_not_repeated_and_failed_ones_are(tmp_path: Path) -> None:
    sweeps.sweep(functions.double, RUNS, tmp_path, processes=0)
    before = contents(tmp_path)
    seen: list[sweeps.SweepOutcome] = []
    summary = sweeps.sweep(functions.double, RUNS, tmp_path, processes=0, on_outcome=seen.append)
    assert summary == sweeps.Summary(finished=3, reused=3, failed=("run--3",))
    assert [(each.run.name, each.reused) for each in seen] == [
        ("run-1", True),
        ("run-2", True),
        ("run-4", True),
        ("run--3", False),
    ]
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    ("function", "runs", "version", "reused"),
    [
        (functions.double, RUNS[:1], "", 1),
        (functions.double, [sweeps.SweepRun("run-1", {"number": 7})], "", 0),
        (functions.double, RUNS[:1], "2", 0),
        (functions.always_killed, RUNS[:1], "", 0),
    ],
    ids=["the same", "other parameters", "another version", "another function"],
)
def test_a_result_is_reused_for_the_same_question_only(
    tmp_path: Path,
    function: sweeps.Function,
    runs: list[sweeps.SweepRun],
    version: str,
    reused: int,
) -> None:
    sweeps.sweep(functions.double, RUNS[:1], tmp_path, processes=0)
    assert sweeps.sweep(function, runs, tmp_path, processes=0, version=version).reused == reused
    assert [each.run for each in sweeps.read(tmp_path)] == runs


def test_an_interrupted_sweep_keeps_what_it_has(tmp_path: Path) -> None:
    def interrupt(found: sweeps.SweepOutcome) -> None:
        if found.run.name == "run-2":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweeps.sweep(functions.double, RUNS, tmp_path, processes=0, on_outcome=interrupt)
    assert results(tmp_path) == {"run-1": {"b": 2, "a": [1, "é"]}, "run-2": {"b": 4, "a": [2, "é"]}}
    states = [each.state for each in Storage(tmp_path).entries()]
    assert states == ["finished", "finished", "missing", "missing"]
    assert sweeps.sweep(functions.double, RUNS, tmp_path, processes=0).reused == 2


@given(cut=st.integers(0, 10_000), junk=st.binary(max_size=4))
def test_a_damaged_file_counts_as_not_finished(
    tmp_path_factory: pytest.TempPathFactory, cut: int, junk: bytes
) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    sweeps.sweep(functions.double, RUNS[:1], folder, processes=0)
    file = folder / "runs" / "run-1.json"
    whole = file.read_bytes()
    file.write_bytes(whole[: cut % len(whole)] + junk)
    sweeps.sweep(functions.double, RUNS[:1], folder, processes=0)
    assert results(folder) == {"run-1": {"b": 2, "a": [1, "é"]}}


@pytest.mark.parametrize(
    ("runs", "faults"),
    [
        (
            [
                sweeps.SweepRun("../x"),
                sweeps.SweepRun("a"),
                sweeps.SweepRun("A"),
                sweeps.SweepRun("b", {"x": print}),
            ],
            ["'../x': a name has letters", "'A': there is another", "'b': its parameters are not"],
        ),
        ([sweeps.SweepRun("x" * 201)], ["at most 200 characters"]),
        ([sweeps.SweepRun("")], ["'': a name has"]),
        ([sweeps.SweepRun("-")] * 30, ["and 10 more"]),
    ],
)
def test_every_fault_of_the_runs_is_reported_and_nothing_is_written(
    tmp_path: Path, runs: list[sweeps.SweepRun], faults: list[str]
) -> None:
    with pytest.raises(sweeps.SweepError) as caught:
        sweeps.sweep(functions.double, runs, tmp_path / "new", processes=0)
    assert all(fault in str(caught.value) for fault in faults)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("function", [lambda _: 1, partial(functions.double)])
def test_a_function_without_a_name_is_refused(tmp_path: Path, function: sweeps.Function) -> None:
    with pytest.raises(sweeps.SweepError, match="is not a function of a module"):
        sweeps.sweep(function, RUNS, tmp_path)


@pytest.mark.parametrize(
    ("function", "error"),
    [(functions.no_json, "the result is not JSON"), (functions.ended, "SystemExit: 4")],
)
def test_a_run_without_a_result_ends_with_its_name(
    tmp_path: Path, function: Callable[[Mapping[str, Any]], Any], error: str
) -> None:
    assert sweeps.sweep(function, [sweeps.SweepRun("a")], tmp_path, processes=0).failed == ("a",)
    (found,) = sweeps.read(tmp_path)
    assert found.error.startswith(error)


def test_a_folder_has_one_sweep_at_a_time(tmp_path: Path) -> None:
    errors: list[str] = []

    def begin_another(_: sweeps.SweepOutcome) -> None:
        with pytest.raises(sweeps.SweepError) as caught:
            sweeps.sweep(functions.double, RUNS, tmp_path, processes=0)
        errors.append(str(caught.value))

    sweeps.sweep(functions.double, RUNS[:1], tmp_path, processes=0, on_outcome=begin_another)
    (error,) = errors
    assert "another sweep writes into this folder" in error


@pytest.mark.parametrize("name", ["", "runs/run-1.json"])
def test_a_folder_that_cannot_be_used_is_an_error(tmp_path: Path, name: str) -> None:
    if name:
        (tmp_path / name).mkdir(parents=True)  # where the file of a run belongs
        folder, processes = tmp_path, 0
    else:
        folder, processes = tmp_path / "file", 2
        folder.write_text("")
    with pytest.raises(sweeps.SweepError, match=str(folder)):
        sweeps.sweep(functions.double, RUNS, folder, processes=processes)


@pytest.mark.parametrize("index", [None, b"{", b"[]", b"\xff"])
def test_a_folder_without_a_readable_index_is_an_error(tmp_path: Path, index: bytes | None) -> None:
    if index is not None:
        (tmp_path / "index.json").write_bytes(index)
    with pytest.raises(sweeps.SweepError, match=r"index\.json"):
        list(sweeps.read(tmp_path))


@given(content=st.binary(max_size=60))
def test_no_content_of_a_file_raises(content: bytes) -> None:
    assert outcome(content) is None


def test_the_digest_follows_names_and_contents(tmp_path: Path) -> None:
    (tmp_path / "plugins" / "__pycache__").mkdir(parents=True)
    file, other = tmp_path / "plugins" / "a.py", tmp_path / "trace.csv"
    file.write_text("1")
    other.write_text("1")
    found = [sweeps.digest(file.parent, other)]
    (file.parent / "__pycache__" / "a.cpython-311.pyc").write_text("compiled")
    assert sweeps.digest(file.parent, other) == found[0]
    file.write_text("2")
    found.append(sweeps.digest(file.parent, other))
    file.rename(file.with_name("b.py"))
    found.append(sweeps.digest(file.parent, other))
    assert len(set(found)) == 3


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_is_shown_on_terminals_only(tmp_path: Path, terminal: bool) -> None:
    console = Console(file=io.StringIO(), force_terminal=terminal, width=100)
    sweeps.sweep(functions.double, RUNS, tmp_path, processes=0, console=console)
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    assert ("4/4" in shown) is ("1 failed" in shown) is terminal
    assert bool(shown) is terminal


# -- processes -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_processes_write_the_same_bytes_and_survive_a_killed_one(tmp_path: Path) -> None:
    runs = [sweeps.SweepRun(f"seed-{seed}", {"seed": seed}) for seed in range(6)]
    here, there = tmp_path / "here", tmp_path / "there"
    sweeps.sweep(functions.packed, runs, here, processes=0)
    sweeps.sweep(functions.packed, runs, there, processes=2)
    assert contents(here) == contents(there)
    assert len(set(map(str, results(here).values()))) > 1, "the seed decides"

    fatal = [sweeps.SweepRun("once", {"file": str(tmp_path / "begun")})]
    assert sweeps.sweep(functions.killed_once, fatal, tmp_path / "a", processes=1).failed == ()
    assert results(tmp_path / "a") == {"once": "second attempt"}


@pytest.mark.slow
def test_workers_end_with_a_sweep_that_is_killed(tmp_path: Path) -> None:
    os.mkfifo(pipe := tmp_path / "pipe")
    code = (
        "from simulator import sweeps\n"
        "from tests.unit.simulator.sweeps import functions\n"
        f"runs = [sweeps.SweepRun('a', {{'pipe': {str(pipe)!r}}})]\n"
        f"sweeps.sweep(functions.paused, runs, {str(tmp_path / 'results')!r}, processes=1)\n"
    )
    root = Path(__file__).parents[4]
    with subprocess.Popen([sys.executable, "-c", code], cwd=root) as sweep:
        worker = os.pidfd_open(int(pipe.read_text()))
        sweep.kill()
    with os.fdopen(worker, "rb", buffering=0):
        assert select.select([worker], [], [], 60.0)[0], "the worker goes on"


def test_what_a_killed_sweep_had_half_written_is_removed(tmp_path: Path) -> None:
    sweeps.sweep(functions.double, RUNS, tmp_path, processes=0)
    before = contents(tmp_path)
    for name in ("runs/.run-1.json.77", ".index.json.77"):
        (tmp_path / name).write_bytes(b"{")
    sweeps.sweep(functions.double, RUNS, tmp_path, processes=0)
    assert contents(tmp_path) == before


@pytest.mark.slow
def test_a_run_that_kills_its_workers_fails_and_the_others_finish(tmp_path: Path) -> None:
    runs = [sweeps.SweepRun("fatal", {"killed": True}), sweeps.SweepRun("a"), sweeps.SweepRun("b")]
    assert sweeps.sweep(functions.always_killed, runs, tmp_path, processes=1).failed == ("fatal",)
    found = {each.run.name: each for each in sweeps.read(tmp_path)}
    assert "killed by signal 9, 3 times" in found["fatal"].error
    assert (found["a"].result, found["b"].result) == ("finished", "finished")


@pytest.mark.slow
def test_workers_that_cannot_start_end_the_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(functions.double, "__module__", "threading")
    monkeypatch.setattr(threading, "double", functions.double, raising=False)
    with pytest.raises(sweeps.SweepError, match="before its first run"):
        sweeps.sweep(functions.double, RUNS, tmp_path, processes=1)


def test_a_process_that_was_forked_meanwhile_does_not_keep_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has a copy of every open file, until it runs another program."""
    copies: list[int] = []
    flock = fcntl.flock

    def locking(file: Any, operation: int) -> None:
        flock(file, operation)
        copies.append(os.dup(file.fileno()))

    monkeypatch.setattr(fcntl, "flock", locking)
    storage = Storage(tmp_path)
    try:
        for _ in range(2):
            with storage.locked():
                assert copies
    finally:
        for each in copies:
            os.close(each)
