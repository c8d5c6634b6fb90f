"""Framework: the plugins of one profile, and how each extension point runs them.

Follows pkg/scheduler/framework/runtime/framework.go. PreFilter and PostFilter are coroutines, since
their plugins may be async; with synchronous plugins they never suspend
(`plugin_calls.run_synchronously`). Filter and Score over many rows are in `filtering` and
`scoring`; PreBind, Bind and PostBind, which wait for the API server, are in
`scheduler.service.binding_cycle`.
"""

from __future__ import annotations

import inspect
import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from config import ResolvedProfile
from scheduler.api.pod import Pod
from scheduler.cache import NodeOverlay, NodeTable
from scheduler.engine.attendance import NOBODY, Attendance
from scheduler.engine.cycle_time import Stopwatch, no_stopwatch
from scheduler.engine.errors import CycleBudgetError
from scheduler.engine.nominated_pods_fit import nominated_pods
from scheduler.engine.plugin_calls import (
    ADD_POD,
    MUST_BE_AWAITED,
    PERMIT,
    PRE_FILTER,
    PRE_SCORE,
    RELAX,
    REMOVE_POD,
    RESERVE,
    UNSCHEDULABLE_REASON,
    PluginMethod,
    call,
    call_awaited,
    call_filter,
    late,
    timeout_of,
)
from scheduler.engine.plugin_slots import filter_slots, score_slots
from scheduler.engine.pre_filter import PreFilterNodes
from scheduler.engine.profile import instantiate_plugins
from scheduler.engine.result_cache import Recorded, RecordedPlugins
from scheduler.extenders.extender import DeadlineExceededError, ExtenderTransport
from scheduler.framework import (
    EVENT_POINTS,
    SKIP,
    Code,
    CycleState,
    ExtensionPoint,
    Handle,
    NodeInfo,
    NodeToStatus,
    NominatingInfo,
    PostFilterOutcome,
    PostFilterResult,
    Rows,
    Status,
    error,
)
from scheduler.framework import extension_points as points


class Framework:
    """The plugins of one profile. It keeps no state of attempts; that is in their CycleState."""

    def __init__(
        self,
        profile: ResolvedProfile,
        factories: Mapping[str, Any],
        handle: Handle,
        *,
        last_filters: Sequence[Any] = (),
        measure: Callable[[Any], Any] | None = None,
    ) -> None:
        """Instantiate the profile's plugins.

        `last_filters` are objects with PreFilter and Filter that run after the profile's plugins
        and are not part of the configuration. `measure` wraps a plugin whose calls are to be
        measured, and returns others unchanged. Raises ConfigurationError.
        """
        self.profile_name = profile.scheduler_name
        self.percentage_of_nodes_to_score = profile.percentage_of_nodes_to_score
        self.tie_breaking = profile.tie_breaking
        self.handle = handle
        self.plugins = instantiate_plugins(profile, factories, handle, last_filters)
        measure = measure or _itself
        self._called = {name: measure(plugin) for name, plugin in self.plugins.items()}
        self.pre_enqueue = self._at(profile, points.PRE_ENQUEUE)
        self.queue_sort = self._at(profile, points.QUEUE_SORT)[0]
        self.pre_filter = (*self._at(profile, points.PRE_FILTER), *last_filters)
        #: The plugins with AddPod or RemovePod, which what-ifs call for every pod of every node.
        self._following = {
            method: tuple(p for p in self.pre_filter if callable(getattr(p, method, None)))
            for method in ("add_pod", "remove_pod")
        }
        #: Names of plugins with state that AddPod or RemovePod changes.
        self.pod_followers = frozenset(p.name for each in self._following.values() for p in each)
        self._relaxing = tuple(p for p in self.pre_filter if callable(getattr(p, "relax", None)))
        self._reasoning = tuple(
            p for p in self.plugins.values() if callable(getattr(p, "unschedulable_reason", None))
        )
        self.filter = (*self._at(profile, points.FILTER), *last_filters)
        self.post_filter = self._at(profile, points.POST_FILTER)
        self.pre_score = self._at(profile, points.PRE_SCORE)
        self.score = self._at(profile, points.SCORE)
        self.reserve = self._at(profile, points.RESERVE)
        self.permit = self._at(profile, points.PERMIT)
        self.pre_bind = self._at(profile, points.PRE_BIND)
        self.bind = self._at(profile, points.BIND)
        self.post_bind = self._at(profile, points.POST_BIND)
        #: The `GroupingPlugin` of the profile, if it has one.
        self.grouping = next(filter(_groups_pods, self.plugins.values()), None)
        self.attendance = Attendance(self.plugins.values(), self.pre_filter, self.reserve)
        #: Names of the plugins whose PreFilter is async.
        self.async_pre_filters = self.attendance.asynchronous
        #: Whether any PreFilter or PostFilter is async.
        self.asynchronous = bool(self.async_pre_filters) or any(
            inspect.iscoroutinefunction(plugin.post_filter) for plugin in self.post_filter
        )
        self.weights = tuple(profile.weights.get(p.name) or 1 for p in self.score)
        self.filter_slots = filter_slots(self.filter)
        self.score_slots = score_slots(self.score, self.weights)

    def _at(self, profile: ResolvedProfile, point: ExtensionPoint) -> tuple[Any, ...]:
        return tuple(self._called[name] for name in profile.at(point))

    def event_plugins(self) -> Iterable[Any]:
        """Return the plugins that may register requeueing events, each once."""
        for plugin in self.plugins.values():
            if any(point.implemented_by(plugin) for point in EVENT_POINTS):
                yield plugin

    # -- PreFilter -------------------------------------------------------------------------------

    async def run_pre_filter(
        self,
        state: CycleState,
        pod: Pod,
        table: NodeTable,
        *,
        recorded: RecordedPlugins | None = None,
        stopwatch: Stopwatch | None = None,
        transport: ExtenderTransport | None = None,
        again: bool = False,
        absent: frozenset[str] = NOBODY,
    ) -> PreFilterNodes:
        """Run the PreFilter plugins (RunPreFilterPlugins), up to one that ends PreFilter.

        Sets `state.skip_filter`. Suspends only for async plugins, which need a `transport`. Raises
        AttemptError if a plugin fails.

        Args:
            state: the state of the attempt.
            pod: the incoming pod.
            table: the live node table.
            recorded: cached results of the pod's signature, to use and extend; None: no reuse.
            stopwatch: has the budget of the cycle; None: no budget.
            transport: awaits async plugins within their timeouts.
            again: skip async plugins, because their earlier writes to `state` are still valid.
            absent: plugins that do not take part, see `Attendance`.
        """
        nodes = PreFilterNodes()
        attendance, state.absent = self.attendance, absent
        worked = False
        slots = attendance.synchronous if again else attendance.pre_filter[absent]
        if recorded is not None:
            slots = recorded.replay(slots, state.skip_filter, state)
        for slot in slots:
            if worked and stopwatch is not None:
                # Not after the last plugin, so that its result is not lost.
                stopwatch.cycle.check()
            if not slot.awaited:
                kept = recorded if slot.reusable else None
                result = _call_recorded(PRE_FILTER, slot.plugin, state, kept, pod, table)
            elif transport is None:
                raise PRE_FILTER.failed(slot.name, MUST_BE_AWAITED)
            else:
                result = await call_awaited(PRE_FILTER, slot.plugin, transport, state, pod, table)
            worked = result is not SKIP
            if not worked:
                # The usual result; handling it here saves a call per plugin.
                state.skip_filter.add(slot.name)
            elif result is not None and nodes.merge(slot.name, result, state):
                attendance.skip_before(slot.name, state)
                return nodes
        if recorded is not None:
            recorded.sum_up(slots)
        state.skip_filter |= absent
        state.skip_score |= absent
        return nodes

    def relax(self, state: CycleState, pod: Pod) -> bool:
        """Let every `RelaxingPlugin` relax its requirements; return whether any of them did.

        Raises AttemptError if a plugin fails.
        """
        relaxed = False
        for plugin in self._relaxing:
            relaxed = call(RELAX, plugin, state, pod) or relaxed
        return relaxed

    def add_pod(self, state: CycleState, pod: Pod, added: Pod, node: NodeInfo) -> None:
        """Run AddPod of every PreFilter plugin that is not skipped. Raises AttemptError."""
        self._run_extensions(ADD_POD, state, pod, added, node)

    def remove_pod(self, state: CycleState, pod: Pod, removed: Pod, node: NodeInfo) -> None:
        """Run RemovePod of every PreFilter plugin that is not skipped. Raises AttemptError."""
        self._run_extensions(REMOVE_POD, state, pod, removed, node)

    def _run_extensions(
        self, method: PluginMethod, state: CycleState, pod: Pod, other: Pod, node: NodeInfo
    ) -> None:
        for plugin in self._following[method.name]:
            if plugin.name not in state.skip_filter:
                status = call(method, plugin, state, pod, other, node)
                if status is not None and not status.success:
                    raise method.failed(plugin.name, status.message)

    # -- Filter on one node ----------------------------------------------------------------------

    def run_filters(
        self,
        state: CycleState,
        pod: Pod,
        node: NodeInfo,
        plugins: Sequence[Any] | None = None,
    ) -> Status | None:
        """Run the scalar filters on one node, real or hypothetical (RunFilterPlugins).

        `plugins` limits them to some of the profile's plugins; None: all. Returns the first
        rejection, attributed to its plugin. Raises AttemptError for any other failure.
        """
        skipped = state.skip_filter
        for plugin in self.filter if plugins is None else plugins:
            if plugin.name not in skipped:
                status = call_filter(plugin, state, pod, node)
                if status is not None:
                    return status
        return None

    def run_filters_with_nominated_pods(
        self,
        state: CycleState,
        pod: Pod,
        node: NodeInfo,
        table: NodeTable,
        plugins: Sequence[Any] | None = None,
    ) -> Status | None:
        """Run filters twice: with the pods nominated to the node, then without.

        The pod must fit in both cases, since nominated pods may end up on another node
        (RunFilterPluginsWithNominatedPods). Neither `state` nor `node` changes.
        """
        nominees = nominated_pods(self.handle.nominator, node.name, pod.priority, pod.metadata.uid)
        if nominees:
            copy = node.copy() if isinstance(node, NodeOverlay) else NodeOverlay(table, node.row)
            status = self.run_filters_beside(state, pod, nominees, copy, plugins)
            if status is not None:
                return status
        return self.run_filters(state, pod, node, plugins)

    def run_filters_beside(
        self,
        state: CycleState,
        pod: Pod,
        nominees: Iterable[Pod],
        node: NodeOverlay,
        plugins: Sequence[Any] | None = None,
    ) -> Status | None:
        """Run filters with `nominees` added to `node`. This changes `node`, but not `state`."""
        clone = state.clone()
        for other in nominees:
            node.add_pod(other)
            self.add_pod(clone, pod, other, node)
        return self.run_filters(clone, pod, node, plugins)

    # -- PostFilter ------------------------------------------------------------------------------

    async def run_post_filter(
        self,
        state: CycleState,
        pod: Pod,
        statuses: NodeToStatus,
        *,
        stopwatch: Stopwatch | None = None,
        transport: ExtenderTransport | None = None,
    ) -> PostFilterResult:
        """Run the PostFilter plugins and merge their results (RunPostFilterPlugins).

        Suspends for awaitable results, which need a `transport`. An exception of a plugin becomes
        an Error status. Raises CycleBudgetError.
        """
        if state.skip_post_filter:
            return PostFilterResult(
                Status(Code.UNSCHEDULABLE, ("All PostFilter plugins are skipped",))
            )
        stopwatch = stopwatch or no_stopwatch()
        reasons: list[str] = []
        first_rejector = ""
        nominating: NominatingInfo | None = None
        outcome: PostFilterOutcome | None = None
        for plugin in self.post_filter:
            stopwatch.cycle.check()
            result = await _post_filter(plugin, state, pod, statuses, transport)
            status = result.status
            if status is None or status.success:
                return result
            if status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                return PostFilterResult(status.by(plugin.name), result.nominating, result.outcome)
            if not status.rejected:
                return PostFilterResult(
                    Status(Code.ERROR, status.reasons, plugin.name, status.error),
                    outcome=result.outcome,
                )
            reasons += status.reasons
            first_rejector = first_rejector or plugin.name
            nominating = result.nominating or nominating
            outcome = result.outcome or outcome
        return PostFilterResult(
            Status(Code.UNSCHEDULABLE, tuple(reasons), first_rejector), nominating, outcome
        )

    # -- PreScore, Reserve, Permit ---------------------------------------------------------------

    def run_pre_score(
        self,
        state: CycleState,
        pod: Pod,
        table: NodeTable,
        feasible: Rows,
        *,
        recorded: RecordedPlugins | None = None,
        stopwatch: Stopwatch | None = None,
    ) -> None:
        """Run the PreScore plugins (RunPreScorePlugins); sets `state.skip_score`.

        `recorded` and `stopwatch` are as in `run_pre_filter`. Raises AttemptError.
        """
        worked = False
        plugins = self.pre_score
        if recorded is not None:
            plugins = recorded.replay(plugins, state.skip_score, state)
        for plugin in plugins:
            if worked and stopwatch is not None:
                stopwatch.cycle.check()
            kept = recorded if getattr(plugin, "pre_score_reusable", False) else None
            status = _call_recorded(PRE_SCORE, plugin, state, kept, pod, table, feasible)
            worked = status is not SKIP
            if not worked or (status is not None and status.skip):
                state.skip_score.add(plugin.name)
            elif status is not None and not status.success:
                raise PRE_SCORE.failed(plugin.name, status.message)
        if recorded is not None:
            recorded.sum_up(plugins)

    def run_reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Run Reserve plugins (RunReservePluginsReserve) up to a rejection. Raises AttemptError."""
        for plugin in self.attendance.reserve[state.absent]:
            status: Status | None = call(RESERVE, plugin, state, pod, node_name)
            if status is not None and not status.success:
                return _rejection(RESERVE, plugin, status)
        return None

    def run_unreserve(
        self,
        state: CycleState,
        pod: Pod,
        node_name: str,
        on_error: Callable[[str, str, Pod, Exception], None] | None = None,
    ) -> None:
        """Run Unreserve of all Reserve plugins, in reverse order (RunReservePluginsUnreserve).

        Exceptions are passed to `on_error(plugin, point, pod, exception)`; the others still run.
        """
        for plugin in reversed(self.attendance.reserve[state.absent]):
            unreserve: Callable[..., None] | None = getattr(plugin, "unreserve", None)
            if unreserve is None:
                continue
            try:
                unreserve(state, pod, node_name)
            except Exception as error:  # noqa: BLE001 - plugin boundary
                if on_error is not None:
                    on_error(plugin.name, "Unreserve", pod, error)

    def run_permit(
        self, state: CycleState, pod: Pod, node_name: str
    ) -> tuple[Status | None, dict[str, float]]:
        """Run the Permit plugins (RunPermitPlugins), up to the first rejection.

        Returns the rejection or None, and by plugin the timeout in seconds for which the pod waits.
        Raises AttemptError.
        """
        timeouts: dict[str, float] = {}
        for plugin in self.permit:
            status, timeout = call(PERMIT, plugin, state, pod, node_name)
            if status is None or status.success:
                continue
            if status.code is not Code.WAIT:
                return _rejection(PERMIT, plugin, status), timeouts
            timeouts[plugin.name] = timeout
        return None, timeouts

    # -- what plugins add to texts ---------------------------------------------------------------

    def unschedulable_reason(self, pod: Pod) -> tuple[str, str] | None:
        """Return the reason and message of the first `UnschedulableReasonPlugin` that has one.

        None if no plugin has one. Raises AttemptError if a plugin fails.
        """
        for plugin in self._reasoning:
            found: tuple[str, str] | None = call(UNSCHEDULABLE_REASON, plugin, pod)
            if found is not None:
                return found
        return None

    def explain(self, pod: Pod) -> dict[str, tuple[str, ...]]:
        """Return the lines of `ExplainingPlugin.explain` about a pending pod, by plugin."""
        explanations: dict[str, tuple[str, ...]] = {}
        for plugin in self.plugins.values():
            explain = getattr(plugin, "explain", None)
            if not callable(explain):
                continue
            try:
                lines = tuple(explain(pod))
            except Exception as error:  # noqa: BLE001 - boundary: an explanation never fails
                lines = (f"cannot explain: {error!r}",)
            if lines:
                explanations[plugin.name] = lines
        return explanations


def _groups_pods(plugin: Any) -> bool:
    return callable(getattr(plugin, "group_to_schedule", None))


def _itself(plugin: Any) -> Any:
    return plugin


def _call_recorded(
    method: PluginMethod,
    plugin: Any,
    state: CycleState,
    recorded: dict[str, Recorded] | None,
    *arguments: Any,
) -> Any:
    """Like `call`, but once per signature: record the result and the plugin's writes to `state`.

    Later calls replay the record. With `recorded=None` the method is called every time.
    """
    if recorded is None:
        return call(method, plugin, state, *arguments)
    record = recorded.get(plugin.name)
    if record is not None:
        state.data.update(record.writes)
        return record.result
    written: list[str] = []
    state.recorder = written
    try:
        result = call(method, plugin, state, *arguments)
    finally:
        state.recorder = None
    writes = tuple((key, state.data[key]) for key in written)
    recorded[plugin.name] = Recorded(result, writes)
    return result


async def _post_filter(
    plugin: Any,
    state: CycleState,
    pod: Pod,
    statuses: NodeToStatus,
    transport: ExtenderTransport | None,
) -> PostFilterResult:
    """Call one PostFilter plugin; if it fails, return a result with an Error status."""
    try:
        result: Any = plugin.post_filter(state, pod, statuses)
        if transport is not None and inspect.isawaitable(result):
            result = await transport.wait_for(result, timeout_of(plugin))
    except CycleBudgetError:
        raise
    except DeadlineExceededError:
        text = f'PostFilter plugin "{plugin.name}" {late(timeout_of(plugin))}'
        return PostFilterResult(error(text).by(plugin.name))
    except Exception as raised:  # noqa: BLE001 - plugin boundary
        return PostFilterResult(error(raised).by(plugin.name))
    if isinstance(result, PostFilterResult):
        return result
    text = (
        f'PostFilter plugin "{plugin.name}" answered {reprlib.repr(result)}, not a PostFilterResult'
    )
    return PostFilterResult(error(text).by(plugin.name))


def _rejection(method: PluginMethod, plugin: Any, status: Status) -> Status:
    """Attribute a rejection to its plugin. Raises AttemptError if `status` is not a rejection."""
    if not status.rejected:
        raise method.failed(plugin.name, status.message)
    return status.by(plugin.name)
