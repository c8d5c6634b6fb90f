"""Copies of the process that a plugin makes by `os.fork`: they are ended at once.

A copy would go on scheduling, with the same connections to the API server. Programs that are
started by `subprocess` are no such copies. Nor are those that asyncio starts, for which uvloop
forks and calls the same hooks: there no plugin runs, or asyncio stands between it and the fork.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from typing import Any, Final

from scheduler.service.plugin_frames import find_call

EXIT_CODE: Final = 70
"""EX_SOFTWARE of sysexits.h."""


def end_forked_copies(plugins: Callable[[], Iterable[Any]]) -> None:
    """End every copy that a plugin makes of this process, with a line that names the plugin."""

    def end() -> None:
        caller = sys._getframe(1) if sys._getframe().f_back else None  # noqa: SLF001 - documented
        if caller is None or str(caller.f_globals.get("__name__")).startswith("asyncio."):
            return
        call = find_call(caller, plugins())
        if call is None:
            return
        # The copy must not run anything else: neither the logger, whose lock may be held, nor
        # what the interpreter does at its exit.
        try:
            os.write(2, f"{call} called os.fork: the copy of the scheduler ends\n".encode())
        finally:
            os._exit(EXIT_CODE)

    os.register_at_fork(after_in_child=end)
