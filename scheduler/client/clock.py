"""Clocks: a Protocol, and the clocks of the machine.

Nothing in `scheduler.client` reads a clock or sleeps except through a `Clock`, so that leases,
backoffs and rate limits can be tested in virtual time. The exception is timeouts of the network:
they run on the event loop's clock.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Protocol


class Clock(Protocol):
    """Wall time, monotonic time, and sleep."""

    def monotonic(self) -> float:
        """Return the seconds of a clock that never goes back."""
        ...

    def now(self) -> float:
        """Return the wall time, seconds since the epoch."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Suspend the calling task; zero or less still yields once."""
        ...


def _boot_time_source() -> Callable[[], float]:
    clock: int | None = getattr(time, "CLOCK_BOOTTIME", None)
    if clock is None:
        return time.monotonic
    try:
        time.clock_gettime(clock)
    except OSError:
        return time.monotonic
    return partial(time.clock_gettime, clock)


class SystemClock:
    """The machine's clocks."""

    __slots__ = ()

    # The functions themselves, without a call in between: some thirty readings per pod.
    monotonic = staticmethod(time.monotonic)
    now = staticmethod(time.time)

    async def sleep(self, seconds: float) -> None:
        """Suspend the calling task."""
        await asyncio.sleep(max(0.0, seconds))


class LeaseClock(SystemClock):
    """The machine's clocks; the monotonic one continues while the machine is suspended.

    For durations that other machines measure as well, such as that of a Lease: for them the time of
    the suspension has passed. Timers of the event loop stop, so read the clock again after a sleep.
    Where the system has no such clock (CLOCK_BOOTTIME of Linux) this is `SystemClock`. A virtual
    machine that is paused from outside may not notice it by any clock.
    """

    __slots__ = ()

    monotonic = staticmethod(_boot_time_source())


async def sleep_unless(wanted: asyncio.Event, clock: Clock, seconds: float) -> None:
    """Suspend the calling task until `wanted` is set, for `seconds` at most."""
    sleep = asyncio.create_task(clock.sleep(seconds))
    until_wanted = asyncio.create_task(wanted.wait())
    try:
        await asyncio.wait((sleep, until_wanted), return_when=asyncio.FIRST_COMPLETED)
    finally:
        sleep.cancel()
        until_wanted.cancel()


async def woken(wake: asyncio.Event, seconds: float) -> None:
    """Suspend the calling task until `wake` is set, for `seconds` of the loop at most; clear it."""
    try:
        async with asyncio.timeout(None if seconds == math.inf else max(0.0, seconds)):
            await wake.wait()
    except TimeoutError:
        pass
    wake.clear()


def micro_time(epoch: float) -> str:
    """Format wall time as Kubernetes' MicroTime: RFC 3339 in UTC with exactly six decimals.

    >>> micro_time(1700000000.5)
    '2023-11-14T22:13:20.500000Z'
    """
    # A third of what strftime costs; the offset, +00:00, is cut off.
    return f"{datetime.fromtimestamp(epoch, UTC).isoformat(timespec='microseconds')[:-6]}Z"
