"""A shell for command lines."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from tests.unit.cli.command_line import Shell, install


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    shell = Shell(capsys)
    install(shell, monkeypatch)
    before = sys.path[:]
    yield shell
    sys.path[:] = before
