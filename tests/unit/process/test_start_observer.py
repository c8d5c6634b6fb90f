"""A step of the start that waits is named by the place in the code that it called."""

from __future__ import annotations

import importlib
import sys
import threading
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from scheduler.process import start_observer
from scheduler.process.start_observer import StartObserver

WAIT_SECONDS = 60.0
Gate = tuple[threading.Event, threading.Event]
WAITS = """
import threading

import reloaded_gate

reloaded_gate.inside.set()
reloaded_gate.over.wait({seconds})
"""


@pytest.fixture
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Gate:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "reloaded_gate.py").write_text(
        "import threading\ninside, over = threading.Event(), threading.Event()\n"
    )
    (tmp_path / "reloaded_waits.py").write_text(WAITS.format(seconds=WAIT_SECONDS))
    for name in ("reloaded_gate", "reloaded_waits"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    found = importlib.import_module("reloaded_gate")
    return found.inside, found.over


def test_the_line_of_a_module_that_waits_is_logged_once(
    gate: Gate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside, over = gate
    monkeypatch.setattr(start_observer, "OURS", (__file__,))
    observers: list[StartObserver] = []

    def start() -> None:
        with StartObserver() as observer:
            observers.append(observer)
            importlib.import_module("reloaded_waits")

    starting = threading.Thread(target=start)
    starting.start()
    try:
        assert inside.wait(WAIT_SECONDS)
        with capture_logs() as logs:
            observers[0].look()
            observers[0].look()
    finally:
        over.set()
        starting.join()
    (line,) = logs
    assert line["log_level"] == "warning"
    assert line["at"] == f"{tmp_path}/reloaded_waits.py:7 in <module>"


def test_a_wait_is_logged_without_being_asked(
    gate: Gate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, over = gate
    logged: list[str] = []

    class Log:
        def warning(self, _text: str, at: str) -> None:
            logged.append(at)
            over.set()

    monkeypatch.setattr(start_observer, "_log", Log())
    monkeypatch.setattr(start_observer, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(start_observer, "OURS", (__file__,))
    with StartObserver():
        importlib.import_module("reloaded_waits")
    assert f"{tmp_path}/reloaded_waits.py:7 in <module>" in logged
