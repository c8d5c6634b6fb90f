"""`kubestow demo` in virtual time: the seconds in which it only waits take none.

    ForkedCommands("tests.integration.demo.in_virtual_time", entry="...in_virtual_time:main")

Importing it changes the clocks of the process, for all modules that are imported later. Nothing
outside of the process takes part in a story, so all of its clocks can go forward together: those of
the machine as the process reads them, and thereby those of the event loop.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Coroutine
from typing import Any, Final

REAL_SECONDS: Final = 0.001
"""Waited for work before time is skipped."""


class SkippingSelector(selectors.DefaultSelector):
    """Instead of waiting for the next timer, sets the clocks forward to it."""

    ahead = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return what is ready; nothing once `timeout` seconds have passed or were skipped."""
        if timeout is None or timeout <= REAL_SECONDS:
            return super().select(timeout)
        ready = super().select(REAL_SECONDS)
        if not ready:
            type(self).ahead += timeout - REAL_SECONDS
        return ready


def skipping_time() -> None:
    """Let the clocks of this process go with the selector; for modules that are imported later."""
    monotonic, wall = time.monotonic, time.time
    time.monotonic = lambda: monotonic() + SkippingSelector.ahead
    time.time = lambda: wall() + SkippingSelector.ahead


def run(work: Coroutine[Any, Any, Any]) -> Any:
    """Replace `uvloop.run`, whose loop has no selector."""

    def new_loop() -> asyncio.AbstractEventLoop:
        return asyncio.SelectorEventLoop(SkippingSelector())

    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(work)


def main() -> None:
    """Run the command of `sys.argv`."""
    import uvloop

    from scheduler.cli.demo import command

    uvloop.run = run  # type: ignore[assignment]
    command()


skipping_time()
