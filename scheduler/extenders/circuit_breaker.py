"""CircuitBreaker: stops calls of a peer that keeps failing, and probes it after a cool-down.

Invariant: while it is open nothing is sent; when the cool-down is over one call goes through at a
time, and its outcome decides. The clock is injected; nothing here waits.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum


class BreakerState(Enum):
    """State of a breaker."""

    CLOSED = "closed"
    """Calls are made."""
    OPEN = "open"
    """No call is made until the cool-down is over."""
    PROBING = "probing"
    """The cool-down is over and one call is under way; no other is made."""


class CircuitBreaker:
    """Counter of consecutive failures of one peer."""

    def __init__(self, monotonic: Callable[[], float], *, failures: int, cool_down: float) -> None:
        """Open after `failures` in a row, 1 or more, for `cool_down` seconds."""
        self._monotonic = monotonic
        self._limit = failures
        self._cool_down = cool_down
        #: Failures since the last success.
        self.failures = 0
        self._open_until = 0.0
        self.state = BreakerState.CLOSED

    def allows(self) -> bool:
        """Whether a call may be made now; if so, its outcome must be reported."""
        if self.state is BreakerState.CLOSED:
            return True
        if self.state is BreakerState.PROBING or self._monotonic() < self._open_until:
            return False
        self.state = BreakerState.PROBING
        return True

    def remaining(self) -> float:
        """Return the seconds until the next call may be made; 0 when it may be made now."""
        if self.state is BreakerState.CLOSED:
            return 0.0
        return max(0.0, self._open_until - self._monotonic())

    def succeeded(self) -> bool:
        """Record a success; True when it closed the breaker."""
        closed = self.state is not BreakerState.CLOSED
        self.failures = 0
        self.state = BreakerState.CLOSED
        return closed

    def failed(self) -> bool:
        """Record a failure; True when it opened a breaker that was closed."""
        self.failures += 1
        was = self.state
        if was is BreakerState.CLOSED and self.failures < self._limit:
            return False
        self.state = BreakerState.OPEN
        self._open_until = self._monotonic() + self._cool_down
        return was is BreakerState.CLOSED

    def abandoned(self) -> None:
        """Record a call that was cancelled: another one may probe."""
        if self.state is BreakerState.PROBING:
            self.state = BreakerState.OPEN
