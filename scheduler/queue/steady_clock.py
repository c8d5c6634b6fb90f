"""Wall clock time that notices when it jumps back.

Everything the queue remembers is wall clock time, because people and other programs read it. If the
wall clock is set back by an hour, a pod whose backoff ends in a second would wait for an hour and a
second. So the owner of a `SteadyClock` is told by how much the clock was set back, and moves its
times with it.

A jump forward needs nothing: pods become due early, and nobody waits too long.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from scheduler.framework.handle import Clock

#: Steps smaller than this delay a pod by less than a second and are not worth moving everything
#: for.
TOLERANCE: Final = 1.0


class SteadyClock:
    """Reads the wall clock, and reports jumps back before it returns."""

    __slots__ = ("_clock", "_monotonic", "_on_jump", "_wall", "jumps")

    def __init__(self, clock: Clock, on_jump: Callable[[float], None]) -> None:
        """`on_jump(seconds)` gets a negative number: what to add to remembered times."""
        self._clock = clock
        self._on_jump = on_jump
        self._wall = clock.now()
        self._monotonic = clock.monotonic()
        self.jumps = 0

    def now(self) -> float:
        """Wall clock seconds."""
        wall, monotonic = self._clock.now(), self._clock.monotonic()
        if wall < self._wall - TOLERANCE:
            elapsed = max(0.0, monotonic - self._monotonic)
            jump = wall - (self._wall + elapsed)
            self._wall, self._monotonic = wall, monotonic
            self.jumps += 1
            self._on_jump(jump)
        else:
            self._wall, self._monotonic = wall, monotonic
        return wall
