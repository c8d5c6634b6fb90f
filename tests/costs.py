"""A table of what tests cost: `pytest -p tests.costs` prints CPU and wall time.

One row for each folder, then the slowest tests. The CPU time of a phase (setup, call, teardown) is
what the process used since the phase before it, so a fixture is charged to the test that set it up.
Child processes count where they are waited for; one that is never reaped counts nowhere.

    make test PYTEST_ARGS="-p tests.costs --slowest=100 --costs-json=build/costs.json"

pytest takes the value of an option of a plugin for a path of tests unless `=` joins them.
"""

from __future__ import annotations

import json
import os
import time
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path

import pytest

FOLDER_DEPTH = 3
"""Levels of folders that have a row of their own: tests/integration/recording."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the table."""
    group = parser.getgroup("costs of tests")
    group.addoption("--slowest", type=int, default=20, help="number of slowest tests to list")
    group.addoption("--costs-json", type=Path, help="file for the seconds of each test")


def pytest_configure(config: pytest.Config) -> None:
    """Measure in the processes that run tests, and print in the one that reports."""
    config.pluginmanager.register(Meter(), "costs-meter")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Table(config), "costs-table")


class Meter:
    """Attaches to the report of each phase the CPU time since the phase before."""

    def __init__(self) -> None:
        self._seen = _cpu()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self) -> Generator[None, object, object]:
        """Begin at the test: what came before is collection."""
        self._seen = _cpu()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Charge this phase."""
        report = yield
        now = _cpu()
        report.user_properties.append(("cpu", now - self._seen))
        self._seen = now
        return report


class Table:
    """Adds up the phases of each test, and prints at the end."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._begin = time.perf_counter()
        self._wall: defaultdict[str, float] = defaultdict(float)
        self._cpu: defaultdict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add one phase."""
        self._wall[report.nodeid] += report.duration
        for key, value in report.user_properties:
            if key == "cpu" and isinstance(value, float):
                self._cpu[report.nodeid] += value

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the tables."""
        write = terminalreporter.write_line
        terminalreporter.section("costs of tests")
        folders: defaultdict[str, list[str]] = defaultdict(list)
        for test in self._wall:
            folders[_folder(test)].append(test)
        rows = [
            (sum(map(self._cpu.__getitem__, tests)), sum(map(self._wall.__getitem__, tests)), name)
            for name, tests in folders.items()
        ]
        write(f"{'wall s':>8} {'CPU s':>8} {'tests':>6}  folder")
        for cpu, wall, folder in sorted(rows, reverse=True):
            write(f"{wall:8.1f} {cpu:8.1f} {len(folders[folder]):6}  {folder}")
        wall, cpu = sum(self._wall.values()), sum(self._cpu.values())
        write(f"{wall:8.1f} {cpu:8.1f} {len(self._wall):6}  all tests")
        write(f"{time.perf_counter() - self._begin:8.1f}  from start to end")
        write(f"\n{'wall s':>8} {'CPU s':>8}  slowest tests")
        slowest = sorted(self._wall, key=self._wall.__getitem__, reverse=True)
        for test in slowest[: self._config.getoption("slowest")]:
            write(f"{self._wall[test]:8.2f} {self._cpu[test]:8.2f}  {test}")
        if path := self._config.getoption("costs_json"):
            path.parent.mkdir(parents=True, exist_ok=True)
            costs = {test: [self._wall[test], self._cpu[test]] for test in self._wall}
            path.write_text(json.dumps(costs))


def _folder(test: str) -> str:
    return "/".join(test.partition("::")[0].split("/")[:-1][:FOLDER_DEPTH])


def _cpu() -> float:
    return sum(os.times()[:4])
