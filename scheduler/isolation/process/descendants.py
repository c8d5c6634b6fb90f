"""Ends what the process of a plugin has started, also in sessions of its own.

A group of processes is ended with one signal, but a child that begins a session, as daemons do, is
in no group of ours, and has another parent once its own has ended. What remains is the environment,
which all descendants inherit: each process of a plugin has a mark of its own there.

A process that the kernel is replacing by another program has no environment for a moment, which is
long on a busy machine: it is looked at again. A descendant that clears its environment is not
found; the end of the container ends it.
"""

from __future__ import annotations

import os
import signal
import uuid
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Final

MARK: Final = "KUBESTOW_PLUGIN_PROCESS"
"""The variable; its value differs for each process of a plugin."""

MAX_ROUNDS: Final = 10
"""Looks at all processes: one that is not ended yet may start another meanwhile."""


def new_mark() -> str:
    """Return a value of `MARK`."""
    return uuid.uuid4().hex


def end_marked(mark: str) -> bool:
    """End all processes with a mark, and return whether some may be left: look again in a moment.

    It reads a file of each process of the machine, or of the container: a few milliseconds for
    hundreds, which is why it is done only when the process of a plugin has ended.
    """
    variable = f"{MARK}={mark}".encode()
    seen: set[int] = set()
    for _ in range(MAX_ROUNDS):
        processes = _processes() - seen
        found = {pid: _end(pid, variable) for pid in processes}
        ended = {pid for pid, result in found.items() if result == _Result.ENDED}
        if not ended:
            return _Result.UNKNOWN in found.values()
        seen |= ended
    return True


class _Result(Enum):
    """Result of a look at a process."""

    ENDED = "ended"
    OTHER = "other"
    UNKNOWN = "unknown"


def _processes() -> set[int]:
    try:
        names = [each.name for each in Path("/proc").iterdir()]
    except FileNotFoundError:
        # Not Linux: only a developer's machine, where such descendants stay.
        return set()
    return {int(name) for name in names if name.isdigit()} - {os.getpid()}


def _end(pid: int, variable: bytes) -> _Result:
    """End a process if it has the variable. The descriptor keeps its number from another one."""
    with suppress(OSError):
        descriptor = os.pidfd_open(pid)
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes()
            if variable in environment.split(b"\0"):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                return _Result.ENDED
            if not environment and begins_program(Path(f"/proc/{pid}/stat").read_bytes()):
                return _Result.UNKNOWN
        finally:
            os.close(descriptor)
    return _Result.OTHER


def begins_program(stat: bytes) -> bool:
    """Return whether `/proc/<pid>/stat` is that of a process whose environment is not there yet.

    It has memory, unlike zombies and threads of the kernel, and the end of its environment is 0,
    unlike that of a process with an empty one: fields 23 and 51 of
    https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html.
    """
    # The second field, the name, may hold any bytes.
    fields = stat.rpartition(b")")[2].split()
    size, environment_end = fields[23 - 3], fields[51 - 3]
    return size != b"0" and environment_end == b"0"
