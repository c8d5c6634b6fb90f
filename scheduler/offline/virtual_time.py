"""An event loop and a clock in virtual time: an hour in which nothing happens costs nothing.

The service's tasks run on the loop as they are. Where a real loop would wait for the next timer,
this one sets its clock to that timer. It has no sockets, and nothing in it reads the machine's
clock, so that a run depends on its input alone.
"""

from __future__ import annotations

import asyncio
import gc
import heapq
import logging
import math
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import structlog

START: Final = 1_767_225_600.0
"""Wall time at which worlds begin: 2026-01-01T00:00:00Z."""

GC_THRESHOLDS: Final = (50_000, 20, 50)
"""Objects allocated before a collection, as in the service."""

MANY_TIMERS: Final = 100
"""Cancellations of timers before the cancelled ones are searched for."""

OnIdle = Callable[[float], bool]
"""`on_idle(due)` is called when nothing is left to do before virtual second `due` (infinite: ever);
it returns whether to stop."""


class Step:
    """A call that nobody cancels, to the loop what an `asyncio.Handle` is.

    Most turns of a world's loop are such calls, one after the other. A handle of asyncio with its
    context and its checks takes longer than some of them.
    """

    __slots__ = ("_run",)
    _cancelled: Final = False

    def __init__(self, call: Callable[[], object]) -> None:
        self._run = call


class Timer(asyncio.TimerHandle):
    """A `Step` that the loop takes at its time, and that may be cancelled."""

    __slots__ = ("_run",)

    def __init__(self, time: float, call: Callable[[], object], loop: VirtualLoop) -> None:
        # Without the context and the checks of asyncio's own, as for steps.
        self._when: float = time
        self._run: Any = call
        self._loop: Any = loop
        self._cancelled = self._scheduled = False


class VirtualLoop(asyncio.BaseEventLoop):
    """Runs tasks in virtual time. `time()` begins at 0."""

    # Attributes of asyncio's loop that typeshed leaves out.
    _scheduled: list[asyncio.TimerHandle]
    _ready: deque[asyncio.Handle | Step]
    _stopping: bool

    def __init__(self) -> None:
        super().__init__()
        self._set_time(0.0)
        self._until = 0.0
        self._on_idle: OnIdle = _stop
        self._failures: list[BaseException] = []
        self._cancellations = 0
        #: Calls at given times, after the timers of the same time; see `Agenda`.
        self.agenda = Agenda(self)
        self.set_exception_handler(self._note_failure)

    def time(self) -> float:
        """Return the virtual seconds since the start."""
        return self.seconds

    def _set_time(self, time: float) -> None:
        #: What `time` returns, for those who ask often.
        self.seconds = time
        # The loop calls timers that are due within this time. It is the distance to the next
        # larger number, so that no timer is called before its time, however late that is.
        self._clock_resolution = math.ulp(time)

    def run(self, until: float, on_idle: OnIdle) -> None:
        """Run until `on_idle` returns True or virtual second `until` has passed.

        May be called in a thread in which another event loop runs, as in a notebook: the work is
        then done in a thread of its own while this one waits.

        Raises:
            Exception: the failure of a task that nobody awaited.
        """
        self._until, self._on_idle = float(until), on_idle
        if _no_loop_runs():
            self.run_forever()
        else:
            thread = threading.Thread(target=self.run_forever, name="offline world")
            thread.start()
            thread.join()
        if self._failures:
            failures, self._failures = self._failures, []
            raise failures[0]

    def jump(self, time: float) -> None:
        """Set the clock while nothing runs, never back: for a replay, whose times are given."""
        self._set_time(max(self.seconds, time))

    def add_step(self, step: Step) -> None:
        """Call a step in the next turn, in order with what `call_soon` adds."""
        self._ready.append(step)

    def add_timer(self, time: float, call: Callable[[], object]) -> Timer:
        """Call `call` at a virtual second, in order with what `call_at` adds."""
        timer = Timer(time, call, self)
        heapq.heappush(self._scheduled, timer)
        return timer

    def _run_once(self) -> None:
        """Run turns until the loop is stopped; a loop without sockets does not poll between them.

        Each is as one of `asyncio.BaseEventLoop`, of which this reads the attributes: to call the
        methods behind them would take a tenth of the time of a world.
        """
        scheduled: list[Any] = self._scheduled
        ready: deque[Any] = self._ready
        entries, planned = self.agenda.entries, Step(self.agenda.call_due)
        while True:
            while scheduled and scheduled[0]._cancelled:  # noqa: SLF001
                heapq.heappop(scheduled)
            if not ready and not self._stopping:
                self.move_on()
            end = self.seconds + self._clock_resolution
            while scheduled and scheduled[0]._when < end:  # noqa: SLF001
                ready.append(heapq.heappop(scheduled))
            if entries and entries[0][0] < end:
                ready.append(planned)
            for _ in range(len(ready)):
                handle = ready.popleft()
                if not handle._cancelled:  # noqa: SLF001
                    try:
                        handle._run()  # noqa: SLF001
                    except Exception as error:  # noqa: BLE001 - asyncio's own handles do the same
                        # Of a step; `run` raises it.
                        self._failures.append(error)
            if self._stopping:
                return

    def _timer_handle_cancelled(self, _handle: asyncio.TimerHandle) -> None:
        """Drop cancelled timers, which asyncio calls this for, once they may be half of many."""
        self._cancellations += 1
        scheduled = self._scheduled
        if self._cancellations > MANY_TIMERS and self._cancellations * 2 > len(scheduled):
            self._cancellations = 0
            # In place: a turn of the loop may be under way.
            scheduled[:] = [timer for timer in scheduled if not timer.cancelled()]
            heapq.heapify(scheduled)

    def move_on(self) -> None:
        """Set the clock to the next timer, or stop."""
        due = self.agenda.next_due()
        if self._scheduled:
            due = min(due, self._scheduled[0].when())
        stops = self._on_idle(due)
        if self._ready:
            # `on_idle` found something to do; no time has passed before it.
            return
        if stops:
            self.stop()
        elif due > self._until or due == math.inf:
            if self._until != math.inf:
                self._set_time(max(self.seconds, self._until))
            self.stop()
        else:
            self._set_time(max(self.seconds, due))

    def _note_failure(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if error is not None:
            self._failures.append(error)

    # What asyncio's loop needs from its subclasses.

    def _write_to_self(self) -> None:
        """Do nothing: a loop that does not sleep need not be woken."""

    def __del__(self) -> None:
        """Do not warn: a loop without sockets that is not closed leaks nothing."""


class Agenda:
    """Calls of a world at given times, which its loop makes.

    A workload has as many ends of pods as pods, and a timer of asyncio costs several times as much
    as an entry here.
    """

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        #: A heap of (virtual second, number in order of entry, call), which the loop reads too; the
        #: first one is not cancelled.
        self.entries: list[tuple[float, int, Callable[[], object]]] = []
        self._count = 0
        #: Numbers of entries that are there, but will not be called.
        self._cancelled: set[int] = set()

    def __len__(self) -> int:
        return len(self.entries) - len(self._cancelled)

    @property
    def now(self) -> float:
        """Virtual seconds since the start."""
        return self._loop.seconds

    def next_due(self) -> float:
        """Return the virtual second of the next call; infinite if there is none."""
        return self.entries[0][0] if self.entries else math.inf

    def at(self, time: float, call: Callable[[], object]) -> int:
        """Call `call` at a virtual second, or at once if that is past; returns a number for it."""
        self._count += 1
        entry = (max(time, self._loop.seconds), self._count, call)
        heapq.heappush(self.entries, entry)
        return self._count

    def cancel(self, number: int) -> None:
        """Do not make a call, of which `at` returned the number, and which has not begun."""
        self._cancelled.add(number)
        self._drop_cancelled()

    def call_due(self) -> None:
        """Make the calls that are due."""
        entries, now = self.entries, self._loop.seconds
        while entries and entries[0][0] <= now:
            call = heapq.heappop(entries)[2]
            if self._cancelled:
                self._drop_cancelled()
            call()

    def _drop_cancelled(self) -> None:
        entries, cancelled = self.entries, self._cancelled
        while entries and entries[0][1] in cancelled:
            cancelled.remove(heapq.heappop(entries)[1])


@contextmanager
def rare_collections() -> Iterator[None]:
    """Let Python's garbage collector run as rarely as in the service.

    A world of a large cluster has a million objects and makes few cycles, so that the collector's
    defaults would only make it slower.
    """
    before = gc.get_threshold()
    gc.set_threshold(*GC_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)


@contextmanager
def no_collections() -> Iterator[None]:
    """Keep Python's garbage collector from running while objects are only added."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class _ErrorsOnly:
    """The log of the process while worlds are open: errors, on standard error."""

    def __init__(self) -> None:
        self._worlds = 0
        self._before: dict[str, Any] | None = None

    def begin(self) -> None:
        """Open one world more. Those that are open end in any order."""
        self._worlds += 1
        if self._worlds > 1:
            return
        self._before = structlog.get_config() if structlog.is_configured() else None
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
        if self._before is None:
            # Standard output, structlog's default, is for results.
            structlog.configure(logger_factory=lambda *_: structlog.PrintLogger(sys.stderr))

    def end(self) -> None:
        """Close one world; the last one restores the log."""
        self._worlds -= 1
        if self._worlds:
            return
        if self._before is None:
            structlog.reset_defaults()
        else:
            structlog.configure(**self._before)


_errors_only = _ErrorsOnly()


@contextmanager
def only_errors_logged() -> Iterator[None]:
    """Let only errors be logged for a while.

    The scheduler logs every decision; in a world they are results.
    """
    _errors_only.begin()
    try:
        yield
    finally:
        _errors_only.end()


def _no_loop_runs() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return True
    return False


def _stop(_due: float) -> bool:
    return True


class VirtualClock:
    """The clock of the scheduler in a world. Implements `scheduler.client.clock.Clock`."""

    def __init__(self, loop: VirtualLoop, start: float = START) -> None:
        self._loop = loop
        self._start = start
        #: Virtual seconds since the start.
        self.monotonic = loop.time

    def now(self) -> float:
        """Return the wall time, seconds since the epoch."""
        return self._start + self._loop.seconds

    def set_wall(self, now: float) -> None:
        """Let the wall time be `now` at this virtual second."""
        self._start = now - self._loop.time()

    async def sleep(self, seconds: float) -> None:
        """Suspend the calling task."""
        await asyncio.sleep(max(0.0, seconds))
