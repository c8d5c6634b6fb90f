"""ProcessOutput: what the process of a plugin writes to standard output and error, in the log.

Bounded: some lines in each period, the others are counted. All of it is read, so that a process
that prints never waits, until it has written so much that it is to be ended.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable
from typing import Final

import structlog

_log = structlog.get_logger(__name__)

MAX_LINES: Final = 50
"""Lines in the log in each period."""
PERIOD_SECONDS: Final = 10.0
MAX_LINE_BYTES: Final = 2000
"""Bytes of a line; a longer one is cut in pieces."""
MAX_BYTES: Final = 16 << 20
"""Output of one call, beyond which the process is ended."""
TAIL_BYTES: Final = 16 << 10
_CHUNK_BYTES: Final = 64 << 10
_FRAME: Final = re.compile(rb'File "([^"\n]*)", line (\d+) in ([^\n]*)')
"""A frame in what `faulthandler` writes, the innermost first."""


class ProcessOutput:
    """Reads one pipe whenever there is something to read."""

    def __init__(self, plugin: str, descriptor: int, too_much: Callable[[], None]) -> None:
        """Read from now on, and own the descriptor; `too_much()` is called at the limit."""
        self._plugin = plugin
        self._descriptor = descriptor
        self._too_much = too_much
        self._loop = asyncio.get_running_loop()
        self._line = b""
        self._tail = b""
        self._news = asyncio.Event()
        #: Bytes of the present call.
        self.call_bytes = 0
        self._period_ends = 0.0
        self._lines = 0
        self._left_out = 0
        os.set_blocking(descriptor, False)
        self._loop.add_reader(descriptor, self._read)

    async def innermost_frame(self, left_out: tuple[str, ...], seconds: float) -> str:
        """Return `file:line in function` of the innermost frame of a stack that is being written.

        Frames of files below `left_out` do not count; empty if there is none in time.
        """
        try:
            async with asyncio.timeout(seconds):
                while not (found := self._innermost(left_out)):
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            return ""
        return found

    def _innermost(self, left_out: tuple[str, ...]) -> str:
        for file, line, function in _FRAME.findall(self._tail):
            path = file.decode(errors="replace")
            if not path.startswith(left_out):
                return f"{path}:{line.decode()} in {function.decode(errors='replace')}"
        return ""

    def forget_tail(self) -> None:
        """Forget what was written so far, for `innermost_frame`."""
        self._tail = b""

    def close(self) -> None:
        """Read what is left, and close the descriptor; may be called again."""
        if self._descriptor >= 0:
            self._read()
            self._stop()

    def _stop(self) -> None:
        if self._descriptor < 0:
            return
        self._loop.remove_reader(self._descriptor)
        os.close(self._descriptor)
        self._descriptor = -1
        self._write(self._line)
        self._report_left_out()

    def _read(self) -> None:
        try:
            chunk = os.read(self._descriptor, _CHUNK_BYTES)
        except BlockingIOError:
            return
        if not chunk:
            self._stop()
            return
        self._tail = (self._tail + chunk)[-TAIL_BYTES:]
        self._news.set()
        self.call_bytes += len(chunk)
        self._split(chunk)
        if self.call_bytes > MAX_BYTES:
            self.call_bytes = 0
            self._too_much()

    def _split(self, chunk: bytes) -> None:
        lines = (self._line + chunk).split(b"\n")
        self._line = lines.pop()
        if len(self._line) > MAX_LINE_BYTES:
            lines.append(self._line)
            self._line = b""
        now = self._loop.time()
        if now >= self._period_ends:
            self._period_ends = now + PERIOD_SECONDS
            self._lines = 0
            self._report_left_out()
        shown = max(0, MAX_LINES - self._lines)
        for line in lines[:shown]:
            self._write(line)
        self._lines += len(lines)
        self._left_out += max(0, len(lines) - shown)

    def _write(self, line: bytes) -> None:
        text = line[:MAX_LINE_BYTES].decode(errors="replace").rstrip()
        if text:
            _log.info("output of a plugin", plugin=self._plugin, text=text)

    def _report_left_out(self) -> None:
        if self._left_out:
            _log.warning("output of a plugin left out", plugin=self._plugin, lines=self._left_out)
            self._left_out = 0
