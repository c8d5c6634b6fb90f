"""Clocks for tests: one that a test moves by hand, and one where every sleep is over at once."""

from __future__ import annotations

import asyncio
import heapq
from itertools import count

EPOCH = 1_700_000_000.0


class ManualClock:
    """Time stands still until `advance`; sleepers wake in order of their deadlines."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._order = count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    def monotonic(self) -> float:
        return self._seconds

    def now(self) -> float:
        return EPOCH + self._seconds

    @property
    def waiting(self) -> int:
        """Number of sleeping tasks."""
        return sum(not future.done() for _, _, future in self._sleepers)

    def jump(self, seconds: float) -> None:
        """Move time without waking anybody, as a blocked process would see it."""
        self._seconds += seconds

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._seconds + seconds, next(self._order), future))
        await future

    async def settle(self) -> None:
        """Let every task run until it waits for time or for the outside."""
        for _ in range(50):
            await asyncio.sleep(0)

    async def advance(self, seconds: float) -> None:
        """Move time forward, waking each sleeper at its own moment."""
        target = self._seconds + seconds
        await self.settle()
        while self._sleepers and self._sleepers[0][0] <= target:
            at, _, future = heapq.heappop(self._sleepers)
            self._seconds = max(self._seconds, at)
            if not future.done():
                future.set_result(None)
            await self.settle()
        self._seconds = target


class InstantClock:
    """Sleeping takes no real time, moves the clock, and is remembered."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self.sleeps: list[float] = []

    def monotonic(self) -> float:
        return self._seconds

    def now(self) -> float:
        return EPOCH + self._seconds

    def jump(self, seconds: float) -> None:
        """Move time, as work that takes so long would."""
        self._seconds += seconds

    async def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self._seconds += seconds
        await asyncio.sleep(0)
