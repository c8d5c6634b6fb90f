"""The server's clock: wall time, wall time sped up, or time that moves only on request.

Invariant: `now` never goes backwards. Every timestamp, grace period and run time in the simulator
reads this clock; HTTP timeouts and bookmarks do not (they belong to the connection, not to the
cluster).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from scheduler.api.signal import Signal


class SimClock:
    """Simulated time = start + rate x elapsed real time + what was added by `advance`.

    `rate` 1.0 is wall time, 60.0 makes a second a minute, 0.0 stops time (manual: use `advance`).
    `source` gives real seconds and is a parameter so that tests own it.
    """

    def __init__(
        self,
        *,
        start: float | None = None,
        rate: float = 1.0,
        source: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source = source
        self._base = time.time() if start is None else start
        self._mark = source()
        self._rate = self._checked(rate)
        #: Called after every `advance` and `set_rate`.
        self.on_jump = Signal[[]]()

    @property
    def rate(self) -> float:
        """Simulated seconds per real second."""
        return self._rate

    def now(self) -> float:
        """Simulated seconds since the epoch."""
        return self._base + (self._source() - self._mark) * self._rate

    def set_rate(self, rate: float) -> None:
        """Run at another speed from now on. Raises ValueError for a negative rate."""
        rate = self._checked(rate)
        self._settle()
        self._rate = rate
        self.on_jump()

    def follow(self, source: Callable[[], float]) -> None:
        """Take real seconds from `source` from now on."""
        self._settle()
        self._source = source
        self._mark = source()
        self.on_jump()

    def advance(self, seconds: float) -> None:
        """Jump forward. Raises ValueError for a negative step."""
        if seconds < 0:
            raise ValueError(f"cannot advance the clock by {seconds} s: time does not go backwards")
        self._settle()
        self._base += seconds
        self.on_jump()

    def real_delay(self, deadline: float) -> float | None:
        """Real seconds until simulated `deadline` (0 when past); None while time stands still."""
        left = deadline - self.now()
        if left <= 0:
            return 0.0
        return None if self._rate == 0 else left / self._rate

    async def sleep(self, seconds: float) -> None:
        """Wait until simulated time has moved by `seconds`."""
        deadline = self.now() + seconds
        jumped = asyncio.Event()
        remove = self.on_jump.subscribe(jumped.set)
        try:
            while (delay := self.real_delay(deadline)) != 0.0:
                jumped.clear()
                try:
                    async with asyncio.timeout(delay):
                        await jumped.wait()
                except TimeoutError:
                    continue
        finally:
            remove()

    @staticmethod
    def _checked(rate: float) -> float:
        if rate < 0:
            raise ValueError(
                f"clock rate {rate} is negative: time does not go backwards; use 0 to stop it"
            )
        return rate

    def _settle(self) -> None:
        self._base = self.now()
        self._mark = self._source()
