"""Ends what the process of a plugin has started, also in sessions of its own.

A group of processes is ended with one signal, but a child that begins a session, as daemons do, is
in no group of ours, and has another parent once its own has ended. What remains is the environment,
which all descendants inherit: each process of a plugin has a mark of its own there.

A descendant that also clears its environment is not found; the end of the container ends it.
"""

from __future__ import annotations

import os
import signal
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Final

MARK: Final = "KUBESTOW_PLUGIN_PROCESS"
"""The variable; its value differs for each process of a plugin."""

MAX_ROUNDS: Final = 10
"""Looks at all processes: one that is not ended yet may start another meanwhile."""


def new_mark() -> str:
    """Return a value of `MARK`."""
    return uuid.uuid4().hex


def end_marked(mark: str) -> int:
    """End all processes with a mark, and return how many there were.

    It reads a file of each process of the machine, or of the container: a few milliseconds for
    hundreds, which is why it is done only when the process of a plugin has ended.
    """
    variable = f"{MARK}={mark}".encode()
    ended: set[int] = set()
    for _ in range(MAX_ROUNDS):
        found = {pid for pid in _processes() - ended if _end(pid, variable)}
        if not found:
            break
        ended |= found
    return len(ended)


def _processes() -> set[int]:
    try:
        names = [each.name for each in Path("/proc").iterdir()]
    except FileNotFoundError:
        # Not Linux: only a developer's machine, where such descendants stay.
        return set()
    return {int(name) for name in names if name.isdigit()} - {os.getpid()}


def _end(pid: int, variable: bytes) -> bool:
    """End a process if it has the variable. The descriptor keeps its number from another one."""
    with suppress(OSError):
        descriptor = os.pidfd_open(pid)
        try:
            if variable not in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                return False
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            return True
        finally:
            os.close(descriptor)
    return False
