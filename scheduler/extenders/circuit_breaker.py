"""CircuitBreaker: stops calling a peer that keeps failing, and tries again after a while.

Invariant: while it is open nothing is sent; when the cool-down is over exactly one call goes
through at a time, and its outcome decides. The clock is handed in; nothing here waits.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum


class BreakerState(Enum):
    """What happens to calls."""

    CLOSED = "closed"
    """They are made."""
    OPEN = "open"
    """They are not, until the cool-down is over."""
    PROBING = "probing"
    """One is under way after the cool-down; others are not made."""


class CircuitBreaker:
    """Counts consecutive failures of one peer."""

    def __init__(self, monotonic: Callable[[], float], *, failures: int, cool_down: float) -> None:
        """Open after `failures` in a row, 1 or more, for `cool_down` seconds."""
        self._monotonic = monotonic
        self._limit = failures
        self._cool_down = cool_down
        self._failed = 0
        self._open_until = 0.0
        self.state = BreakerState.CLOSED

    def allows(self) -> bool:
        """Whether a call may be made now; report its outcome if so."""
        if self.state is BreakerState.CLOSED:
            return True
        if self.state is BreakerState.PROBING or self._monotonic() < self._open_until:
            return False
        self.state = BreakerState.PROBING
        return True

    def remaining(self) -> float:
        """Seconds until the next call may be made; 0 when one may be now."""
        if self.state is BreakerState.CLOSED:
            return 0.0
        return max(0.0, self._open_until - self._monotonic())

    @property
    def failures(self) -> int:
        """Failures since the last success."""
        return self._failed

    def succeeded(self) -> bool:
        """A call succeeded; whether that closed the breaker."""
        closed = self.state is not BreakerState.CLOSED
        self._failed = 0
        self.state = BreakerState.CLOSED
        return closed

    def failed(self) -> bool:
        """A call failed; whether that opened the breaker, which was closed before."""
        self._failed += 1
        was = self.state
        if was is BreakerState.CLOSED and self._failed < self._limit:
            return False
        self.state = BreakerState.OPEN
        self._open_until = self._monotonic() + self._cool_down
        return was is BreakerState.CLOSED

    def abandoned(self) -> None:
        """A call ended without an outcome (it was cancelled): another one may probe."""
        if self.state is BreakerState.PROBING:
            self.state = BreakerState.OPEN
