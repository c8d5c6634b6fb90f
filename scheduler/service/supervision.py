"""Supervision of tasks in which code of others runs, such as constructors and handlers of plugins.

Such code may cancel the task in which it runs, or raise `CancelledError` from a task of its own.
asyncio takes that for the end that somebody wanted: the task ends without a word, and what it did
is not done any more. Here the work has a task of its own, so that a cancellation from within is
distinguished from one of the caller.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, Final, TypeVar

import structlog

from scheduler.client.backoff import Backoff
from scheduler.client.clock import Clock

_log = structlog.get_logger(__name__)

T = TypeVar("T")

Run = Callable[[], Coroutine[Any, Any, None]]
"""Begins work that continues until it is cancelled, or until there is nothing left to do."""

FIRST_RESTART_SECONDS: Final = 1.0
LAST_RESTART_SECONDS: Final = 60.0


class CancelledFromWithinError(Exception):
    """Work was cancelled by code that it called."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name}: cancelled by code that it called, such as that of a plugin")


async def in_own_task(work: Coroutine[Any, Any, T], name: str) -> T:
    """Return what `work` returns, or raise what it raises.

    Raises:
        CancelledFromWithinError: it was cancelled, but not by the caller.
    """
    task = asyncio.create_task(work, name=name)
    try:
        await asyncio.wait((task,))
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.wait((task,))
        raise
    if task.cancelled():
        raise CancelledFromWithinError(name)
    return task.result()


class Supervisor:
    """Keeps the long-running work of the service going."""

    def __init__(self, clock: Clock, random: Random) -> None:
        self._clock = clock
        self._random = random

    async def keep(
        self,
        run: Run,
        name: str,
        *,
        errors: bool = False,
    ) -> None:
        """Run until cancelled, or until `run` returns; begin again if it was cancelled from within.

        Also after exceptions with `errors`; otherwise they are raised, and end the process.
        """
        backoff = Backoff(self._random, FIRST_RESTART_SECONDS, LAST_RESTART_SECONDS)
        while True:
            began = self._clock.monotonic()
            cause: Exception
            try:
                await in_own_task(run(), name)
                return
            except CancelledFromWithinError as error:
                cause = error
            except Exception as error:  # boundary: a task that nobody awaits
                if not errors:
                    raise
                cause = error
            if self._clock.monotonic() - began > LAST_RESTART_SECONDS:
                backoff.reset()
            delay = backoff.next()
            _log.error(
                "a background task ended unexpectedly, and begins again",
                task=name,
                seconds=round(delay, 1),
                exc_info=cause,
            )
            await self._clock.sleep(delay)
