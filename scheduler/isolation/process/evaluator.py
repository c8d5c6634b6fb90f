"""ProcessEvaluator: calls a plugin in a process of its own, which it starts and ends.

The first call starts the process. A call that does not end in time ends it, as does a response that
makes no sense; the next one is started after a pause that grows with each failure. Until it runs,
calls fail at once, so that other pods are not held up.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, cast

import msgspec
import numpy as np
import structlog

from scheduler.api.pod import Pod
from scheduler.cache.node_table import NodeTable
from scheduler.framework import (
    ConfigurationError,
    CycleState,
    NodeTableView,
    PluginError,
    PreFilterResult,
    Status,
)
from scheduler.framework.status import Code
from scheduler.isolation.evaluation import Evaluation, PluginTimeoutError
from scheduler.isolation.process.child import ChildProcess, ProcessEndedError
from scheduler.isolation.process.messages import (
    CallMessage,
    ResponseMessage,
    Start,
    StatusMessage,
    sendable,
)
from scheduler.isolation.process.table_copy import TableCopy
from scheduler.sanitizing.exceptions import error_repr

_log = structlog.get_logger(__name__)

START_SECONDS: Final = 60.0
"""How long a process may take to import and build its plugin."""
POLL_SECONDS: Final = 0.02
"""How long a call waits for a process that is being started after a failure."""
MAX_PAUSE_SECONDS: Final = 60.0
"""The longest pause before a process is started again; the first one is a second."""
FIRST_WAIT_SECONDS: Final = 30.0
"""How long pods wait that are like one that ended the process; it doubles each time.

Longer than the longest backoff, so that other pods have their turn before.
"""
MAX_WAIT_SECONDS: Final = 300.0
MAX_WAITING: Final = 1000
"""Kinds of such pods that are remembered."""
HEALTHY_SECONDS: Final = 600.0
"""A process that ran so long failed for another reason than the one before."""
COPY_SHARE: Final = 0.5
"""Part of the timeout in which nodes are copied; the plugin has the rest."""
MAX_ARGS_BYTES: Final = 64 << 10
"""Size of the encoded arguments, so that the first message fits the buffer of a socket."""


class PluginUnavailableError(Exception):
    """There is no process to call now; the text says why and until when."""

    result: Final = "unavailable"


@dataclass(frozen=True, slots=True)
class ProcessSettings:
    """Settings of the process of a plugin, and limits of what it may use."""

    profile_name: str
    feature_gates: Mapping[str, bool]
    timeout_seconds: float
    memory_limit: int


class ProcessEvaluator:
    """The process of one plugin of one profile. Touched from one event loop."""

    def __init__(
        self,
        plugin_class: type[Any],
        args: Any,
        settings: ProcessSettings,
        failed: Callable[[str, str], None],
    ) -> None:
        """Start nothing yet. `failed(plugin, reason)` counts the ends of processes.

        Raises:
            ConfigurationError: the arguments cannot be sent to another process.
        """
        self.name: Final[str] = plugin_class.name
        self._settings = settings
        self._failed = failed
        self._start = Start(
            plugin_class.__module__,
            plugin_class.__qualname__,
            settings.profile_name,
            _encoded(self.name, args),
            dict(settings.feature_gates),
            settings.memory_limit,
        )
        self._child: ChildProcess | None = None
        #: The one before, which may not have ended yet.
        self._former: ChildProcess | None = None
        self._copy = TableCopy()
        #: Failures in a row.
        self._failures = 0
        #: Starts the next process; None unless one ended.
        self._restart: asyncio.TimerHandle | None = None
        self._ends = 0
        self._last_end = ""
        #: By namespace and signature of pods: how often one of them ended the process, and when the
        #: next may be tried. They would end it again before any other pod has its turn.
        self._waiting: OrderedDict[tuple[str, int], tuple[int, float]] = OrderedDict()

    @property
    def pid(self) -> int | None:
        """The number of the process; None if there is none."""
        return None if self._child is None else self._child.pid

    def faults(self) -> tuple[str, ...]:
        """Return a line about the processes that ended, for `kubestow explain`."""
        if not self._ends:
            return ()
        times = "once" if self._ends == 1 else f"{self._ends} times"
        return (f"its process ended {times} since the start, last at {self._last_end}",)

    async def evaluate(self, state: CycleState, pod: Pod, table: NodeTableView) -> Evaluation:
        """Evaluate a pod on all nodes of the table, which must not change meanwhile.

        Raises:
            PluginUnavailableError: no process runs yet, or its copy of the nodes is not complete.
            PluginTimeoutError: the call did not end in time.
            ProcessEndedError: the process ended during the call.
            PluginError: the plugin raised.
        """
        self._refuse_waiting(pod)
        child, evaluating = self._running(), None
        try:
            async with asyncio.timeout(self._settings.timeout_seconds):
                await self._ready(child)
                await self._update(child, cast("NodeTable", table))
                evaluating = pod
                response = await child.exchange(CallMessage(state.now, sendable(pod)))
            found = evaluation(response, table)
            self._waiting.pop(_kind(pod), None)
            return found
        except (PluginUnavailableError, PluginError):
            raise
        except TimeoutError:
            raise await self._timed_out(child, evaluating) from None
        except ProcessEndedError as error:
            self._end(child, "exit", str(error), evaluating)
            raise ProcessEndedError(f"its process ended: {error}") from None
        except ValueError as error:
            self._end(child, "response", f"its response makes no sense: {error}", pod)
            raise ProcessEndedError(f"its process was ended: {error}") from None
        except asyncio.CancelledError:
            # The scheduler stops: nobody reads the response.
            child.kill("a call was cancelled", "cancelled")
            raise
        except Exception as error:
            # Boundary: after a fault of ours its copy may be incomplete.
            self._end(child, "error", f"a call failed: {error_repr(error)}")
            raise

    def close(self) -> None:
        """End the process: nothing uses the plugin any more."""
        if self._restart is not None:
            self._restart.cancel()
        if self._child is not None:
            self._child.kill("nothing uses the plugin any more", "close")
            self._child.close()

    async def closed(self) -> None:
        """End the process, and wait a moment for its end."""
        self.close()
        for child in (self._former, self._child):
            if child is not None:
                await child.wait()

    def _refuse_waiting(self, pod: Pod) -> None:
        times, until = self._waiting.get(_kind(pod), (0, 0.0))
        left = until - asyncio.get_running_loop().time()
        if left > 0:
            often = "once" if times == 1 else f"{times} times"
            raise PluginUnavailableError(
                f"its process ended {often} while it evaluated such a pod, last at "
                f"{self._last_end}; such pods are tried again in {left:.0f}s"
            )

    def _running(self) -> ChildProcess:
        """Return the process, started if need be."""
        child = self._child
        if child is not None and child.exited.done():
            self._end(child, "exit", child.end_text())
        if self._child is None and self._restart is not None:
            left = self._restart.when() - asyncio.get_running_loop().time()
            raise PluginUnavailableError(
                f"its process ended at {self._last_end}; the next one is started in {left:.0f}s"
            )
        return self._child or self._begin()

    def _begin(self) -> ChildProcess:
        """Start a process. Raises OSError."""
        self._restart = None
        child = self._child = ChildProcess(self.name)
        self._copy = TableCopy()
        child.send_start(self._start)
        return child

    async def _ready(self, child: ChildProcess) -> None:
        """Wait until the plugin is loaded: one call, unless there was a failure.

        Meanwhile other pods wait as well.
        """
        if child.ready:
            return
        waits = not (self._failures or child.awaited)
        child.awaited = True
        try:
            async with asyncio.timeout(START_SECONDS if waits else POLL_SECONDS):
                response = await child.response()
        except TimeoutError:
            if asyncio.get_running_loop().time() - child.started > START_SECONDS:
                raise
            raise PluginUnavailableError("its process is being started") from None
        if response.error:
            raise child.refused(f"the plugin could not be loaded: {response.error}", "load")
        child.ready = True

    async def _update(self, child: ChildProcess, table: NodeTable) -> None:
        """Send what changed; after some time only a part, the rest in further calls."""
        loop = asyncio.get_running_loop()
        end = loop.time() + COPY_SHARE * self._settings.timeout_seconds
        removed = self._copy.removals(table)
        if removed is not None:
            _check(child, await child.exchange(removed))
        for changes in self._copy.additions(table):
            _check(child, await child.exchange(changes))
            if loop.time() > end and not self._copy.complete:
                raise PluginUnavailableError(
                    f"nodes are still being copied to its process: {self._copy.node_count} of "
                    f"{table.node_count}"
                )

    async def _timed_out(self, child: ChildProcess, evaluating: Pod | None) -> Exception:
        loop = asyncio.get_running_loop()
        if not child.ready and loop.time() - child.started < START_SECONDS:
            return PluginUnavailableError("its process is being started")
        seconds = self._settings.timeout_seconds
        what = f"did not finish within {seconds:g}s" if child.ready else "was not loaded in time"
        where = await child.where()
        text = f"{what}: it executes {where}" if where else what
        self._end(child, "timeout", text, evaluating)
        await child.wait()
        return PluginTimeoutError(text)

    def _end(self, child: ChildProcess, reason: str, text: str, pod: Pod | None = None) -> None:
        """Record that a process failed, and end it if it did not end by itself.

        `pod`: the one that it was evaluating; such pods wait for some time.
        """
        child.kill(text, reason)
        reason = child.killed_for[1] or reason
        child.close()
        self._child, self._former = None, child
        now = asyncio.get_running_loop().time()
        if now - child.started > HEALTHY_SECONDS:
            self._failures = 0
        pause = min(2.0 ** min(self._failures, 10), MAX_PAUSE_SECONDS)
        self._failures += 1
        # Not by the next call, which would fail because of that.
        self._restart = asyncio.get_running_loop().call_later(pause, self._begin)
        self._ends += 1
        self._last_end = f"{datetime.now(UTC).isoformat(timespec='seconds')}: {text}"
        if pod is not None:
            kind = _kind(pod)
            times, _ = self._waiting.pop(kind, (0, 0.0))
            wait = min(FIRST_WAIT_SECONDS * 2.0 ** min(times, 10), MAX_WAIT_SECONDS)
            self._waiting[kind] = times + 1, now + wait
            if len(self._waiting) > MAX_WAITING:
                self._waiting.popitem(last=False)
        self._failed(self.name, reason)
        _log.error(
            "process of a plugin ended",
            plugin=self.name,
            why=text,
            failures=self._failures,
            started_again_in=pause,
        )


def _encoded(plugin: str, args: Any) -> bytes:
    try:
        encoded = msgspec.msgpack.encode(args)
    except (TypeError, NotImplementedError, OverflowError) as error:
        text = f"plugin {plugin}: its arguments cannot be sent to a process of its own: {error}"
        raise ConfigurationError(text) from error
    if len(encoded) > MAX_ARGS_BYTES:
        text = f"plugin {plugin}: its arguments are too large for a process of its own"
        raise ConfigurationError(f"{text}: {len(encoded)} bytes, {MAX_ARGS_BYTES} are allowed")
    return encoded


def _kind(pod: Pod) -> tuple[str, int]:
    """Return what pods have in common that are treated alike: usually those of one workload."""
    return pod.metadata.namespace, pod.signature.id


def _check(child: ChildProcess, response: ResponseMessage) -> None:
    if response.error:
        raise child.refused(f"its copy of the nodes cannot be updated: {response.error}", "copy")


def evaluation(response: ResponseMessage, table: NodeTableView) -> Evaluation:
    """Return what a response says. Raises PluginError, and ValueError if it makes no sense."""
    if response.error:
        raise PluginError(response.error)
    rows, capacity = table.rows, table.capacity
    result = response.result
    found = Evaluation(
        PreFilterResult(frozenset(result))
        if isinstance(result, tuple)
        else None
        if result is None
        else _status(result),
        np.zeros(capacity, np.int32),
        np.zeros(capacity, np.int64),
        {code: _status(each) for code, each in response.statuses.items()},
    )
    found.codes[rows] = _column(response.codes, np.int32, len(rows))
    found.scores[rows] = _column(response.scores, np.int64, len(rows))
    unknown = set(np.unique(found.codes).tolist()) - {0, *found.statuses}
    if unknown:
        raise ValueError(f"codes without a status: {sorted(unknown)[:3]}")
    return found


def _column(content: bytes, kind: type[Any], length: int) -> Any:
    column = np.frombuffer(content, kind)
    if len(column) != length:
        raise ValueError(f"{len(column)} results for {length} nodes")
    return column


def _status(verdict: StatusMessage) -> Status:
    return Status(
        Code(verdict.code),
        verdict.reasons,
        error=PluginError(verdict.error) if verdict.error else None,
        requeue_after=verdict.requeue_after,
        condition_reason=verdict.condition_reason,
        skip_post_filter=verdict.skip_post_filter,
    )
