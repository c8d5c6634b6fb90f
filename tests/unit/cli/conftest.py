"""A shell for command lines."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
import structlog

from tests.unit.cli.command_line import Shell, install


@pytest.fixture(autouse=True)
def log() -> None:
    """Log as a program does that has configured nothing, whatever was configured before."""
    structlog.reset_defaults()


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    shell = Shell(capsys)
    install(shell, monkeypatch)
    before = sys.path[:]
    yield shell
    sys.path[:] = before
