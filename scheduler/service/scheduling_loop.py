"""The scheduling loop: pops pods, attempts them back to back in slices, starts binding cycles.

Between slices the event loop runs everything else: watches, binds, timers. No pods are scheduled
while a relist is being applied, because the state is then a mixture of old and new objects.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from typing import Any, Final

import structlog

from scheduler.api.pod import Pod
from scheduler.engine import Attempt, Engine
from scheduler.framework import Clock, Events, QueuedPodInfo, TimedWork
from scheduler.framework.grouping import GroupToSchedule
from scheduler.queue import SchedulingQueue
from scheduler.service.binding_cycle import BindingCycle
from scheduler.service.binding_slots import BindingSlots
from scheduler.service.continued import continued
from scheduler.service.failure_handler import (
    ACTION_SCHEDULING,
    EVENT_FAILED_SCHEDULING,
    FailureHandler,
)
from scheduler.service.groups import Groups, MakeGroups, Pause
from scheduler.service.inbox import Inbox
from scheduler.service.observer import LEADER, RELIST, Decisions, ObserverSlot

_log = structlog.get_logger(__name__)

MAX_SLEEP: Final = 60.0
"""Seconds. See `SchedulingLoop.max_sleep`."""


class SchedulingLoop:
    """Owns queue, engine and cache while it runs; only it begins scheduling cycles."""

    def __init__(  # noqa: PLR0913 - what it is wired to
        self,
        engine: Engine,
        queue: SchedulingQueue,
        binding: BindingCycle,
        failures: FailureHandler,
        *,
        events: Events,
        clock: Clock,
        slice_seconds: float,
        slots: BindingSlots,
        wake: asyncio.Event,
        inbox: Inbox,
        decisions: Decisions,
        timed: Sequence[TimedWork],
        groups: MakeGroups,
        reports: ObserverSlot | None = None,
    ) -> None:
        """Subscribe to the queue; `wake` is set when there may be work.

        `timed` may grow.
        """
        self._engine = engine
        self._queue = queue
        self._binding = binding
        self._failures = failures
        self._events = events
        self._clock = clock
        self._slice = slice_seconds
        self._slots = slots
        self._wake = wake
        self._inbox = inbox
        self._decisions = decisions
        self._timed = timed
        #: Maximum seconds of a sleep, after which the loop reads the wall clock again, since that
        #: may jump meanwhile. Infinite if the wall clock cannot jump.
        self.max_sleep = MAX_SLEEP
        self._pauses = 0
        self._steady = asyncio.Event()
        self._steady.set()
        self._stopping = False
        self._reports = ObserverSlot() if reports is None else reports
        self._groups = groups(self._attempt, self._outcome)
        #: The task of a suspended cycle.
        self._suspended: asyncio.Task[Any] | None = None
        #: Set while no cycle is suspended.
        self._resumed = asyncio.Event()
        self._resumed.set()
        #: Whether a snapshot is being taken, and set while none is.
        self._held = False
        self._released = asyncio.Event()
        self._released.set()
        queue.signals.on_ready.subscribe(wake.set)
        queue.signals.on_timer.subscribe(wake.set)

    def pause(self, begins: bool) -> None:
        """Pause while a relist is being applied."""
        if begins and self._reports.observer is not None:
            self._reports.observer.end(RELIST)
        self._pauses += 1 if begins else -1
        if self._pauses:
            self._steady.clear()
        else:
            self._steady.set()
            self._wake.set()

    def stop(self) -> None:
        """Pop no more pods, and cancel a suspended cycle; binding cycles under way continue."""
        if self._reports.observer is not None:
            self._reports.observer.end(LEADER)
        if self._suspended is not None and not self._stopping:
            self._suspended.cancel()
        self._stopping = True

    @property
    def groups(self) -> Groups:
        """The part that tries groups."""
        return self._groups

    async def between_cycles(self) -> None:
        """Wait until no cycle is suspended; no cycle begins until the caller's next await."""
        while self._inbox.suspended:
            await self._resumed.wait()

    async def at_rest(self) -> None:
        """Wait until no cycle is suspended and no relist is being applied.

        No cycle and no relist begins until the caller's next await.
        """
        while self._inbox.suspended or self._pauses:
            await self._resumed.wait()
            await self._steady.wait()

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Freeze cache, queue, nominations and plugins, for a snapshot.

        Binding cycles and watches continue; their changes are deferred. Other snapshots wait.
        """
        while self._held:
            await self._released.wait()
        self._held = True
        self._released.clear()
        try:
            await self.at_rest()
            self._inbox.suspend()
            self._resumed.clear()
            try:
                yield
            finally:
                await self._resume()
        finally:
            self._held = False
            self._released.set()
            self._wake.set()

    async def drained(self) -> None:
        """Wait until no binding cycle is past Permit; waits at Permit may take too long."""
        # Binding cycles created in this iteration of the event loop start in the next one.
        await asyncio.sleep(0)
        while self._slots.taken or self._inbox.suspended:
            await self._resumed.wait()
            await self._slots.idle.wait()

    async def run(self) -> None:
        """Schedule until cancelled; binding cycles under way are then cancelled as well."""
        async with asyncio.TaskGroup() as cycles:
            try:
                await self._run(cycles)
            finally:
                self._binding.ending = True

    async def _run(self, cycles: asyncio.TaskGroup) -> None:
        while True:
            if self._held:
                await self._released.wait()
            if self._reports.observer is not None:
                self._reports.observer.due()
            self._queue.run_due()
            self.run_timed()
            if self._stopping or self._pauses or not await self._schedule_slice(cycles):
                await self._sleep()
            else:
                await asyncio.sleep(0)

    def run_timed(self) -> None:
        """Do all timed work that is due, of waiting groups and of plugins."""
        for work in (*self._groups.timed, *self._timed):
            due = work.next_due()
            if due is not None and due <= self._clock.monotonic():
                try:
                    work.run_due()
                except Exception:  # noqa: BLE001 - plugin boundary: the loop must go on
                    _log.exception("a plugin's timed work failed", work=repr(work))

    async def _schedule_slice(self, cycles: asyncio.TaskGroup) -> bool:
        """Schedule for one slice; return False if no pods were left.

        No other task runs meanwhile, unless a cycle is suspended, which ends the slice.
        """
        end = self._clock.monotonic() + self._slice
        while not (self._slots.full or self._stopping):
            info = self._queue.pop()
            if info is None:
                return False
            attempts, suspended = await self._deferring(info, self.schedule_popped(info))
            if suspended:
                end = 0.0
            for attempt in attempts:
                self._binding.under_way[attempt.info.uid] = attempt
                cycles.create_task(self._binding.run(attempt), name=f"bind {attempt.info.key}")
            if self._clock.monotonic() >= end:
                return True
        return False

    async def _deferring(
        self, info: QueuedPodInfo, cycle: Coroutine[Any, Any, Sequence[Attempt]]
    ) -> tuple[Sequence[Attempt], bool]:
        """Await the cycle of a popped pod; while it is suspended, defer all changes of state.

        Nothing is deferred before, since no other task runs until a cycle is suspended. Returns
        also whether it was.
        """
        try:
            awaited = cycle.send(None)
        except StopIteration as end:
            return end.value, False
        self._inbox.suspend()
        self._resumed.clear()
        self._suspended = task = asyncio.current_task()
        assert task is not None
        try:
            return await continued(cycle, awaited), True
        except asyncio.CancelledError:
            # The task itself must go on after `stop`, which cancels the cycle only.
            if not self._stopping or task.uncancel():
                raise
            self._queue.done(info.uid)
            return (), True
        finally:
            # A single pod's attempt has resumed by itself; others may hold the inbox by now.
            if self._suspended is not None:
                await self._resume()

    async def schedule_popped(self, info: QueuedPodInfo) -> Sequence[Attempt]:
        """Attempt a popped pod, with its group if it has one.

        Returns the attempts whose binding cycles are next.
        """
        group = self._groups.group_of(info) if self._engine.grouping else None
        if group is not None:
            return () if self._skip(info, info.pod) else await self._schedule_group(info, group)
        attempt = await self.schedule(info)
        if attempt is None:
            return ()
        if self._binding.binds_groups:
            self._groups.follow(attempt)
        return (attempt,)

    async def _schedule_group(
        self, info: QueuedPodInfo, group: GroupToSchedule
    ) -> Sequence[Attempt]:
        """Try a group; changes that were deferred are applied after its result is handled.

        Whether such changes affect the members is checked at the barrier before the first bind.
        """
        result = await self._groups.decide(info, group, self._pauses_of_a_cycle())
        if self._inbox.suspended:
            await self._steady.wait()
        return await self._groups.settle(info, group, result, self._slices(nullcontext))

    def _pauses_of_a_cycle(self) -> Pause:
        """Return a function for a long cycle to await often."""
        return self._slices(
            lambda: (
                nullcontext()
                if self._reports.observer is None
                else self._reports.observer.cycle_paused()
            )
        )

    def _slices(self, around: Callable[[], AbstractContextManager[Any]]) -> Pause:
        """Return a function for long work to await often; it suspends the work once per slice.

        The function returns whether it did; a suspension takes place in the context of `around`.
        """
        monotonic, seconds = self._clock.monotonic, self._slice
        end = monotonic() + seconds

        async def pause() -> bool:
            nonlocal end
            if monotonic() < end:
                return False
            with around():
                await asyncio.sleep(0)
            end = monotonic() + seconds
            return True

        return pause

    async def schedule(self, info: QueuedPodInfo) -> Attempt | None:
        """Attempt a popped pod; return the attempt if its binding cycle is next."""
        attempt = await self._attempt(info)
        return None if attempt is None else self._outcome(attempt)

    async def _attempt(self, info: QueuedPodInfo) -> Attempt | None:
        """Attempt a popped pod; None if it needs no scheduling. `_outcome` is next.

        If the cycle was suspended, deferred changes are applied before the pod is assumed. Where
        the cycle of a group is suspended already, they are applied after the whole group.
        """
        if self._skip(info, info.pod):
            return None
        if self._reports.observer is not None:
            self._reports.observer.attempt_begins(info)
        in_group = self._inbox.suspended
        attempt = await self._engine.decide(info)
        suspended = self._inbox.suspended and not in_group
        if suspended:
            # Before the nodes change, which its scores are about.
            self._decisions.record(attempt)
            if not await self._still_wanted(info):
                return None
            if self._reports.observer is not None:
                self._reports.observer.attempt_begins(info)
        chosen = attempt.result
        self._engine.commit(attempt)
        if self._reports.observer is not None:
            self._reports.observer.attempt_ended(attempt)
        if not suspended:
            self._decisions.record(attempt)
        elif chosen is not None and attempt.failure is not None:
            self._decisions.failed(attempt, attempt.failure)
        return attempt

    async def _still_wanted(self, info: QueuedPodInfo) -> bool:
        """Apply deferred changes after a suspended cycle; return whether its outcome counts."""
        # As cycles do not begin while a relist is being applied, they do not continue either.
        await self._steady.wait()
        await self._resume()
        newest = self._failures.still_wanted(info)
        if newest is None or self._stopping:
            # Deleted, replaced or bound by another scheduler while the cycle was suspended.
            self._queue.done(info.uid)
        elif not self._skip(info, newest):
            return True
        self._decisions.dropped(info)
        return False

    async def _resume(self) -> None:
        """Apply deferred changes, and defer none any more."""
        # From here on `stop` has no cycle to cancel.
        self._suspended = None
        try:
            await self._catch_up()
        finally:
            self._inbox.resume()
            self._resumed.set()

    async def _catch_up(self) -> None:
        """Apply the deferred changes in slices, since there may be thousands."""
        left = True
        while left:
            left = self._inbox.apply(self._clock.monotonic, self._slice)
            await asyncio.sleep(0)

    def _skip(self, info: QueuedPodInfo, pod: Pod) -> bool:
        """Whether the pod needs no scheduling; if so, remove it from the queue."""
        if pod.metadata.deletion_timestamp is not None:
            note = f"skip schedule deleting pod: {pod.key}"
            self._events.record(pod, "Warning", EVENT_FAILED_SCHEDULING, ACTION_SCHEDULING, note)
        elif not self._engine.cache.is_assumed(info.uid) and (
            pod.spec.scheduler_name in self._engine.frameworks
        ):
            return False
        self._queue.done(info.uid)
        return True

    def _outcome(self, attempt: Attempt) -> Attempt | None:
        if attempt.cost:
            self._charge(attempt)
        if attempt.fault is not None:
            _log.error("scheduling cycle failed", pod=attempt.pod.key, exc_info=attempt.fault)
        if attempt.failure is not None:
            self._failures.handle(attempt, attempt.failure)
            if attempt.failure.victims and self._engine.grouping:
                victims = map(self._failures.pod, attempt.failure.victims)
                self._groups.pods_evicted(attempt.info, [each for each in victims if each])
            return None
        if attempt.state.pods_to_activate:
            self._failures.activate_pods_of(attempt)
        return attempt

    def _charge(self, attempt: Attempt) -> None:
        namespace = attempt.pod.metadata.namespace
        if self._queue.charge(namespace, attempt.cost):
            _log.info(
                "pods of a namespace go behind others: their attempts used much CPU time",
                namespace=namespace,
                pod=attempt.pod.key,
                seconds=round(attempt.cost, 3),
            )

    async def _sleep(self) -> None:
        if self._wake.is_set():
            self._wake.clear()
            await asyncio.sleep(0)
            return
        delay = self.seconds_to_sleep()
        try:
            async with asyncio.timeout(None if delay == float("inf") else delay):
                await self._wake.wait()
        except TimeoutError:
            pass
        self._wake.clear()

    def seconds_to_sleep(self) -> float:
        """Return the seconds until there is work, unless an event happens before."""
        wakeup = self._queue.next_wakeup()
        delay = self.max_sleep if wakeup is None else wakeup - self._clock.now()
        first = None
        for work in (*self._groups.timed, *self._timed):
            due = work.next_due()
            if due is not None and (first is None or due < first):
                first = due
        if first is not None:
            delay = min(delay, first - self._clock.monotonic())
        return min(max(delay, 0.0), self.max_sleep)
