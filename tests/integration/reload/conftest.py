"""Removal of what a reload leaves in the process of the tests, and no looks at files by itself."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from scheduler.reload import reloader


@pytest.fixture(autouse=True)
def no_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let only the tests look at the files, not the scheduler beside them every two seconds."""
    monkeypatch.setattr(reloader, "PERIOD", 3600.0)


@pytest.fixture(autouse=True)
def import_path() -> Iterator[None]:
    """Take back what the plugin folder does to the process."""
    path = list(sys.path)
    yield
    sys.path[:] = path
    for name in [each for each in sys.modules if each.startswith("reloaded_")]:
        del sys.modules[name]
