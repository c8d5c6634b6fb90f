"""Virtual time for an event loop: a test decides when a timeout expires, and waits for none.

A short timeout ("no response within 0.05 s") expires too early on a machine that is slow just then:
before the request has arrived, or while the next one is under way. So timeouts are long, and a
server that is not to respond advances the clock past them once it has received the request.

    pass_time(2.0)

This works with any loop of asyncio; a loop of uvloop must be a `UvLoop`.

A test that waits for a retry in a second, or for a timeout, gives the scheduler a `LoopClock` and
calls `skip_idle_time` while it waits: that sets the clock forward to the next timer, but only if
nothing else is left to do. So however slow the machine is, no timer expires while a response is on
its way, and each state can be seen in which the tasks come to rest.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextvars import Context
from heapq import heappop, heappush
from typing import Any, Final
from weakref import WeakKeyDictionary, WeakSet

import uvloop

from simulator import EmbeddedCluster


class UvLoop(uvloop.Loop):
    """A loop of uvloop with timers of its own: those of uvloop follow only the machine's clock."""

    ahead = 0.0

    def __init__(self) -> None:
        super().__init__()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._number = 0
        self._next: asyncio.TimerHandle | None = None

    def time(self) -> float:
        """Return the machine's monotonic clock plus the offset added by `pass_time`, in seconds."""
        return float(super().time()) + self.ahead

    def pass_time(self, seconds: float) -> None:
        """Set the clock forward; timers that are due run in the next iteration."""
        self.ahead += seconds
        self.call_soon(self._run_due)

    def call_at(  # type: ignore[override]  # typeshed's TypeVarTuple adds nothing here
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Schedule a callback, as asyncio does."""
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._number += 1
        heappush(self._timers, (when, self._number, handle))
        self._set_next()
        return handle

    def call_later(  # type: ignore[override]
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Schedule a callback, as asyncio does."""
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Count a cancelled timer, as asyncio does."""

    def _run_due(self) -> None:
        # The machine's timer may fire within the millisecond before.
        now = self.time() + 0.001
        while self._timers and self._timers[0][0] <= now:
            handle = heappop(self._timers)[2]
            if not handle.cancelled():
                handle._run()
        self._set_next()

    def _set_next(self) -> None:
        if self._next is not None:
            self._next.cancel()
        if self._timers:
            wait = max(0.0, self._timers[0][0] - self.time())
            self._next = super().call_later(wait, self._run_due)


_ahead: WeakKeyDictionary[asyncio.BaseEventLoop, float] = WeakKeyDictionary()


def pass_time(seconds: float) -> None:
    """Set the running loop's clock forward; timers that are due by then run next."""
    loop = asyncio.get_running_loop()
    if isinstance(loop, UvLoop):
        loop.pass_time(seconds)
        return
    assert isinstance(loop, asyncio.BaseEventLoop)
    if loop not in _ahead:
        now = type(loop).time
        # mypy rejects assignments to methods.
        setattr(loop, "time", lambda: now(loop) + _ahead[loop])  # noqa: B010
    _ahead[loop] = _ahead.get(loop, 0.0) + seconds


MAX_SKIP_SECONDS: Final = 0.25
"""What a thread or another process does cannot be seen on the loop, so time is skipped in steps."""

_skipping: WeakSet[asyncio.AbstractEventLoop] = WeakSet()


class LoopClock:
    """A `Clock` that shows the loop's time, and lets `skip_idle_time` set it forward."""

    ahead = 0.0
    """Seconds that a test adds without a timer noticing it, as when a machine's clock is set."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        """Share the loop's time with the cluster."""
        self._loop = asyncio.get_running_loop()
        # `pass_time` replaces the method `time`.
        cluster.clock.follow(lambda: self._loop.time())  # noqa: PLW0108
        self._epoch = time.time() - self._loop.time()
        _skipping.add(self._loop)

    def monotonic(self) -> float:
        """Return the loop's time."""
        return self._loop.time() + self.ahead

    def now(self) -> float:
        """Return the wall time: that of the machine, plus what was skipped."""
        return self._epoch + self._loop.time() + self.ahead

    async def sleep(self, seconds: float) -> None:
        """Suspend the calling task."""
        await asyncio.sleep(max(0.0, seconds))


def skip_idle_time() -> bool:
    """Set the loop's clock forward to the next timer if tasks wait for nothing else.

    Does nothing and returns False on a loop without a `LoopClock`: there, time is the machine's.
    """
    loop = asyncio.get_running_loop()
    if loop not in _skipping:
        return False
    assert isinstance(loop, asyncio.SelectorEventLoop)
    # No callback is due, and no socket has anything to read: selecting does not consume it.
    idle = not loop._ready and not loop._selector.select(0)  # type: ignore[attr-defined]
    if idle and (timers := loop._scheduled):  # type: ignore[attr-defined]
        pass_time(min(max(0.0, timers[0].when() - loop.time()), MAX_SKIP_SECONDS))
    return True
