"""ThreadEvaluator: runs PreFilter, Filter and Score of a plugin in a separate thread.

A call that times out is abandoned: its scheduling attempt fails, and so does every later one, at
once, until the thread ends. So a plugin never has more than one thread.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import structlog

from scheduler.api.pod import Pod
from scheduler.framework import CycleState, NodeTableView
from scheduler.isolation.evaluation import (
    CycleTable,
    Evaluation,
    PluginTimeoutError,
    evaluate,
)
from scheduler.sanitizing.exceptions import error_text
from scheduler.service.plugin_frames import find_call, frame_of

_log = structlog.get_logger(__name__)

T = TypeVar("T")


class PluginBusyError(PluginTimeoutError):
    """An earlier call has not ended yet."""

    result = "busy"


class PluginThread:
    """Runs one call of a plugin at a time, each in a daemon thread. Used on one event loop."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None

    @property
    def ident(self) -> int | None:
        """The identifier of the thread of the current call; None without a call."""
        thread = self._thread
        return thread.ident if thread is not None and thread.is_alive() else None

    async def run(self, name: str, work: Callable[[], T], seconds: float) -> T:
        """Return what `work` returns, or raise what it raises.

        Raises:
            TimeoutError: `work` has not ended in time; its thread continues to run.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()

        def settle(result: T | None, error: Exception | None) -> None:
            # The call has ended, although its thread may run for a moment longer.
            if self._thread is thread:
                self._thread = None
            if done.done():
                return
            if error is None:
                done.set_result(result)  # type: ignore[arg-type]  # the one or the other is set
            else:
                done.set_exception(error)

        def call() -> None:
            result, raised = None, None
            try:
                result = work()
            except BaseException as error:  # noqa: BLE001 - boundary of the thread
                raised = _for_loop(error)
            if not loop.is_closed():
                loop.call_soon_threadsafe(settle, result, raised)

        self._thread = thread = threading.Thread(target=call, name=f"plugin {name}", daemon=True)
        thread.start()
        async with asyncio.timeout(seconds):
            return await done


class ThreadEvaluator:
    """Evaluates one plugin of one profile. Used on one event loop."""

    def __init__(self, plugin: Any, timeout_seconds: float) -> None:
        self._plugin = plugin
        self._thread = PluginThread()
        self._seconds = timeout_seconds

    async def evaluate(self, state: CycleState, pod: Pod, table: NodeTableView) -> Evaluation:
        """Evaluate a pod on all nodes, and add what the plugin wrote to `state`.

        Raises:
            PluginTimeoutError: the call did not end in time.
            PluginBusyError: an earlier call has not ended.
        """
        if self._thread.ident is not None:
            raise PluginBusyError(f"an earlier call has not ended{self._where()}")
        # A copy of the state, because an abandoned thread may go on writing to it.
        own = CycleState(state.now, dict(state.data))
        own.info = state.info
        view = CycleTable(table)
        try:
            found = await self._thread.run(
                self._plugin.name, lambda: evaluate(self._plugin, own, pod, view), self._seconds
            )
        except TimeoutError:
            where = self._where()
            _log.error(
                "isolated plugin did not finish in time",
                plugin=self._plugin.name,
                executes=where.strip(),
            )
            raise PluginTimeoutError(f"did not finish within {self._seconds:g}s{where}") from None
        finally:
            view.end()
        state.data.update(own.data)
        return found

    def faults(self) -> tuple[str, ...]:
        """Return nothing, because failures are reported as exceptions of the plugin."""
        return ()

    def close(self) -> None:
        """Do nothing: a thread cannot be ended."""

    async def closed(self) -> None:
        """Do nothing: a thread cannot be ended."""

    def _where(self) -> str:
        call = find_call(frame_of(self._thread.ident), [self._plugin])
        return "" if call is None else f": it executes {call.where}"


def _for_loop(error: BaseException) -> Exception:
    """Return the exception to raise on the event loop.

    SystemExit would end the loop, and futures refuse some exceptions.
    """
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    return RuntimeError(f"{type(error).__name__}: {error_text(error)}")
