"""Time as this layer sees it: a Protocol, and the real clock.

Nothing in `scheduler.client` reads a clock or sleeps except through a `Clock`, so that leases,
backoffs and rate limits can be tested in virtual time. Socket timeouts are the one exception: they
belong to aiohttp and run on the event loop's clock.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Wall time, monotonic time, and waiting."""

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back."""
        ...

    def now(self) -> float:
        """Wall clock, seconds since the epoch."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Suspend the calling task; zero or less still yields once."""
        ...


class SystemClock:
    """The machine's clocks."""

    __slots__ = ()

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back."""
        return time.monotonic()

    def now(self) -> float:
        """Wall clock, seconds since the epoch."""
        return time.time()

    async def sleep(self, seconds: float) -> None:
        """Suspend the calling task."""
        await asyncio.sleep(max(0.0, seconds))


def micro_time(epoch: float) -> str:
    """Wall time as Kubernetes' MicroTime: RFC 3339 in UTC with exactly six decimals.

    >>> micro_time(1700000000.5)
    '2023-11-14T22:13:20.500000Z'
    """
    # A third of what strftime costs; the offset, +00:00, is cut off.
    return f"{datetime.fromtimestamp(epoch, UTC).isoformat(timespec='microseconds')[:-6]}Z"


def second_time(epoch: float) -> str:
    """Wall time as Kubernetes' Time: RFC 3339 in UTC with whole seconds.

    >>> second_time(1700000000.5)
    '2023-11-14T22:13:20Z'
    """
    return f"{datetime.fromtimestamp(epoch, UTC).isoformat(timespec='seconds')[:-6]}Z"
