"""Calls of single plugin methods: exceptions of a plugin become an error of the attempt.

Plugin errors are wrapped here and in `columnar_calls` only, except that a failing PostFilter or
Unreserve does not end the attempt.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from scheduler.api.pod import Pod
from scheduler.engine.errors import AttemptError, CycleBudgetError, failed
from scheduler.extenders.extender import DeadlineExceededError, ExtenderTransport
from scheduler.framework import SKIP, Code, CycleState, NodeInfo, PreFilterResult, Status
from scheduler.framework.results import score_result
from scheduler.framework.status import PluginError, status_or_none
from scheduler.sanitizing.exceptions import error_repr, error_text

T = TypeVar("T")

MUST_BE_AWAITED: Final = "it is async and runs only in a scheduling cycle"
DEFAULT_TIMEOUT: Final = 5.0
"""Timeout in seconds of an async PreFilter or PostFilter whose plugin does not set `timeout`."""
FAULTS: Final = (Exception, SystemExit, GeneratorExit)
"""Exceptions that count as errors of the plugin that a synchronous call runs; KeyboardInterrupt is
not among them."""


def pre_filter_result(result: object) -> PreFilterResult | Status | None:
    """Return the result of PreFilter if its type is valid. Raises TypeError."""
    return result if isinstance(result, PreFilterResult) else status_or_none(result)


def _permit_result(result: Any) -> tuple[Status | None, float]:
    timeout = float(result[1])
    if math.isnan(timeout):
        raise TypeError("permit returned a timeout that is no number")
    return status_or_none(result[0]), timeout


def _anything(result: Any) -> Any:
    return result


@dataclass(frozen=True, slots=True)
class PluginMethod:
    """A method of plugins, the check of its result, and upstream's text for its failure."""

    name: str
    #: Upstream's error message, a format string of `plugin` (name) and `why`.
    text: str
    #: Returns the method's result if it is valid, otherwise raises TypeError.
    check: Callable[[Any], Any] = status_or_none
    #: Whether the error status names the plugin, as upstream's does.
    attributed: bool = True

    def failed(self, plugin: str, why: object, cause: BaseException | None = None) -> AttemptError:
        """Build the error of an attempt in which this method of `plugin` failed."""
        is_usual = isinstance(why, str | Exception)
        reason = error_text(why) if is_usual else error_repr(why)
        text = self.text.format(plugin=plugin, why=reason)
        raised = failed(text, cause, plugin if self.attributed else "")
        if cause is not None and not isinstance(cause, PluginError):
            raised.origin = plugin, self.point_label
        return raised

    @property
    def point_label(self) -> str:
        """The extension point: `PreFilter`, `Filter`, `AddPod`, `NormalizeScores`."""
        words = self.name.removesuffix("_rows").removesuffix("_status").split("_")
        return "".join(each.capitalize() for each in words)


PRE_FILTER: Final = PluginMethod(
    "pre_filter", 'running PreFilter plugin "{plugin}": {why}', pre_filter_result
)
ADD_POD: Final = PluginMethod(
    "add_pod", 'running AddPod on PreFilter plugin "{plugin}": {why}', attributed=False
)
REMOVE_POD: Final = PluginMethod(
    "remove_pod", 'running RemovePod on PreFilter plugin "{plugin}": {why}', attributed=False
)
RELAX: Final = PluginMethod("relax", 'running Relax plugin "{plugin}": {why}', bool)
UNSCHEDULABLE_REASON: Final = PluginMethod(
    "unschedulable_reason", 'running UnschedulableReason plugin "{plugin}": {why}', _anything
)
FILTER: Final = PluginMethod("filter", 'running "{plugin}" filter plugin: {why}')
FILTER_STATUS: Final = PluginMethod("filter_status", FILTER.text)
PRE_SCORE: Final = PluginMethod(
    "pre_score", 'running PreScore plugin "{plugin}": {why}', attributed=False
)
SCORE: Final = PluginMethod(
    "score",
    'running Score plugins: plugin "{plugin}" failed with: {why}',
    score_result,
    attributed=False,
)
NORMALIZE_SCORES: Final = PluginMethod(
    "normalize_scores",
    'running Normalize on Score plugins: plugin "{plugin}" failed with: {why}',
    _anything,
    attributed=False,
)
CONCERNS: Final = PluginMethod("concerns", 'running Concerns plugin "{plugin}": {why}', bool)
RESERVE: Final = PluginMethod("reserve", 'running Reserve plugin "{plugin}": {why}')
PERMIT: Final = PluginMethod("permit", 'running Permit plugin "{plugin}": {why}', _permit_result)
PRE_BIND_PRE_FLIGHT: Final = PluginMethod(
    "pre_bind_pre_flight", 'running PreBindPreFlight "{plugin}": {why}', _anything
)
PRE_BIND: Final = PluginMethod("pre_bind", 'running PreBind plugin "{plugin}": {why}')
BIND: Final = PluginMethod("bind", 'running Bind plugin "{plugin}": {why}')

POST_FILTER: Final = PluginMethod("post_filter", 'running PostFilter plugin "{plugin}": {why}')
POST_BIND: Final = PluginMethod("post_bind", 'running PostBind plugin "{plugin}": {why}')


class CallErrors:
    """A context manager that turns an exception of a plugin into an AttemptError."""

    __slots__ = ("_method", "_plugin")

    def __init__(self, method: PluginMethod, plugin: Any) -> None:
        self._method = method
        self._plugin = plugin

    def __enter__(self) -> None:
        """Begin a call."""

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        """Raise AttemptError from the plugin's exception, if there is one."""
        if isinstance(error, Exception) and not isinstance(error, AttemptError):
            raise self._method.failed(self._plugin.name, error, error) from error


def call(method: PluginMethod, plugin: Any, *arguments: Any) -> Any:
    """Call a method of a plugin and check what it returns. Raises AttemptError."""
    try:
        result = getattr(plugin, method.name)(*arguments)
        # The usual results need no check; this saves one call per plugin.
        return result if result is None or result is SKIP else method.check(result)
    except AttemptError:
        raise
    except FAULTS as error:
        raise method.failed(plugin.name, error, error) from error


def call_filter(plugin: Any, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
    """Call the scalar Filter of one plugin; return None, or a rejection attributed to the plugin.

    It repeats the steps of `call` inline for speed, because what-ifs run it for every
    pod of every node. Raises AttemptError for a status that is neither success nor rejection.
    """
    try:
        status = status_or_none(plugin.filter(state, pod, node))
    except CycleBudgetError:
        raise
    except FAULTS as error:
        raise FILTER.failed(plugin.name, error, error) from error
    if status is None or status.success:
        return None
    if not status.rejected:
        why = status.message
        if status.code is not Code.ERROR and not why:
            why = f"unexpected status {status.code.label}"
        raise FILTER.failed(plugin.name, why)
    return status.by(plugin.name)


async def call_awaited(
    method: PluginMethod, plugin: Any, transport: ExtenderTransport, *arguments: Any
) -> Any:
    """Like `call`, for an async method; it fails after the plugin's `timeout`."""
    seconds = timeout_of(plugin)
    with CallErrors(method, plugin):
        try:
            result = await transport.wait_for(getattr(plugin, method.name)(*arguments), seconds)
        except DeadlineExceededError as error:
            raise method.failed(plugin.name, late(seconds), error) from error
        return method.check(result)


def timeout_of(plugin: Any) -> float:
    """Return the timeout of the plugin's async methods, in seconds."""
    return float(getattr(plugin, "timeout", DEFAULT_TIMEOUT))


def late(seconds: float) -> str:
    """Word the error of a plugin that exceeded its timeout."""
    return f"did not finish within {seconds:g}s"


def run_synchronously(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that does not suspend, without an event loop; RuntimeError if it does.

    Each step of a cycle has one implementation, a coroutine. It suspends only if it awaits an
    `ExtenderTransport`, which most pods do not need.
    """
    try:
        work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    work.close()
    raise RuntimeError("a step of a synchronous scheduling cycle was suspended")
