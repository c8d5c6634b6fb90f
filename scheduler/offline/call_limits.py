"""CallLimit: ends a call of a plugin that does not return.

A thread looks at the stack of the thread that runs the world, a few times in the limit. Where the
same call of a plugin was there all the time, an exception is raised inside of it, so that the run
ends as after any other exception of a plugin, and the others go on. Calls that return take nothing.

The time is that of the clock, which no decision depends on unless a call is ended. Only plugins
that are not built in are looked at. A call that is in C code ends when it returns to Python, unless
the world runs in the main thread, where a signal wakes it from waiting.
"""

from __future__ import annotations

import ctypes
import signal
import threading
import time
from collections.abc import Iterable
from types import FrameType
from typing import Any, Final, Self

from scheduler.service.plugin_frames import find_call, frame_of, outermost_call

LIMIT_SECONDS: Final = 60.0
"""A call that takes longer is thought to have no end."""
_LOOKS: Final = 10
"""In the time of the limit."""
_BUILT_IN: Final = "plugins."
_SIGNAL: Final = signal.SIGURG
"""Ignored by default, and used by hardly anything."""


class EndlessCallError(SystemExit):
    """A call of a plugin that was ended. `except Exception` in the plugin does not catch it."""


class CallLimit:
    """A context, in the thread that runs the world, in which no call of a plugin is endless."""

    def __init__(self, plugins: Iterable[Any], seconds: float) -> None:
        self._plugins = [
            each for each in plugins if not type(each).__module__.startswith(_BUILT_IN)
        ]
        self._seconds = seconds
        self._target = threading.get_ident()
        self._in_main = threading.current_thread() is threading.main_thread()
        self._stop = threading.Event()
        # A daemon, so that it cannot keep an ending process alive.
        self._thread = threading.Thread(target=self._look, name="plugin calls", daemon=True)
        self._before: Any = None
        #: The call that is to be ended.
        self._endless: FrameType | None = None
        self._text = ""

    def __enter__(self) -> Self:
        if self._plugins:
            if self._in_main:
                self._before = signal.signal(_SIGNAL, self._on_signal)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._plugins:
            self._stop.set()
            self._thread.join()
            if self._in_main:
                signal.signal(_SIGNAL, self._before)

    def _look(self) -> None:
        seen: FrameType | None = None
        since = time.monotonic()
        while not self._stop.wait(self._seconds / _LOOKS):
            found = outermost_call(frame_of(self._target), self._plugins)
            if found is None or found is not seen:
                seen, since = found, time.monotonic()
            elif time.monotonic() - since >= self._seconds:
                self._end(found)
                since = time.monotonic()
            del found

    def _end(self, call: FrameType) -> None:
        at = find_call(frame_of(self._target), self._plugins)
        where = f", in {at.where}" if at is not None else ""
        self._text = f"the call had not ended after {self._seconds:g} s{where}"
        self._endless = call
        if self._in_main:
            signal.pthread_kill(self._target, _SIGNAL)
            return
        # Only a class can be raised in another thread; it is called without arguments.
        text = self._text
        raised = type("EndlessCallError", (EndlessCallError,), {"__str__": lambda _: text})
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(self._target), ctypes.py_object(raised)
        )

    def _on_signal(self, _number: int, frame: FrameType | None) -> None:
        endless, self._endless = self._endless, None
        while frame is not None:
            if frame is endless:
                raise EndlessCallError(self._text)
            frame = frame.f_back
