"""The seam between leadership and writes: nothing is written while the fence is shut.

The Lease is renewed by a thread of its own (`service.lease_thread`), writes are made by the event
loop of the process. Two things pass between them, each a number that one side writes and the other
reads: the fence, from the thread to the loop, and the heartbeat, from the loop to the thread.
"""

from __future__ import annotations

from typing import Protocol

from scheduler.client.clock import Clock


class Fence(Protocol):
    """Asked immediately before each write."""

    def allowed(self) -> bool:
        """Whether this process may write now."""
        ...


class OpenFence:
    """Always open: for processes that run without leader election."""

    __slots__ = ()

    def allowed(self) -> bool:
        """Always."""
        return True


class LeaderFence:
    """Open only while the last successful renewal is younger than the renew deadline.

    Shut from the start, and for good once `shut` was called. Written by the thread that renews the
    Lease, read by any: both fields are replaced in one step.
    """

    __slots__ = ("_clock", "_renew_deadline", "_renewed", "_shut")

    def __init__(self, clock: Clock, renew_deadline: float) -> None:
        """`clock` must not stop while the machine is suspended (`clock.LeaseClock`)."""
        self._clock = clock
        self._renew_deadline = renew_deadline
        self._renewed: float | None = None
        self._shut = False

    def allowed(self) -> bool:
        """Whether this process may write now."""
        return self.remaining() > 0.0

    def remaining(self) -> float:
        """Seconds until the fence shuts unless renewed; zero or less when it is shut."""
        if self._shut or self._renewed is None:
            return 0.0
        return self._renewed + self._renew_deadline - self._clock.monotonic()

    def renewed(self, at: float) -> None:
        """The Lease was renewed by a request that was *begun* at monotonic time `at`."""
        self._renewed = at

    def shut(self) -> None:
        """Let nothing through any more."""
        self._shut = True


class Heartbeat(Protocol):
    """Tells the thread that renews the Lease whether the process still makes progress."""

    def age(self) -> float:
        """Seconds since the event loop last ran a timer."""
        ...

    def where(self) -> str:
        """What the event loop executes at this moment, for a log line."""
        ...


class SteadyHeartbeat:
    """Always fresh: for an elector that runs on the event loop that it would watch."""

    __slots__ = ()

    def age(self) -> float:
        """Always 0."""
        return 0.0

    def where(self) -> str:
        """Nothing to tell."""
        return ""
