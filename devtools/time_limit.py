"""A pytest plugin that begins no test after a moment: `-p devtools.time_limit --end-at=MONOTONIC`.

Tests run in the order of the files on the command line. Those that did not begin are counted by
folder; they are neither passed nor failed.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import Final

import pytest

NOT_RUN: Final = "no time was left"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption("--end-at", type=float, help="value of time.monotonic() to end at")


def pytest_configure(config: pytest.Config) -> None:
    """Limit the tests of this process, or count in the one that reports."""
    end = config.getoption("--end-at")
    config.pluginmanager.register(TimeLimit(end), "time-limit")


class TimeLimit:
    """Skips tests that are left at the end."""

    def __init__(self, end: float) -> None:
        self._end = end
        self._left: Counter[str] = Counter()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        """Skip the test if the time is over."""
        if time.monotonic() >= self._end:
            pytest.skip(NOT_RUN)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count the tests that were skipped here."""
        if report.skipped and NOT_RUN in str(report.longrepr):
            self._left[report.nodeid.partition("::")[0].rpartition("/")[0]] += 1

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Name what did not run."""
        for folder, count in sorted(self._left.items()):
            terminalreporter.write_line(f"not run, {NOT_RUN}: {count} tests of {folder}")
