"""The scheduling loop: pop, attempt, hand over to binding; pods back to back, in slices.

Between slices the event loop runs everything else: watches, binds, timers. Nothing is scheduled
while a relist is being applied, because the world is half old and half new then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

import structlog

from scheduler.engine import Attempt, Engine
from scheduler.framework import Clock, Events, QueuedPodInfo, TimedWork
from scheduler.queue import SchedulingQueue
from scheduler.service.binding import BindingCycle
from scheduler.service.failure_handler import (
    ACTION_SCHEDULING,
    EVENT_FAILED_SCHEDULING,
    FailureHandler,
)
from scheduler.service.gate_reporter import GateReporter

_log = structlog.get_logger(__name__)

LONGEST_SLEEP: Final = 60.0
"""Seconds; the wall clock may jump while the loop sleeps by the monotonic one."""


class SchedulingLoop:
    """Owns queue, engine and cache while it runs; the only caller of `Engine.attempt`."""

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
        most_binding: int,
        gates: GateReporter | None = None,
        timed: Sequence[TimedWork] = (),
    ) -> None:
        """`timed` is work of plugins, done between cycles as `gates` is."""
        self._engine = engine
        self._queue = queue
        self._binding = binding
        self._failures = failures
        self._events = events
        self._clock = clock
        self._slice = slice_seconds
        #: Binding cycles past Permit beyond which the loop pauses, so that an API server that
        #: stopped answering does not make us assume the whole backlog.
        self._most_binding = most_binding
        self._pauses = 0
        self._stopping = False
        self._wake = asyncio.Event()
        self._drained = asyncio.Event()
        queue.on_ready = self._wake.set
        queue.on_timer = self._wake.set
        binding.on_end = self._binding_ended
        self._timed: tuple[TimedWork, ...] = (*(() if gates is None else (gates,)), *timed)
        for work in self._timed:
            work.on_timer = self._wake.set

    def pause(self, begins: bool) -> None:
        """A relist begins or ends."""
        self._pauses += 1 if begins else -1
        if not self._pauses:
            self._wake.set()

    def stop(self) -> None:
        """Pop no more pods; binding cycles under way go on."""
        self._stopping = True

    async def drained(self) -> None:
        """Wait until no binding cycle is past Permit; those that wait there would take too long."""
        # Cycles handed over in this very turn of the event loop begin in the next one.
        await asyncio.sleep(0)
        while self._binding.active:
            self._drained.clear()
            await self._drained.wait()

    async def run(self) -> None:
        """Schedule until cancelled; binding cycles under way are then cancelled as well."""
        async with asyncio.TaskGroup() as cycles:
            while True:
                self._queue.run_due()
                self._run_timed()
                if self._stopping or self._pauses or not self._schedule_slice(cycles):
                    await self._sleep()
                else:
                    await asyncio.sleep(0)

    def _run_timed(self) -> None:
        for work in self._timed:
            due = work.next_due()
            if due is not None and due <= self._clock.monotonic():
                try:
                    work.run_due()
                except Exception:  # noqa: BLE001 - plugin boundary: the loop must go on
                    _log.exception("a plugin's timed work failed", work=repr(work))

    def _schedule_slice(self, cycles: asyncio.TaskGroup) -> bool:
        """Schedule for one slice; False when there was nothing (more) to do."""
        end = self._clock.monotonic() + self._slice
        while self._binding.active < self._most_binding:
            info = self._queue.pop()
            if info is None:
                return False
            attempt = self.schedule(info)
            if attempt is not None:
                cycles.create_task(self._binding.run(attempt), name=f"bind {info.key}")
            if self._clock.monotonic() >= end:
                return True
        return False

    def schedule(self, info: QueuedPodInfo) -> Attempt | None:
        """One attempt at one popped pod; the attempt if it goes on to binding."""
        pod = info.pod
        if pod.terminating:
            note = f"skip schedule deleting pod: {pod.key}"
            self._events.record(pod, "Warning", EVENT_FAILED_SCHEDULING, ACTION_SCHEDULING, note)
            self._queue.done(info.uid)
            return None
        if self._engine.cache.is_assumed(info.uid) or pod.spec.scheduler_name not in (
            self._engine.frameworks
        ):
            self._queue.done(info.uid)
            return None
        attempt = self._engine.attempt(info)
        if attempt.failure is not None:
            self._failures.handle(attempt, attempt.failure)
            return None
        self._activate(attempt)
        return attempt

    def _activate(self, attempt: Attempt) -> None:
        wanted = attempt.state.pods_to_activate
        if wanted:
            self._failures.activate(wanted)
            wanted.clear()

    def _binding_ended(self) -> None:
        if self._binding.active == self._most_binding - 1:
            self._wake.set()
        if not self._binding.active:
            self._drained.set()

    async def _sleep(self) -> None:
        if self._wake.is_set():
            self._wake.clear()
            await asyncio.sleep(0)
            return
        wakeup = self._queue.next_wakeup()
        delay = LONGEST_SLEEP
        if wakeup is not None:
            delay = min(max(wakeup - self._clock.now(), 0.0), LONGEST_SLEEP)
        for work in self._timed:
            due = work.next_due()
            if due is not None:
                delay = min(delay, max(due - self._clock.monotonic(), 0.0))
        try:
            async with asyncio.timeout(delay):
                await self._wake.wait()
        except TimeoutError:
            pass
        self._wake.clear()
