"""IsolatedPlugin: PreFilter, Filter and Score of a plugin in a thread of their own.

The framework calls it in place of the plugin. Its PreFilter is async: it suspends the scheduling
cycle while a thread evaluates the pod on all nodes, so that the event loop runs. Filter and Score
only look the results up. All other methods are the plugin's own, on the event loop.

A call that does not end in time is given up: its attempt fails, and so does every further one at
once, until the thread ends. So there is never more than one thread of a plugin.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, Final, TypeVar

import structlog

from scheduler.api.pod import Pod
from scheduler.framework import (
    Codes,
    CycleState,
    Int64Column,
    NodeInfo,
    NodeTableView,
    PreFilterResult,
    Rows,
    Status,
)
from scheduler.service.plugin_evaluation import CycleTable, Evaluation, evaluate
from scheduler.service.plugin_frames import find_call, frame_of
from scheduler.text.exceptions import error_text

_log = structlog.get_logger(__name__)

T = TypeVar("T")

GRACE_SECONDS: Final = 1.0
"""The engine's own timeout is that much longer, so that it never ends a call first."""


class PluginTimeoutError(Exception):
    """A call did not end in time, or an earlier one has not ended yet."""


class PluginThread:
    """Runs one call of a plugin at a time, each in a daemon thread. For one event loop."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None

    @property
    def ident(self) -> int | None:
        """The thread of the call under way, None for none."""
        thread = self._thread
        return thread.ident if thread is not None and thread.is_alive() else None

    async def run(self, name: str, work: Callable[[], T], seconds: float) -> T:
        """Return what `work` returns, or raise what it raises.

        Raises:
            TimeoutError: it has not ended in time; its thread is left behind.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()

        def settle(result: T | None, error: Exception | None) -> None:
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

        self._thread = threading.Thread(target=call, name=f"plugin {name}", daemon=True)
        self._thread.start()
        async with asyncio.timeout(seconds):
            return await done


class IsolatedPlugin:
    """A plugin of a profile with `isolation` for it."""

    def __init__(
        self, plugin: Any, timeout_seconds: float, report: Callable[[str, str], None]
    ) -> None:
        """`report(plugin, result)` counts the calls: success, error, timeout or busy."""
        own = self.__dict__
        own.update(
            name=plugin.name,
            plugin=plugin,
            timeout=timeout_seconds + GRACE_SECONDS,
            filter_reuse=None,
            score_reuse=None,
            pre_filter_reusable=False,
            filter_without_victims=None,
            _thread=PluginThread(),
            _seconds=timeout_seconds,
            _report=report,
            _key=f"{plugin.name}/evaluation",
        )
        if hasattr(plugin, "filter") or hasattr(plugin, "filter_rows"):
            own.update(
                filter=self._filter, filter_rows=self._filter_rows, filter_status=self._status
            )
        if hasattr(plugin, "score") or hasattr(plugin, "score_rows"):
            own.update(score=self._score, score_rows=self._score_rows)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the plugin."""
        return getattr(self.__dict__["plugin"], name)

    async def pre_filter(
        self, state: CycleState, pod: Pod, table: NodeTableView
    ) -> PreFilterResult | Status | None:
        """Evaluate the pod on all nodes in the thread, and return the result of PreFilter.

        Raises:
            PluginTimeoutError: it did not end in time, or an earlier call has not ended.
        """
        if self._thread.ident is not None:
            self._report(self.name, "busy")
            raise PluginTimeoutError(f"an earlier call has not ended{self._where()}")
        # A state of its own, because a thread that is given up may go on writing.
        own = CycleState(state.now, dict(state.data))
        own.info = state.info
        view = CycleTable(table)
        found: Evaluation
        try:
            found = await self._thread.run(
                self.name, lambda: evaluate(self.plugin, own, pod, view), self._seconds
            )
        except TimeoutError:
            self._report(self.name, "timeout")
            where = self._where()
            _log.error(
                "isolated plugin did not finish in time", plugin=self.name, executes=where.strip()
            )
            raise PluginTimeoutError(f"did not finish within {self._seconds:g}s{where}") from None
        except Exception:
            self._report(self.name, "error")
            raise
        finally:
            view.end()
        self._report(self.name, "success")
        state.data.update(own.data)
        state.write(self._key, found)
        return found.result

    def _where(self) -> str:
        call = find_call(frame_of(self._thread.ident), [self.plugin])
        return "" if call is None else f": it executes {call.where}"

    def _found(self, state: CycleState) -> Evaluation:
        found: Evaluation = state.read(self._key)
        return found

    def _filter_rows(self, state: CycleState, pod: Pod, table: object, rows: Rows) -> Codes:
        return self._found(state).codes[rows]

    def _status(self, state: CycleState, pod: Pod, code: int) -> Status | None:
        return self._found(state).statuses.get(code)

    def _filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        found = self._found(state)
        return found.statuses.get(int(found.codes[node.row]))

    def _score_rows(self, state: CycleState, pod: Pod, table: object, rows: Rows) -> Int64Column:
        return self._found(state).scores[rows]

    def _score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return int(self._found(state).scores[node.row])


def _for_loop(error: BaseException) -> Exception:
    """Return what to raise on the event loop: SystemExit would end it, and futures refuse some."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    return RuntimeError(f"{type(error).__name__}: {error_text(error)}")
