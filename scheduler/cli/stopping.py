"""SIGINT and SIGTERM of a command whose work ends with an answer.

The first signal ends the work early, with its answer; another one ends the process at once. That
holds from the start of the work until the answer is written. Signal handlers of an event loop would
not do: they are gone when it is closed, and run only while nothing blocks it.
"""

from __future__ import annotations

import os
import signal
from types import FrameType
from typing import Any, Final, Self

from scheduler.cli.reporting import EXIT_INTERRUPTED

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
ENDING: Final = b"the answer is being made; another signal ends this at once, without it\n"
STDERR: Final = 2


class Stop:
    """A context manager, for the main thread, around the work and the writing of its answer."""

    def __init__(self) -> None:
        #: Called with the first signal, between two instructions of the main thread.
        self.end_early = tell
        self._signalled = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in SIGNALS:
            self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, _: int, __: FrameType | None) -> None:
        if self._signalled:
            # A thread may be at work, for which the interpreter would wait.
            os._exit(EXIT_INTERRUPTED)
        self._signalled = True
        self.end_early()


def tell() -> None:
    """Say that the answer is under way: nothing is left that could end early."""
    # A signal may interrupt a write of `sys.stderr`, which cannot be entered again.
    os.write(STDERR, ENDING)
