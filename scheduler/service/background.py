"""BackgroundTasks: work of plugins that outlives the cycle that started it, such as evictions.

This class owns all tasks: it logs their failures, and cancels them at the end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import structlog

_log = structlog.get_logger(__name__)


class BackgroundTasks:
    """The tasks. Used from one event loop only, and only while it runs."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._cancelled = False

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run `work` in a task named `name`."""
        task = self._loop().create_task(self._logged(work, name), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    async def finished(self) -> None:
        """Wait until all tasks have ended."""
        while self._tasks:
            await asyncio.wait(tuple(self._tasks))

    async def cancel(self) -> None:
        """Cancel the remaining tasks, and wait for their end."""
        self._cancelled = True
        for task in self._tasks:
            task.cancel()
        await self.finished()

    async def _logged(self, work: Coroutine[Any, Any, None], name: str) -> None:
        try:
            await work
        except Exception:  # noqa: BLE001 - task boundary: the task is not awaited
            _log.exception("background work failed", task=name)
        except asyncio.CancelledError:
            if not self._cancelled:
                _log.exception("background work was cancelled from within", task=name)
            raise
