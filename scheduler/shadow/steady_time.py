"""SteadyTime: wall clock times that a jump of the wall clock does not change."""

from __future__ import annotations

from scheduler.framework import Clock


class SteadyTime:
    """The wall clock time of the start, plus the monotonic time since; a `framework.Clock`.

    Spans such as "placed 20 s sooner" are differences of two such times.
    """

    def __init__(self, clock: Clock) -> None:
        self.monotonic = clock.monotonic
        self._offset = clock.now() - clock.monotonic()

    def now(self) -> float:
        """Return seconds since the epoch, as the wall clock would show if nobody had set it."""
        return self._offset + self.monotonic()
