"""`make test-quick`: the nearest tests come first, and none begins when the time is over."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from grimp import ImportGraph

from devtools import quick
from tests.unit.repository.tree import ROOT

IMPORTS = {
    "scheduler.queue": ["scheduler.queue.heap"],
    "scheduler.stages.wiring": ["scheduler.queue"],
    "tests.unit.queue.test_heap": ["scheduler.queue.heap"],
    "tests.unit.queue.test_moves": ["tests.unit.queue.doubles"],
    "tests.unit.queue.doubles": ["scheduler.queue"],
    "tests.unit.engine.test_scoring": ["scheduler.queue"],
    "tests.integration.service.test_binding_cycle": ["scheduler.stages.wiring"],
    "tests.unit.metrics.test_instruments": ["scheduler.metrics"],
}


def graph() -> ImportGraph:
    made = ImportGraph()
    for importer, imported in IMPORTS.items():
        for each in imported:
            made.add_import(importer=importer, imported=each)
    return made


def nearest(*paths: str) -> list[str]:
    changed, others = quick.modules_of(paths, {*graph().modules, "tests", "tests.unit.queue"})
    files = quick.ranked(quick.distances(changed, graph()), others)
    return [each for each in files if not each.startswith(quick.REPOSITORY)]


def test_tests_of_the_same_folder_come_first_and_then_those_with_fewer_imports_between() -> None:
    assert nearest("scheduler/queue/heap.py") == [
        "tests/unit/queue/test_heap.py",
        "tests/unit/queue/test_moves.py",
        "tests/unit/engine/test_scoring.py",
        "tests/integration/service/test_binding_cycle.py",
    ]


@pytest.mark.parametrize(
    ("path", "first"),
    [
        ("tests/unit/queue/test_moves.py", "tests/unit/queue/test_moves.py"),
        ("tests/unit/queue/doubles.py", "tests/unit/queue/test_moves.py"),
        # Data of a package.
        ("scheduler/metrics/definitions.toml", "tests/unit/metrics/test_instruments.py"),
    ],
)
def test_what_imports_a_file_is_near(path: str, first: str) -> None:
    assert nearest(path)[0] == first


def test_other_files_belong_to_the_tests_of_the_repository() -> None:
    files = quick.ranked({}, ["README.md"])
    assert files
    assert all(each.startswith(f"{quick.REPOSITORY}/test_") for each in files)
    changed, others = quick.modules_of(["README.md", "docs/page.md"], graph().modules)
    assert (changed, others) == (set(), ["README.md", "docs/page.md"])


@pytest.mark.slow
@pytest.mark.parametrize(("end", "expected"), [("0", "1 skipped"), ("1e18", "1 passed")])
def test_no_test_begins_after_the_end(tmp_path: Path, end: str, expected: str) -> None:
    (tmp_path / "test_it.py").write_text("def test_one(): pass\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "devtools.time_limit", "test_it.py"]
    command += [f"--end-at={end}", f"--rootdir={tmp_path}", "-c", "/dev/null"]
    done = subprocess.run(
        [*command, "-p", "no:cacheprovider"],
        check=False,
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
        capture_output=True,
        text=True,
    )
    assert expected in done.stdout
    assert ("not run, no time was left: 1 tests" in done.stdout) == (end == "0")
    assert done.returncode == 0
