"""Child processes that never outlive the test run.

Two nets: `Processes.close` kills every process group it started, and on Linux the kernel kills each
child when this process dies in a way that runs no clean-up (`kill -9`, an aborted pytest).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final

POLL_SECONDS: Final = 0.05
TAIL_LINES: Final = 20
KILL_TIMEOUT_SECONDS: Final = 10.0
"""For the kernel to reap a process that got SIGKILL; more means it hangs in the kernel."""

# Runs in the child before the real command: asks for SIGKILL when the parent dies, checks that this
# did not happen already, and becomes the command (same pid). A `preexec_fn` would do the same
# between fork and exec, which can deadlock in a process that has threads. 1 is PR_SET_PDEATHSIG.
_BECOME: Final = """
import os, sys
if sys.platform == "linux":
    import ctypes
    ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)
    if os.getppid() != int(sys.argv[1]):
        sys.exit("the parent process died before the start")
os.execv(sys.argv[2], sys.argv[2:])
"""


class ProcessError(RuntimeError):
    """A process did not start, become ready or stop. The text ends with its log."""


class ManagedProcess:
    """One running command in its own process group.

    `pid` is the command itself (no shell and no wrapper in between), fit for measuring. Log output
    of processes that are started under the same name one after the other is appended to one file.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log: Path,
        port: int,
        popen: subprocess.Popen[bytes],
    ) -> None:
        self.name = name
        self.command = tuple(command)
        self.log = log
        self.port = port
        """The TCP port on 127.0.0.1 on which it serves."""
        self._popen = popen

    def __repr__(self) -> str:
        state = "running" if self.running else f"exited with {self.returncode}"
        return f"<{self.name} pid={self.pid} port={self.port} {state}>"

    @property
    def pid(self) -> int:
        """The process id, also of a process that has ended."""
        return self._popen.pid

    @property
    def returncode(self) -> int | None:
        """The exit status, negative for a signal; `None` while it runs."""
        return self._popen.poll()

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self.returncode is None

    def stop(self, timeout: float = 30.0) -> None:
        """End it with SIGTERM, and with SIGKILL if it is still there after `timeout` seconds."""
        self._signal(signal.SIGTERM)
        try:
            self._popen.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()

    def stop_cleanly(self) -> None:
        """Stop it. Raises ProcessError unless it ends with status 0."""
        self.stop()
        if self.returncode:
            raise ProcessError(self.describe("did not end cleanly"))

    def kill(self) -> None:
        """End it with SIGKILL, as a crash would, and wait until it has ended."""
        self._signal(signal.SIGKILL)
        try:
            self._popen.wait(KILL_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired as error:
            raise ProcessError(
                self.describe(f"still exists {KILL_TIMEOUT_SECONDS:.0f} s after SIGKILL")
            ) from error

    def pause(self) -> None:
        """Stop it from running (SIGSTOP): its sockets stay open and silent."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Undo `pause`."""
        self._signal(signal.SIGCONT)

    def wait_until(self, condition: Callable[[], bool], *, timeout: float, what: str) -> None:
        """Poll `condition` until it holds.

        Raises:
            ProcessError: the process ended meanwhile, or `timeout` seconds have passed; `what`
                completes the sentence "was not ... after 30 s".
        """
        deadline = time.monotonic() + timeout
        while True:
            if not self.running:
                raise ProcessError(
                    self.describe(f"ended with status {self.returncode} before it was {what}")
                )
            if condition():
                return
            if time.monotonic() > deadline:
                raise ProcessError(self.describe(f"was not {what} after {timeout:.0f} s"))
            time.sleep(POLL_SECONDS)

    def log_tail(self, lines: int = TAIL_LINES) -> str:
        """Return the last lines it logged."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def describe(self, problem: str) -> str:
        """Return an error text: the problem, the command and the end of the log."""
        command = " ".join(self.command)
        return f"{self.name} {problem}\ncommand: {command}\nend of {self.log}:\n{self.log_tail()}"

    def _signal(self, number: signal.Signals) -> None:
        # Not reaped yet means that the id is still ours; so no other process can be hit.
        if self.running:
            os.killpg(self.pid, number)


class Processes:
    """Starts processes and ends all of them in `close`, the last started first."""

    def __init__(self, log_directory: Path) -> None:
        self._log_directory = log_directory
        self._started: list[ManagedProcess] = []
        # The kernel's parent-death signal is bound to the *thread* that started the child. A test
        # that starts something from a worker thread would lose it when that thread ends, so one
        # thread that lives as long as this object starts everything.
        self._starter = ThreadPoolExecutor(max_workers=1, thread_name_prefix="envtest-start")

    def start(
        self, name: str, command: Sequence[str], *, port: int, environment: Mapping[str, str]
    ) -> ManagedProcess:
        """Start `command`, logging to `<name>.log`, and return without waiting for it to be ready.

        Raises:
            ProcessError: a process of that name is running.
        """
        if any(process.name == name and process.running for process in self._started):
            msg = f"{name} is running already: stop it first, or give the second one another name"
            raise ProcessError(msg)
        log = self._log_directory / f"{name}.log"
        popen = self._starter.submit(_spawn, command, log, environment).result()
        process = ManagedProcess(name, command, log, port, popen)
        self._started.append(process)
        return process

    @contextmanager
    def killed_on_error(self) -> Iterator[None]:
        """Kill what was started within and still runs, if that ends with an exception."""
        before = len(self._started)
        try:
            yield
        except BaseException:
            for process in reversed(self._started[before:]):
                process.kill()
            raise

    def close(self) -> None:
        """Kill whatever runs; what it holds in memory or on disk is not wanted any more."""
        problems: list[str] = []
        for process in reversed(self._started):
            try:
                process.kill()
            except ProcessError as error:
                problems.append(str(error))
        self._started.clear()
        self._starter.shutdown()
        if problems:
            raise ProcessError("\n".join(problems))


def _spawn(
    command: Sequence[str], log: Path, environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    become = [sys.executable, "-I", "-S", "-c", _BECOME, str(os.getpid()), *command]
    with log.open("ab") as output:
        return subprocess.Popen(
            become,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(environment),
            start_new_session=True,
        )
