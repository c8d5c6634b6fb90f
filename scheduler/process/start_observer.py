"""Says where a step of the start waits, such as at the top of a plugin's module.

Until the event loop runs, the watchdog has no heartbeat to watch. A thread looks at the stack of
the starting one instead, every few seconds, and logs each place once.
"""

from __future__ import annotations

import importlib
import threading
import traceback
from types import FrameType
from typing import Final, Self

import structlog

from scheduler.service.plugin_exceptions import OURS
from scheduler.service.plugin_frames import frame_of

_log = structlog.get_logger(__name__)

LOOK_SECONDS: Final = 10.0
"""Period of the looks. Imports of large libraries take a few seconds."""

_IMPORTS: Final = ("<frozen importlib", importlib.__file__)


class StartObserver:
    """Watches the thread that enters it, until it leaves."""

    def __init__(self) -> None:
        self._starting = threading.get_ident()
        self._over = threading.Event()
        # A daemon, so that it cannot keep an ending process alive.
        self._thread = threading.Thread(target=self._run, name="start observer", daemon=True)
        self._reported = ""

    def __enter__(self) -> Self:
        self._starting = threading.get_ident()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def look(self) -> None:
        """Log where the starting thread is, unless it was there at the last look."""
        where = called_place(frame_of(self._starting))
        if where and where != self._reported:
            self._reported = where
            _log.warning(
                "the start waits for code that it has called, such as that of a plugin", at=where
            )

    def _run(self) -> None:
        while not self._over.wait(LOOK_SECONDS):
            self.look()


def called_place(frame: FrameType | None) -> str:
    """Return the outermost place beyond our own code, as `file:line in function`.

    For a module that is imported it is the line at its top. Empty if our own code runs.
    """
    where = ""
    for each, line in traceback.walk_stack(frame):
        file = each.f_code.co_filename
        if file.startswith(OURS):
            break
        if not file.startswith(_IMPORTS):
            where = f"{file}:{line} in {each.f_code.co_name}"
    return where
