"""Runs listed tests in the listed order, each within its time limit, and tells how they ended.

A test beyond its limit ends the process by SIGALRM: a mutant may loop for ever where no exception
gets through. In the run that records hits no tests are listed, and all run, by several workers.
"""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Final

import pytest

import scheduler

EVENTS_VARIABLE: Final = "MUTANTS_EVENTS_FILE"
TESTS_VARIABLE: Final = "MUTANTS_TESTS_FILE"


def pytest_configure(config: pytest.Config) -> None:
    """Refuse to judge another tree than the copy, and begin to report."""
    assert scheduler.__file__ is not None
    if not Path(scheduler.__file__).is_relative_to(config.rootpath):
        pytest.exit(f"{scheduler.__file__} is imported instead of the copy", returncode=3)
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Events(Path(os.environ[EVENTS_VARIABLE])))
    if file := os.environ.get(TESTS_VARIABLE):
        config.pluginmanager.register(_Chosen(json.loads(Path(file).read_text())))


class _Events:
    """Appends to a file, so that an ended process leaves what it had reported."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._write("start", nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._write("failed" if report.failed else "passed", report.nodeid, report.duration)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._write("failed", report.nodeid)

    def _write(self, event: str, test: str, seconds: float = 0.0) -> None:
        with self._file.open("a") as file:
            file.write(json.dumps([event, test, seconds]) + "\n")


class _Chosen:
    """Selects and orders the tests, and limits each by the wall clock."""

    def __init__(self, limits: dict[str, float]) -> None:
        self._limits = limits
        self._order = {test: index for index, test in enumerate(limits)}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        others = [item for item in items if item.nodeid not in self._order]
        items[:] = [item for item in items if item.nodeid in self._order]
        items.sort(key=lambda item: self._order[item.nodeid])
        config.hook.pytest_deselected(items=others)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        signal.setitimer(signal.ITIMER_REAL, self._limits[nodeid])

    def pytest_runtest_logfinish(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
