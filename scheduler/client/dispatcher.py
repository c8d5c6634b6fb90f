"""The scheduler's writes in order of urgency: binds, then status patches, then events.

Each kind has its own slots, so that a flood of one cannot starve another; while binds are waiting
or many are in flight, the others get fewer. A status patch that was not sent yet is replaced by a
newer one for the same pod, and two patches of one pod are never in flight together. A bind drops
the unsent patches of its pod and waits for the one in flight: after the bind they would mark a
bound pod as unscheduled. Nothing is sent while the leader fence is shut.

Only requests hold slots: settling a bind, or waiting for a volume, does not. The reads that settle
have slots of their own.

One event loop owns it. `run` owns the tasks that send status patches; binds and events run in their
callers' tasks.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import IntEnum
from http import HTTPStatus
from random import Random
from typing import Final, TypeVar

import structlog

from scheduler.api.pod import Pod
from scheduler.api.signal import Signal
from scheduler.client.backoff import MAX_ATTEMPTS, of_writes
from scheduler.client.binding import BindOutcome, BindResult, attempt_bind, settle_bind
from scheduler.client.errors import ApiError, NotLeader, RequestError, describe
from scheduler.client.fence import Fence, OpenFence
from scheduler.client.request_sender import PreSendCheck
from scheduler.client.rest import ApiClient
from scheduler.client.status_patch import (
    PodStatusPatch,
    concerns_another_pod,
    send_status_patch,
    version_of,
)

_log = structlog.get_logger(__name__)

R = TypeVar("R")

"""`listener(uid, version)`: the UID and the resourceVersion of a pod whose nomination was patched;
an empty version after a failure, which may have been applied all the same."""


class Lane(IntEnum):
    """A kind of write, most urgent first."""

    BIND = 0
    """Binds and the requests of PreBind plugins."""
    STATUS = 1
    EVENT = 2


@dataclass(frozen=True, slots=True)
class DispatcherOptions:
    """Limits of requests in flight."""

    binds: int = 100
    """Enough to hide the latency of a slow API server; more only adds load."""
    statuses: int = 16
    statuses_when_busy: int = 4
    events: int = 32
    """When nothing else is sent. Fewer would leave the API server idle after a burst of binds."""
    events_when_busy: int = 2
    settling_reads: int = 64
    """A quarter of the connections: reads that hang must leave some for binds and watches."""


@dataclass(frozen=True, slots=True)
class LaneStatistics:
    """The state of a lane, and its counters since the start."""

    waiting: int
    in_flight: int
    sent: int
    failed: int
    fenced: int


@dataclass(frozen=True, slots=True)
class DispatcherStatistics:
    """All lanes; `replaced` counts status patches that a newer one or a bind made unnecessary."""

    bind: LaneStatistics
    status: LaneStatistics
    event: LaneStatistics
    replaced: int
    settled: int
    settling: int


RIVAL: Final = (
    "another process has bound a pod that names this scheduler: does a second one serve the name? "
    "kubectl get leases -A lists who leads; one with --leader-elect=false holds none"
)


class DispatcherClosedError(Exception):
    """The dispatcher is closed; nothing was sent."""


@dataclass(slots=True)
class _LaneState:
    lane: Lane
    in_flight: int = 0
    sent: int = 0
    failed: int = 0
    fenced: int = 0
    #: Bounded by its callers: one entry per binding task or event worker.
    waiters: deque[asyncio.Future[None]] = field(default_factory=deque)

    def statistics(self, more_waiting: int = 0) -> LaneStatistics:
        waiting = len(self.waiters) + more_waiting
        return LaneStatistics(waiting, self.in_flight, self.sent, self.failed, self.fenced)


BindRequest = Callable[[], Awaitable[BindResult | RequestError]]
"""Sends a bind; returns an error when the outcome is unknown."""


class Dispatcher:
    """Sends all writes of a scheduler. Run `run()` in a task, and `close()` it at the end."""

    def __init__(
        self,
        client: ApiClient,
        *,
        fence: Fence | None = None,
        options: DispatcherOptions | None = None,
        random: Random | None = None,
    ) -> None:
        self._client = client
        self._fence = fence or OpenFence()
        self._options = options or DispatcherOptions()
        self._random = random or Random()
        self._lanes = tuple(map(_LaneState, Lane))
        # By UID, in order of arrival; bounded by the pods that exist, one patch each.
        self._pending: dict[str, PodStatusPatch] = {}
        # Patches that wait for the patch of the same pod in flight.
        self._blocked: dict[str, PodStatusPatch] = {}
        self._in_flight: dict[str, PodStatusPatch] = {}
        #: Called with the UID of the pod and its version after each patch with a nomination.
        self.on_nomination_written = Signal[[str, str]]()
        # Set at the end of a pod's patch, by UID; its bind waits for it.
        self._patched: dict[str, asyncio.Event] = {}
        self._wake = asyncio.Event()
        # Set once nothing is under way any more; looked for after `close` has begun only.
        self._idle = asyncio.Event()
        self._closed = False
        self._stopping = False
        self._replaced = self._settled = self._settling = 0
        #: Whether it was said that another process binds our pods.
        self._rival_known = False
        self._reads = asyncio.Semaphore(self._options.settling_reads)

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def statistics(self) -> DispatcherStatistics:
        """Return the slots in use and the counters since the start."""
        bind, status, event = self._lanes
        return DispatcherStatistics(
            bind=bind.statistics(),
            status=status.statistics(len(self._pending) + len(self._blocked)),
            event=event.statistics(),
            replaced=self._replaced,
            settled=self._settled,
            settling=self._settling,
        )

    # --------------------------------------------------------------------------------------- writes

    async def bind(
        self,
        pod: Pod,
        node_name: str,
        annotations: dict[str, str] | None = None,
        precondition: PreSendCheck | None = None,
        *,
        send: BindRequest | None = None,
    ) -> BindResult:
        """Bind when a slot is free; return when the outcome is certain (see `binding`).

        `precondition` is called when the request is about to be sent; a reason prevents that.
        `send` replaces our own request, and is not retried; it returns an error when the outcome
        is unknown.

        Raises:
            DispatcherClosedError: closed before anything was sent.
        """
        if self._pending or self._blocked or self._in_flight or self._patched:
            await self._end_patches(pod.metadata.uid)
        if send is not None:
            return await self._bind_once(pod, node_name, send)

        async def own() -> BindResult | RequestError:
            return await attempt_bind(self._client, pod, node_name, annotations, precondition)

        backoff = of_writes(self._random)
        while True:
            result = await self._bind_once(pod, node_name, own)
            if not result.temporary or backoff.attempts + 1 >= MAX_ATTEMPTS:
                return result
            await self._client.clock.sleep(backoff.next())

    async def _bind_once(self, pod: Pod, node_name: str, send: BindRequest) -> BindResult:
        lane = self._lanes[Lane.BIND]
        await self._acquire(Lane.BIND)
        try:
            if not self._fence.allowed():
                lane.fenced += 1
                return BindResult(BindOutcome.UNBOUND, NotLeader("POST", f"{pod.key}/binding"))
            result = await send()
            lane.sent += 1
        finally:
            self._release(Lane.BIND)
        if isinstance(result, BindResult):
            if result.error is not None:
                lane.failed += 1
            return result
        return await self._settle(pod, node_name, result)

    async def _end_patches(self, uid: str) -> None:
        """Drop the pod's unsent status patches and wait for the one in flight."""
        for waiting in (self._pending, self._blocked):
            if waiting.pop(uid, None) is not None:
                self._replaced += 1
                self._note_idle()
        if uid in self._in_flight:
            await self._patched.setdefault(uid, asyncio.Event()).wait()
        else:
            self._note_patched(uid)

    def _note_patched(self, uid: str) -> None:
        if patched := self._patched.pop(uid, None):
            patched.set()

    async def _settle(self, pod: Pod, node_name: str, error: RequestError) -> BindResult:
        self._settling += 1
        try:
            result = await settle_bind(
                self._client, pod, node_name, error, self._random, self._reads
            )
        finally:
            self._settling -= 1
            self._note_idle()
        self._settled += 1
        self._lanes[Lane.BIND].failed += not result.bound
        _log.info(
            "bind settled",
            pod=pod.key,
            node=node_name,
            outcome=result.outcome.value,
            **describe(error),
        )
        if isinstance(error, ApiError) and error.status == HTTPStatus.CONFLICT:
            self._warn_of_a_rival(pod, result)
        return result

    def _warn_of_a_rival(self, pod: Pod, result: BindResult) -> None:
        """Say once that another process has bound one of our pods."""
        if self._rival_known or result.outcome not in {BindOutcome.BOUND, BindOutcome.ELSEWHERE}:
            return
        self._rival_known = True
        _log.warning(RIVAL, pod=pod.key, scheduler_name=pod.spec.scheduler_name)

    async def call(self, lane: Lane, send: Callable[[], Awaitable[R]]) -> R:
        """Run `send` in a slot of `lane`.

        Raises:
            NotLeader: the fence is shut; nothing was sent.
            DispatcherClosedError: closed before anything was sent.
        """
        state = self._lanes[lane]
        await self._acquire(lane)
        try:
            if not self._fence.allowed():
                state.fenced += 1
                raise NotLeader(lane.name, "dispatcher")
            state.sent += 1
            return await send()
        except RequestError:
            state.failed += 1
            raise
        finally:
            self._release(lane)

    def patch_status(self, patch: PodStatusPatch) -> None:
        """Queue a status patch; it replaces one for the same pod that was not sent yet.

        Failures are logged: the pod is retried and patched again anyway.
        """
        if self._closed:
            return
        queue = self._blocked if patch.uid in self._in_flight else self._pending
        older = queue.get(patch.uid)
        if older is not None:
            self._replaced += 1
            patch = patch.over(older)
        queue[patch.uid] = patch
        self._wake.set()

    async def status_written(self, uid: str) -> None:
        """Wait until no status patch of a pod is queued or in flight; it may have failed."""
        while uid in self._pending or uid in self._blocked or uid in self._in_flight:
            await self._patched.setdefault(uid, asyncio.Event()).wait()

    def nomination_under_way(self, uid: str) -> bool:
        """Whether a patch with a nomination of the pod is queued or in flight."""
        for patches in (self._pending, self._blocked, self._in_flight):
            patch = patches.get(uid)
            if patch is not None and patch.nominated_node_name is not None:
                return True
        return False

    # ---------------------------------------------------------------------------------------- slots

    def _limit(self, lane: Lane) -> int:
        options = self._options
        if lane is Lane.BIND:
            return options.binds
        binds = self._lanes[Lane.BIND]
        busy = bool(binds.waiters) or binds.in_flight * 2 >= options.binds
        if lane is Lane.STATUS:
            return options.statuses_when_busy if busy else options.statuses
        return options.events_when_busy if busy or self._pending else options.events

    async def _acquire(self, lane: Lane) -> None:
        if self._closed:
            raise DispatcherClosedError("the dispatcher is closed, the process is stopping")
        state = self._lanes[lane]
        if not state.waiters and state.in_flight < self._limit(lane):
            state.in_flight += 1
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        state.waiters.append(future)
        try:
            await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled() and future.exception() is None:
                # The slot was assigned in the same moment.
                self._release(lane)
            else:
                if future in state.waiters:
                    state.waiters.remove(future)
                self._note_idle()
            raise

    def _release(self, lane: Lane) -> None:
        self._lanes[lane].in_flight -= 1
        self._admit()
        self._note_idle()

    def _admit(self) -> None:
        """Assign free slots to waiters, most urgent lane first."""
        for state in self._lanes:
            while state.waiters and state.in_flight < self._limit(state.lane):
                future = state.waiters.popleft()
                if not future.done():
                    state.in_flight += 1
                    future.set_result(None)
        if self._pending:
            self._wake.set()

    def _note_idle(self) -> None:
        if not self._closed or self._pending or self._blocked or self._settling:
            return
        if not any(lane.in_flight or lane.waiters for lane in self._lanes):
            self._idle.set()

    # ------------------------------------------------------------------------------- status patches

    async def run(self) -> None:
        """Send status patches until `close` is done."""
        async with asyncio.TaskGroup() as group:
            while not self._stopping:
                await self._wake.wait()
                self._wake.clear()
                while (patch := self._next_patch()) is not None:
                    name = f"status patch {patch.namespace}/{patch.name}"
                    group.create_task(self._send_status(patch), name=name)

    def _next_patch(self) -> PodStatusPatch | None:
        """Take the next patch and a slot for it; None if there is none."""
        lane = self._lanes[Lane.STATUS]
        if not self._pending or lane.in_flight >= self._limit(Lane.STATUS):
            return None
        uid = next(iter(self._pending))
        patch = self._in_flight[uid] = self._pending.pop(uid)
        lane.in_flight += 1
        return patch

    async def _send_status(self, patch: PodStatusPatch) -> None:
        lane = self._lanes[Lane.STATUS]
        unwritten = False
        try:
            if not self._fence.allowed():
                lane.fenced += 1
                return
            lane.sent += 1
            version = await self._write_status(patch)
            if patch.nominated_node_name is not None:
                self.on_nomination_written(patch.uid, version)
        except RequestError as error:
            lane.failed += 1
            # A deleted pod needs no status.
            unwritten = not concerns_another_pod(error)
            if unwritten:
                if patch.nominated_node_name is not None:
                    self.on_nomination_written(patch.uid, "")
                pod = f"{patch.namespace}/{patch.name}"
                _log.warning("pod status was not written", pod=pod, **describe(error))
        finally:
            del self._in_flight[patch.uid]
            self._note_patched(patch.uid)
            blocked = self._blocked.pop(patch.uid, None)
            if blocked is not None:
                # The failed patch may set fields that the newer one does not.
                self._pending[patch.uid] = blocked.over(patch) if unwritten else blocked
            self._release(Lane.STATUS)

    async def _write_status(self, patch: PodStatusPatch) -> str:
        """Send a patch; return the resourceVersion of the pod after one with a nomination."""
        body = await send_status_patch(self._client, patch, self._random)
        return "" if patch.nominated_node_name is None else version_of(body)

    # ---------------------------------------------------------------------------------------- close

    async def close(self, deadline: float) -> int:
        """Refuse new writes, wait up to `deadline` seconds for the others, then abandon them.

        Returns:
            The number of abandoned writes. `run` always waits for status patches already in flight,
            within their own timeouts.
        """
        self._closed = True
        self._note_idle()
        try:
            async with asyncio.timeout(deadline):
                await self._idle.wait()
        except TimeoutError:
            pass
        abandoned = len(self._pending) + len(self._blocked) + self._settling
        dropped = {*self._pending, *self._blocked} - self._in_flight.keys()
        self._pending.clear()
        self._blocked.clear()
        for uid in dropped:
            self._note_patched(uid)
        for lane in self._lanes:
            abandoned += len(lane.waiters)
            while lane.waiters:
                future = lane.waiters.popleft()
                if not future.done():
                    msg = "the process stopped before this write was sent"
                    future.set_exception(DispatcherClosedError(msg))
        self._stopping = True
        self._wake.set()
        return abandoned
