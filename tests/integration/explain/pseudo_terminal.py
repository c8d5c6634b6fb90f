"""A command on a pseudo-terminal: keys, sizes, and what stands on its screen.

The terminal is the controlling one of the process, so that Ctrl-C and a new size reach it as
signals, as from a real one. Every wait has a time limit, and its failure shows what was printed.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Self

ROOT: Final = Path(__file__).resolve().parents[3]
PATIENCE_SECONDS: Final = 60.0
HOME: Final = "\x1b[H"
"""Begins a frame of a live screen."""
ALTERNATE, NORMAL = "\x1b[?1049h", "\x1b[?1049l"
CURSOR_HIDDEN, CURSOR_SHOWN = "\x1b[?25l", "\x1b[?25h"

_START: Final = """
import fcntl, runpy, signal, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
# A test run in the background of a shell script ignores the signal, and so would this process.
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.argv[0] = "kubestow"
runpy.run_module("scheduler", run_name="__main__")
"""
_SEQUENCE: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07]*\x07)")


class PseudoTerminal:
    """One command and its terminal; a context manager that ends both."""

    def __init__(self, *arguments: str, columns: int = 80, rows: int = 24) -> None:
        self._ours, self._theirs = pty.openpty()
        self._resize(columns, rows)
        self.attributes: list[Any] = termios.tcgetattr(self._theirs)
        environment = {**os.environ, "TERM": "xterm-256color", "PYTHONPATH": str(ROOT)}
        for name in ("COLUMNS", "LINES", "NO_COLOR"):
            environment.pop(name, None)
        self.process = subprocess.Popen(
            [sys.executable, "-c", _START, *arguments],
            stdin=self._theirs,
            stdout=self._theirs,
            stderr=self._theirs,
            env=environment,
            start_new_session=True,
        )
        #: Everything that was printed so far.
        self.printed = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._ours)
        os.close(self._theirs)

    def resize(self, columns: int, rows: int) -> None:
        """Give the terminal another size; the process gets the signal for it."""
        self._resize(columns, rows)

    def press(self, keys: str) -> None:
        """Send keys; the one with code 3 is Ctrl-C."""
        os.write(self._ours, keys.encode())

    def frame(self) -> list[str]:
        """Return the lines of the last frame of a live screen, without colours."""
        return _SEQUENCE.sub("", self.printed.rpartition(HOME)[2]).splitlines()

    def wait_for(self, met: Callable[[list[str]], bool]) -> list[str]:
        """Read until the last frame meets a condition and is complete; return it."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        former: list[str] = []
        while not (met(former) and former == self.frame()):
            former = self.frame()
            assert time.monotonic() < deadline, self.printed
            assert self.process.poll() is None, self.printed
            self._read(0.05)
        return self.frame()

    def ended(self) -> int:
        """Wait until the process has ended; return its exit code."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self.process.poll() is None:
            assert time.monotonic() < deadline, self.printed
            self._read(0.05)
        self._read(0.0)
        return self.process.returncode

    def restored(self) -> bool:
        """Whether modes and cursor are as they were before the command."""
        modes = termios.tcgetattr(self._theirs) == self.attributes
        screen = self.printed.rfind(NORMAL) > self.printed.rfind(ALTERNATE)
        cursor = self.printed.rfind(CURSOR_SHOWN) > self.printed.rfind(CURSOR_HIDDEN)
        return modes and screen and cursor

    def _resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def _read(self, seconds: float) -> None:
        while select.select([self._ours], [], [], seconds)[0]:
            self.printed += os.read(self._ours, 65_536).decode("utf-8", "replace")
            seconds = 0.0
