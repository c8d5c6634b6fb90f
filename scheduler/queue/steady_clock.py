"""A wall clock that detects jumps back.

All times in the queue are wall clock times, because people and other programs read them. If the
wall clock is set back by an hour, a pod whose backoff ends in a second would wait for an hour and a
second. `SteadyClock` therefore reports by how much the clock was set back, and its owner moves all
stored times with it.

A jump forward needs no correction: pods become due early, and none waits too long.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from scheduler.framework.handle import Clock

#: Seconds. Smaller steps back delay a pod by less than this, which is not worth moving all times.
TOLERANCE: Final = 1.0


class SteadyClock:
    """Reads the wall clock, and reports a jump back before it returns."""

    def __init__(self, clock: Clock, on_jump: Callable[[float], None]) -> None:
        """`on_jump(seconds)` receives a negative number, to be added to all stored times."""
        self._clock = clock
        self._on_jump = on_jump
        #: Wall and monotonic clock at the last reading.
        self._last = clock.now(), clock.monotonic()
        self.jumps = 0

    def now(self) -> float:
        """Return wall clock seconds."""
        clock, before = self._clock, self._last
        self._last = wall, monotonic = clock.now(), clock.monotonic()
        if wall < before[0] - TOLERANCE:
            self.jumps += 1
            elapsed = max(0.0, monotonic - before[1])
            self._on_jump(wall - (before[0] + elapsed))
        return wall
