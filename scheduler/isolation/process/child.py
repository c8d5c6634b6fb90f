"""ChildProcess: one process of a plugin, as the scheduler sees it, from its start to its end.

It is a new interpreter in a session of its own, which the scheduler ends with all that it started
(`descendants`).
It ends with the scheduler too, however that ends (`worker`). Nothing here blocks the event loop.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from typing import Final

from scheduler.isolation.process.descendants import MARK, end_marked, new_mark
from scheduler.isolation.process.messages import (
    HEADER_BYTES,
    MAX_RESPONSE_BYTES,
    Content,
    RequestMessage,
    ResponseMessage,
    decode_response,
    frame,
)
from scheduler.isolation.process.output import ProcessOutput
from scheduler.service.plugin_exceptions import OURS

MAX_IGNORED: Final = 10
"""Responses to other requests, as those of a copy of the process, that are left out."""
EXIT_SECONDS: Final = 0.5
"""How long the end of a process that was killed is awaited."""
LOOK_SECONDS: Final = 0.01
MAX_LOOKS: Final = 40
"""Looks for what it started, as long as some of that may be left; within `EXIT_SECONDS`."""
TRACE_SECONDS: Final = 0.2
"""How long a process that hangs may take to write its stack."""
TRACE_SIGNAL: Final = signal.SIGUSR1
"""Writes the stack to standard error, even while C code holds the GIL."""

_BOOTSTRAP: Final = (
    "import sys; descriptor, parent, path = sys.argv[1:]; import json; sys.path[:] = json.loads("
    "path); from scheduler.isolation.process.worker import main; "
    "main(int(descriptor), int(parent))"
)
"""The path is that of the scheduler, plugin folders included: `-P` keeps the current one out."""

_ENVIRONMENT: Final = {
    # Threads and their arenas take address space, which is limited.
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "1",
    # What is printed appears at once, and not only if the process ends in order.
    "PYTHONUNBUFFERED": "1",
}


class ProcessEndedError(Exception):
    """The process ended, or sent what is no response; the text says which."""


class ChildProcess:
    """A running process. Touched from one event loop, by one call at a time."""

    def __init__(self, plugin: str) -> None:
        """Start the process, in the thread of the event loop.

        The kernel ends it with the thread that started it.
        """
        self._loop = asyncio.get_running_loop()
        self.started = self._loop.time()
        #: Whether the plugin is loaded.
        self.ready = False
        self._number = 0
        self._received = bytearray()
        #: Why the scheduler ended it, for people and for the metric; empty: it did not.
        self.killed_for = ("", "")
        #: Whether a call has already waited for its start.
        self.awaited = False
        #: Set when it has ended, to its exit status, negative for a signal.
        self.exited: asyncio.Future[int] = self._loop.create_future()
        self._socket, theirs = socket.socketpair()
        self._mark = new_mark()
        with theirs:
            self._process, self._pidfd = _started(theirs, self._mark)
        self._socket.setblocking(False)
        assert self._process.stdout is not None
        output = self._process.stdout
        self.output = ProcessOutput(plugin, os.dup(output.fileno()), self._printed_too_much)
        output.close()
        self._loop.add_reader(self._pidfd, self._has_exited)

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    def send_start(self, content: Content) -> None:
        """Send the first request, which fits the buffer of the socket, without waiting."""
        self._socket.send(self._request(content))

    async def exchange(self, content: Content) -> ResponseMessage:
        """Send a request, and return the response to it. Raises ProcessEndedError."""
        request = self._request(content)
        try:
            await self._loop.sock_sendall(self._socket, request)
            return await self.response()
        except OSError:
            raise await self._ended() from None

    async def response(self) -> ResponseMessage:
        """Return the response to the last request, however often it was awaited before.

        Raises:
            ProcessEndedError: there will be none.
        """
        ignored = 0
        while True:
            while (found := self._decoded()) is not None:
                if found.number == self._number:
                    return found
                ignored += 1
            if ignored > MAX_IGNORED:
                raise self.refused("it sent responses to no request", "response")
            chunk = await self._receive()
            if not chunk:
                raise await self._ended()
            self._received += chunk

    async def _receive(self) -> bytes:
        """Return bytes that have arrived; none if no more will.

        Nothing is read until the call continues, so that a call which is cancelled loses nothing;
        `loop.sock_recv` loses what it has read if its task is cancelled before that runs again.
        """
        while True:
            try:
                return self._socket.recv(1 << 18)
            except BlockingIOError:
                readable: asyncio.Future[None] = self._loop.create_future()
            except OSError:
                return b""
            descriptor = self._socket.fileno()
            self._loop.add_reader(descriptor, _set, readable)
            try:
                await readable
            finally:
                self._loop.remove_reader(descriptor)

    def kill(self, why: str, label: str = "") -> None:
        """End the process and all that it started, at once; the first reason given counts."""
        if not self.exited.done() and not self.killed_for[0]:
            self.killed_for = why, label
        if not self.exited.done():
            # Not yet waited for, so that the number is not that of another process.
            os.killpg(self.pid, signal.SIGKILL)

    def refused(self, why: str, label: str) -> ProcessEndedError:
        """End the process, and return the error of the present call."""
        self.kill(why, label)
        return ProcessEndedError(why)

    async def wait(self) -> None:
        """Wait a moment until a process that was killed has ended."""
        await asyncio.wait((self.exited,), timeout=EXIT_SECONDS)

    def close(self) -> None:
        """Close the connection to a process that has ended, or was killed; not during a call."""
        self._socket.close()

    async def where(self) -> str:
        """Return `file:line in function` that a process executes that hangs; empty if unknown."""
        self.output.forget_tail()
        if not self.exited.done():
            os.kill(self.pid, TRACE_SIGNAL)
        return await self.output.innermost_frame(OURS, TRACE_SECONDS)

    def _request(self, content: Content) -> bytes:
        self._number += 1
        self.output.call_bytes = 0
        return frame(RequestMessage(self._number, content))

    def _decoded(self) -> ResponseMessage | None:
        """Return the next response that is received whole."""
        length = int.from_bytes(self._received[:HEADER_BYTES], "big")
        if length > MAX_RESPONSE_BYTES:
            raise self.refused(f"it sent a response of {length} bytes", "response")
        end = HEADER_BYTES + length
        if len(self._received) < max(end, HEADER_BYTES + 1):
            return None
        body = bytes(self._received[HEADER_BYTES:end])
        del self._received[:end]
        try:
            return decode_response(body)
        except Exception:  # noqa: BLE001 - peer boundary: whatever it sent
            raise self.refused("it sent what is no response", "response") from None

    async def _ended(self) -> ProcessEndedError:
        """Return the error of a process whose socket ended; it may run on without."""
        self.kill("")
        await self.wait()
        return ProcessEndedError(self.end_text())

    def end_text(self) -> str:
        """Return why the process ended."""
        if self.killed_for[0]:
            return self.killed_for[0]
        status = self.exited.result() if self.exited.done() else 0
        if status >= 0:
            return f"it exited with status {status}"
        try:
            return f"it was killed by {signal.Signals(-status).name}"
        except ValueError:
            return f"it was killed by signal {-status}"

    def _printed_too_much(self) -> None:
        self.kill("it printed too much in one call", "output")

    def _has_exited(self) -> None:
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        # What it started is in its group, or else has its mark.
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._end_marked(MAX_LOOKS)

    def _end_marked(self, looks: int) -> None:
        """End what has its mark; it counts as ended once nothing of it can be left."""
        if end_marked(self._mark) and looks > 1:
            self._loop.call_later(LOOK_SECONDS, self._end_marked, looks - 1)
            return
        self.exited.set_result(self._process.wait())
        self.output.close()


def _set(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)


def _started(theirs: socket.socket, mark: str) -> tuple[subprocess.Popen[bytes], int]:
    """Start the process, and return it with a descriptor that tells when it ends."""
    descriptor = theirs.fileno()
    arguments = [str(descriptor), str(os.getpid()), json.dumps(sys.path)]
    process = subprocess.Popen(  # noqa: S603 - our own interpreter
        [sys.executable, "-P", "-c", _BOOTSTRAP, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        pass_fds=(descriptor,),
        start_new_session=True,
        env={**_ENVIRONMENT, **os.environ, MARK: mark},
    )
    try:
        return process, os.pidfd_open(process.pid)
    except OSError:
        process.kill()
        process.communicate()
        raise
