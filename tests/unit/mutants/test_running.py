"""Tests of mutants: those that reach a place are found, and one that fails kills the mutant."""

from __future__ import annotations

import subprocess
from pathlib import Path
from textwrap import dedent
from typing import Any, Final

import pytest

from devtools.mutants import hits
from devtools.mutants.marking import mark
from devtools.mutants.mutating import PACKAGES, Mutant, find
from devtools.mutants.running import Copy, order

MODULE: Final = f"{PACKAGES[0]}/limits.py"
TESTS: Final = "tests"
FILES: Final = {
    "pyproject.toml": "[tool.pytest.ini_options]\npythonpath = ['.']\n",
    "scheduler/__init__.py": "",
    "kubestow/pytest_plugin.py": "",  # which the installation names
    "scheduler/queue/__init__.py": "",
    MODULE: """
        LIMIT = 5
        def is_large(size):
            return size > 10
        def is_limited(size):
            while size > LIMIT:
                size -= 1
            return size
    """,
    f"{TESTS}/test_limits.py": """
        from scheduler.queue.limits import is_large, is_limited
        def test_large(): assert is_large(20)
        def test_small(): assert not is_large(1)
        def test_limit(): assert is_limited(6) == 5
        def test_fault(): assert is_large(0)
    """,
    f"{TESTS}/test_processes.py": """
        import subprocess, sys
        def test_process():
            code = "from scheduler.queue.limits import is_large; assert not is_large(10)"
            subprocess.run([sys.executable, "-c", code], check=True)
    """,
    f"{TESTS}/unit/repository/test_text.py": "def test_text(): raise AssertionError",
}
LARGE, SMALL, LIMIT, FAULT = (
    f"{TESTS}/test_limits.py::test_{name}" for name in ("large", "small", "limit", "fault")
)
PROCESS: Final = f"{TESTS}/test_processes.py::test_process"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    tree = tmp_path / "original"
    for name, text in FILES.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(dedent(text))
    subprocess.run(["git", "init", "--quiet"], cwd=tree, check=True)
    return tree


def mutant(source: str, replacement: str) -> Mutant:
    mutants = find(MODULE, dedent(FILES[MODULE]).encode())
    return next(m for m in mutants if (m.source, m.replacement) == (source, replacement))


@pytest.mark.slow
def test_tests_that_reach_a_mutant_are_recorded(tree: Path, tmp_path: Path) -> None:
    mutants = {
        0: mutant("size > 10", "(size >= 10)"),
        1: mutant("return size > 10", "return None"),
        2: mutant("5", "(6)"),
    }
    recorded = Copy(tree, tmp_path / "copy").record(mutants, 0)
    assert set(recorded.seconds) == {LARGE, SMALL, LIMIT, PROCESS}
    assert recorded.failed == [FAULT]
    # 10 alone tells > from >=. A constant is read by any function of its module.
    assert recorded.tests[0] == [PROCESS]
    assert recorded.tests[1] == sorted([LARGE, SMALL, PROCESS])
    assert recorded.tests[2] == sorted([LARGE, SMALL, LIMIT, PROCESS])
    assert (tree / MODULE).read_text() == dedent(FILES[MODULE])


@pytest.mark.slow
def test_a_test_that_fails_kills_a_mutant(tree: Path, tmp_path: Path) -> None:
    copy = Copy(tree, tmp_path / "copy")
    with copy.mutated(mutant("return size > 10", "return None")):
        assert (
            copy.first_failure([f"{TESTS}/gone.py::test", f"{SMALL}er", SMALL, LARGE], {}) == LARGE
        )
    with copy.mutated(mutant("size > 10", "(size >= 10)")):
        assert copy.failures([LARGE, PROCESS], {}) == [PROCESS]
    with copy.mutated(mutant("size -= 1", "size += 1")):
        assert copy.failures([SMALL, LIMIT], {LIMIT: -5.95}) == [LIMIT]  # a limit of 0.5 s
    assert copy.first_failure([SMALL, LARGE, LIMIT], {}) is None


def test_marks_nest_and_return_the_values(tmp_path: Path) -> None:
    text = "def f(a, b):\n    return (1 if a < 3 else\n        2 + b * 4)\n"
    (tmp_path / MODULE).parent.mkdir(parents=True)
    (tmp_path / MODULE).write_text(text)
    mark(tmp_path, dict(enumerate(find(MODULE, text.encode()))))
    marked = (tmp_path / MODULE).read_text()
    variables: dict[str, Any] = {"__builtins__": {"__import__": lambda _: hits}}
    exec(marked, variables)
    assert marked.count(".hit(") == len(find(MODULE, text.encode()))
    assert [variables["f"](2, 0), variables["f"](3, 5)] == [1, 22]


def test_nearby_tests_come_first_then_quick_ones() -> None:
    seconds = {
        f"{TESTS}/far.py::a": 1.0,
        f"{TESTS}/slow.py::a": 2.0,
        f"{TESTS}/unit/queue/b.py::a": 9.0,
    }
    seconds |= {f"{TESTS}/x/test_limits.py::b": 5.0, f"{TESTS}/x/test_limits.py::a": 4.0}
    assert order(mutant("5", "(6)"), sorted(seconds, reverse=True), seconds) == [
        f"{TESTS}/x/test_limits.py::a", f"{TESTS}/x/test_limits.py::b",
        f"{TESTS}/unit/queue/b.py::a", f"{TESTS}/far.py::a", f"{TESTS}/slow.py::a",
    ]  # fmt: skip
