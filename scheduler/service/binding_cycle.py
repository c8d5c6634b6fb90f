"""The binding cycle of one pod (`schedule_one.go: bindingCycle`): Permit, PreBind, Bind, PostBind.

One task per pod. Until the wait at Permit ends the pod is in flight for the queue; after that only
this task holds it. After any failure, reservations and the assumption are released exactly once,
and only when it is certain that the pod is not bound.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Sequence
from types import CoroutineType
from typing import Any, Final

import structlog

from scheduler.api.signal import Signal
from scheduler.client.binding import PodMovedOnError
from scheduler.engine import Attempt, Engine, Failure, WaitingPod
from scheduler.engine.errors import AttemptError, failed
from scheduler.engine.failure import from_status, rejected_on_node
from scheduler.engine.plugin_calls import (
    BIND,
    POST_BIND,
    PRE_BIND,
    PRE_BIND_PRE_FLIGHT,
    CallErrors,
)
from scheduler.extenders.binder import ExtenderBinder
from scheduler.framework import SKIP, Clock, Code, Events, PreBindPreFlightResult, Status
from scheduler.framework.events import ASSIGNED_POD_DELETE
from scheduler.framework.status import status_or_none
from scheduler.metrics import SchedulerMetrics
from scheduler.queue import SchedulingQueue
from scheduler.sanitizing.exceptions import error_repr
from scheduler.service.binding_barrier import BindingBarrier
from scheduler.service.binding_slots import BindingSlots
from scheduler.service.failure_handler import FailureHandler
from scheduler.service.inbox import Inbox
from scheduler.service.node_recheck import NodeRecheck
from scheduler.service.observer import Decisions, ObserverSlot
from scheduler.service.status_writer import StatusWriter
from scheduler.service.subscriptions import SubscriptionBoard

_log = structlog.get_logger(__name__)

CANCELLED: Final = "running PreBind plugin: it was cancelled by code that it called"
CANCELLED_ITSELF: Final = "binding cycle: a plugin cancelled the task in which it runs"

#: A failure that is not reported: the pod is retried, unless the watch shows that it was deleted or
#: bound, but no Event and condition are written.
SILENT_FAILURE: Final = Failure(
    reason="SchedulerError", message="", nominating=None, rejected=False
)


class BindingCycle:
    """Takes assumed pods to the API server."""

    def __init__(  # noqa: PLR0913 - what it is wired to
        self,
        engine: Engine,
        queue: SchedulingQueue,
        failures: FailureHandler,
        *,
        events: Events,
        statuses: StatusWriter,
        subscriptions: SubscriptionBoard,
        clock: Clock,
        metrics: SchedulerMetrics,
        slots: BindingSlots,
        inbox: Inbox,
        decisions: Decisions,
        recheck: NodeRecheck | None = None,
        extenders: ExtenderBinder | None = None,
        reports: ObserverSlot | None = None,
    ) -> None:
        """Wire the cycle.

        `recheck` filters changed nodes again before the bind; None binds without. Without
        `extenders` only plugins bind.
        """
        self._engine = engine
        self._queue = queue
        self._failures = failures
        self._events = events
        self._statuses = statuses
        self._subscriptions = subscriptions
        self._clock = clock
        self._metrics = metrics
        self._slots = slots
        self._inbox = inbox
        self._decisions = decisions
        self._recheck = recheck
        #: Replaced when the configuration is reloaded.
        self.extenders = extenders
        #: Attempts whose binding cycle has not ended, by UID; added before the task is created.
        self.under_way: dict[str, Attempt] = {}
        self._reports = ObserverSlot() if reports is None else reports
        #: Barriers of members of groups, by UID.
        self._barriers: dict[str, BindingBarrier] = {}
        #: Barriers that are not open yet, by the name of the group.
        self._closed: dict[str, BindingBarrier] = {}
        #: Barriers for which members beyond the minimum wait, by UID.
        self._followed: dict[str, BindingBarrier] = {}
        #: Called with each attempt whose binding cycle has ended.
        self.on_end = Signal[[Attempt]]()
        #: Whether all cycles are about to be cancelled.
        self.ending = False
        #: PreBind work under way, by UID; then the messages for pods whose work was preempted.
        self._pre_binding: dict[str, asyncio.Task[None]] = {}
        self._preempted: dict[str, str] = {}

    def preempt(self, uid: str, message: str) -> bool:
        """Stop PreBind of a pod in favour of another; return False if it is not in PreBind."""
        work = self._pre_binding.get(uid)
        if work is None or work.done():
            return False
        self._preempted[uid] = message
        work.cancel()
        return True

    def bind_together(
        self,
        group: str,
        attempts: Sequence[Attempt],
        on_failure: Callable[[Attempt, Failure, bool], None],
    ) -> None:
        """Bind these attempts only after PreBind of all has ended; call before they `run`.

        `on_failure` is called with a member, and why it is not bound; True: so no member is.
        """
        recheck = self._recheck

        def changed(attempt: Attempt) -> Failure | None:
            return None if recheck is None else recheck.check(self._engine, attempt)

        barrier = BindingBarrier(
            group,
            attempts,
            self._engine.cache.is_assumed,
            changed,
            lambda member, why, undone: self._inbox.submit(on_failure, member, why, undone),
        )
        self._barriers.update((attempt.info.uid, barrier) for attempt in attempts)
        self._closed[group] = barrier

    @property
    def binds_groups(self) -> bool:
        """Whether any group is being bound, so that `follow` may have an effect."""
        return bool(self._closed)

    def follow(self, group: str, attempt: Attempt) -> None:
        """Bind this attempt only after the group's members that are bound together, if any.

        Call it before the attempt runs. If it fails, the others are bound nevertheless.
        """
        barrier = self._closed.get(group)
        if barrier is not None and attempt.info.uid not in self._barriers:
            self._followed[attempt.info.uid] = barrier

    async def run(self, attempt: Attempt) -> None:
        """Run the whole cycle; raises only when cancelled."""
        try:
            try:
                if attempt.waiting is not None:
                    failure = await self._wait_at_permit(attempt, attempt.waiting)
                    if failure is not None:
                        self._leave_barrier(attempt, failure)
                        self._inbox.submit(self.failed, attempt, failure)
                        return
            except asyncio.CancelledError:
                self._engine.abandon(attempt)
                raise
            self._slots.take()
            self._metrics.binding_cycles(1)
            try:
                await self._after_permit(attempt)
            finally:
                self._metrics.binding_cycles(-1)
                self._slots.release()
        finally:
            if self._barriers:
                self._leave_barrier(attempt)
            if self._followed:
                self._followed.pop(attempt.info.uid, None)
            self.under_way.pop(attempt.info.uid, None)
            if self.on_end.listeners:
                self.on_end(attempt)

    def _leave_barrier(self, attempt: Attempt, failure: Failure | None = None) -> None:
        barrier = self._barriers.pop(attempt.info.uid, None)
        if barrier is not None:
            barrier.leave(attempt, failure)
            if barrier.is_open and self._closed.get(barrier.group) is barrier:
                del self._closed[barrier.group]

    async def _after_permit(self, attempt: Attempt) -> None:
        try:
            failure = await self._bind(attempt)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or self.ending:
                raise
            # A plugin cancelled the task in which it runs: that fails the attempt.
            while task.uncancel():
                pass
            failure = from_status(failed(CANCELLED_ITSELF).status)
        except AttemptError as error:
            self._engine.report_plugin(attempt.pod, error)
            failure = from_status(error.status)
        except Exception as error:  # noqa: BLE001 - task boundary: a fault must not lose the pod
            _log.exception("binding cycle failed", pod=attempt.pod.key)
            failure = from_status(failed(f"binding cycle: {error_repr(error)}", error).status)
        if failure is None:
            self._inbox.submit(self.succeeded, attempt)
        else:
            self._leave_barrier(attempt, failure)
            self._inbox.submit(self.failed, attempt, failure)

    async def _bind(self, attempt: Attempt) -> Failure | None:
        groups = self._pre_bind_groups(attempt)
        if groups and attempt.waiting is None:
            self._statuses.expected_on(attempt.info.pod, attempt.node_name)
        self._inbox.submit(self.done, attempt)
        if groups:
            await self._pre_bind_all(attempt, groups)
        if self._barriers or self._followed:
            undone = await self._pass_barrier(attempt)
            if undone is not None:
                return undone
        changed = None if self._recheck is None else self._recheck.begin(self._engine, attempt)
        if changed is not None:
            return changed
        try:
            status = await self._run_bind(attempt)
        finally:
            changed = None if self._recheck is None else self._recheck.end(attempt)
        if status is None or status.success:
            if attempt.framework.post_bind:
                await self._post_bind(attempt)
            return None
        if changed is not None:
            return changed
        if status.skip or isinstance(status.error, PodMovedOnError):
            return SILENT_FAILURE
        return from_status(status)

    async def _pass_barrier(self, attempt: Attempt) -> Failure | None:
        """Wait for the other members of a group; return why this member must not be bound."""
        uid = attempt.info.uid
        barrier = self._barriers.get(uid)
        followed = self._followed.get(uid)
        try:
            if barrier is not None:
                attempt.awaited_group = barrier.group
                return await barrier.arrive(attempt)
            if followed is not None:
                attempt.awaited_group = followed.group
                return await followed.opened(attempt)
            return None
        finally:
            attempt.awaited_group = ""

    # -- PreBind ---------------------------------------------------------------------------------

    def _pre_bind_groups(self, attempt: Attempt) -> list[list[Any]]:
        """Return the PreBind plugins with work, in groups that may run concurrently."""
        groups: list[list[Any]] = []
        joinable = False
        for plugin in attempt.framework.pre_bind:
            result = self._run_pre_flight(attempt, plugin)
            if result is SKIP or (isinstance(result, Status) and result.skip):
                continue
            parallel = isinstance(result, PreBindPreFlightResult) and result.allow_parallel
            if parallel and joinable:
                groups[-1].append(plugin)
            else:
                groups.append([plugin])
            joinable = parallel
        return groups

    def _run_pre_flight(
        self, attempt: Attempt, plugin: Any
    ) -> PreBindPreFlightResult | Status | None:
        pre_flight = getattr(plugin, "pre_bind_pre_flight", None)
        if pre_flight is None:
            return None
        with CallErrors(PRE_BIND_PRE_FLIGHT, plugin):
            result: PreBindPreFlightResult | Status | None = pre_flight(
                attempt.state, attempt.pod, attempt.node_name
            )
        if result is SKIP:
            return result
        if isinstance(result, Status) and not (result.success or result.skip):
            if result.code is Code.ERROR:
                raise failed(f'running PreBindPreFlight "{plugin.name}": {result.message}')
            raise failed(
                f'PreBindPreFlight {plugin.name} returned "{result.code.label}", which is '
                "unsupported. It is supposed to return Success, Skip, or Error status"
            )
        return result

    async def _pre_bind_all(self, attempt: Attempt, groups: Sequence[Sequence[Any]]) -> None:
        """Run PreBind in a separate task, so that a preemptor can cancel it alone."""
        uid = attempt.info.uid

        async def work() -> None:
            for group in groups:
                await self._pre_bind(attempt, group)

        task = asyncio.create_task(work(), name=f"prebind {attempt.info.key}")
        self._pre_binding[uid] = task
        try:
            await task
        except asyncio.CancelledError:
            message = self._preempted.get(uid)
            current = asyncio.current_task()
            if message is None and current is not None and not current.cancelling():
                message = CANCELLED
            if message is None:
                task.cancel()
                raise
            raise failed(message) from None
        finally:
            self._pre_binding.pop(uid, None)
            self._preempted.pop(uid, None)

    async def _pre_bind(self, attempt: Attempt, group: Sequence[Any]) -> None:
        if len(group) == 1:
            await self._run_pre_bind(attempt, group[0])
            return
        try:
            async with asyncio.TaskGroup() as tasks:
                calls = [tasks.create_task(self._run_pre_bind(attempt, each)) for each in group]
        except ExceptionGroup as problems:
            raise problems.exceptions[0] from problems
        if any(each.cancelled() for each in calls):
            # For a group of tasks that is no failure.
            raise failed(CANCELLED)

    async def _run_pre_bind(self, attempt: Attempt, plugin: Any) -> None:
        started = self._clock.monotonic()
        attempt.pre_binding += (plugin.name,)
        try:
            with CallErrors(PRE_BIND, plugin):
                result = plugin.pre_bind(attempt.state, attempt.pod, attempt.node_name)
                status = status_or_none(await _maybe_await(result))
        finally:
            attempt.pre_binding = tuple(each for each in attempt.pre_binding if each != plugin.name)
        self._observe("PreBind", status, attempt, started)
        if status is None or status.success:
            return
        if status.rejected:
            raise AttemptError(status.by(plugin.name))
        raise PRE_BIND.failed(plugin.name, status.message)

    # -- Permit, Bind, PostBind ------------------------------------------------------------------

    async def _wait_at_permit(self, attempt: Attempt, waiting: WaitingPod) -> Failure | None:
        self._statuses.expected_on(attempt.info.pod, attempt.node_name)
        started = self._clock.monotonic()
        try:
            status = await _end_of(waiting, self._clock)
        finally:
            self._inbox.submit(self.permitted, attempt)
        waited = self._clock.monotonic() - started
        self._metrics.permit_wait(status.code.label, waited)
        _add_seconds(attempt, "Permit", waited)
        if waiting.raised is not None:
            self._engine.report_plugin(attempt.pod, waiting.raised)
        if status.success:
            return None
        if status.rejected:
            return rejected_on_node(status, attempt.node_name)
        return from_status(failed(f"waiting on permit for pod: {status.message}").status)

    async def _run_bind(self, attempt: Attempt) -> Status | None:
        started = self._clock.monotonic()
        status: Status | None = SKIP
        if self.extenders is not None:
            status = await self.extenders.bind(attempt.pod, attempt.node_name)
        if status is SKIP or (status is not None and status.skip):
            status = await self._run_bind_plugins(attempt)
        self._observe("Bind", status, attempt, started)
        return status

    async def _run_bind_plugins(self, attempt: Attempt) -> Status | None:
        """Return the status of the first plugin that does not skip."""
        for plugin in attempt.framework.bind:
            # As `CallErrors`, of which the calls are saved here.
            try:
                status = status_or_none(
                    await _maybe_await(plugin.bind(attempt.state, attempt.pod, attempt.node_name))
                )
            except AttemptError:
                raise
            except Exception as error:
                raise BIND.failed(plugin.name, error, error) from error
            if status is None or status.success or status.rejected:
                return status
            if isinstance(status.error, PodMovedOnError):
                return status
            if not status.skip:
                return BIND.failed(plugin.name, status.message).status
        return SKIP

    async def _post_bind(self, attempt: Attempt) -> None:
        for plugin in attempt.framework.post_bind:
            try:
                await _maybe_await(plugin.post_bind(attempt.state, attempt.pod, attempt.node_name))
            except Exception as error:  # noqa: BLE001 - boundary: nothing can undo the binding
                raised = POST_BIND.failed(plugin.name, error, error)
                self._engine.report_plugin(attempt.pod, raised)

    # -- outcome ---------------------------------------------------------------------------------

    def permitted(self, attempt: Attempt) -> None:
        """Handle the end of the wait at Permit."""
        if self._reports.observer is not None:
            self._reports.observer.binding(attempt, "permitted")
        self._engine.waiting_pods.remove(attempt.info.uid)

    def done(self, attempt: Attempt) -> None:
        """End the part of the attempt for which events matter."""
        if self._reports.observer is not None:
            self._reports.observer.binding(attempt, "done")
        self._queue.done(attempt.info.uid)

    def succeeded(self, attempt: Attempt) -> None:
        """Report the binding."""
        if self._reports.observer is not None:
            self._reports.observer.binding(attempt, "bound")
        info, pod, node_name = attempt.info, attempt.pod, attempt.node_name
        now, seconds = self._clock.now(), self._clock.monotonic() - attempt.started
        self._metrics.attempt("scheduled", attempt.framework.profile_name, seconds)
        self._metrics.bound(
            info.attempts,
            now - (info.initial_attempt_timestamp or now),
            after_flush=info.was_flushed_from_unschedulable,
        )
        self._events.record(
            pod,
            "Normal",
            "Scheduled",
            "Binding",
            f"Successfully assigned {info.key} to {node_name}",
        )
        score = self._decisions.bound(attempt, now)
        self._failures.log.placed(attempt, score, seconds)
        self._subscriptions.publish_bind(pod, node_name)
        if attempt.state.pods_to_activate:
            self._failures.activate_pods_of(attempt)

    def failed(self, attempt: Attempt, failure: Failure) -> None:
        """Undo assumption and reservations, and requeue the pod."""
        if self._reports.observer is not None:
            self._reports.observer.binding(attempt, "failed", failure)
        pod = attempt.pod
        forgotten = self._engine.abandon(attempt)
        self._decisions.failed(attempt, failure)
        if forgotten and not failure.rejected:
            self._queue.move_all_to_active_or_backoff(ASSIGNED_POD_DELETE, pod, None)
        self._failures.handle(attempt, failure)
        if forgotten and failure.rejected:
            uid = pod.metadata.uid
            self._queue.move_all_to_active_or_backoff(
                ASSIGNED_POD_DELETE, pod, None, lambda other: other.metadata.uid != uid
            )

    def _observe(self, point: str, status: Status | None, attempt: Attempt, started: float) -> None:
        label = "Success" if status is None else status.code.label
        spent = self._clock.monotonic() - started
        self._metrics.engine.extension_point(point, label, attempt.framework.profile_name, spent)
        _add_seconds(attempt, point, spent)


def _add_seconds(attempt: Attempt, point: str, spent: float) -> None:
    """Add the time of one plugin to that of its extension point."""
    seconds = attempt.binding_seconds
    if seconds is None:
        seconds = attempt.binding_seconds = {}
    seconds[point] = seconds.get(point, 0.0) + spent


async def _maybe_await(result: Any) -> Any:
    # The check for coroutines, which most results are, saves three calls.
    if result is None or not (type(result) is CoroutineType or inspect.isawaitable(result)):
        return result
    try:
        return await result
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        # A task for which the plugin waited was cancelled, not this binding cycle.
        raise RuntimeError("it was cancelled") from None


async def _end_of(waiting: WaitingPod, clock: Clock) -> Status:
    """Wait for the first of: allowed, rejected, preempted, the earliest timeout of a plugin."""
    ended = asyncio.Event()
    waiting.on_result.subscribe(lambda _: ended.set())
    while waiting.result is None:
        try:
            async with asyncio.timeout(max(0.0, waiting.deadline() - clock.monotonic())):
                await ended.wait()
        except TimeoutError:
            waiting.expire(clock.monotonic())
    return waiting.result
