"""Termination of child processes that a plugin creates with `os.fork`.

Such a child would go on scheduling, with the same connections to the API server. Programs started
by `subprocess` are not affected. Nor are those started by asyncio, for which uvloop forks and calls
the same hooks: no plugin is on the stack then, or asyncio is between the plugin and the fork.
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
    """End every child process that a plugin forks, with an error line that names the plugin."""

    def end() -> None:
        caller = sys._getframe(1) if sys._getframe().f_back else None  # noqa: SLF001 - documented
        if caller is None or str(caller.f_globals.get("__name__")).startswith("asyncio."):
            return
        call = find_call(caller, plugins())
        if call is None:
            return
        # The child must not run anything else: neither the logger, whose lock may be held, nor
        # the interpreter's exit handlers.
        try:
            os.write(2, f"{call} called os.fork: the copy of the scheduler ends\n".encode())
        finally:
            os._exit(EXIT_CODE)

    os.register_at_fork(after_in_child=end)
