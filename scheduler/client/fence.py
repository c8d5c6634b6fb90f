"""The interface between leadership and writes: nothing is written while the fence is shut.

The Lease is renewed by a thread of its own (`process.lease_thread`), writes are made by the event
loop of the process. Two things pass between them, each a number that one side writes and the other
reads: the fence, from the thread to the loop, and the heartbeat, from the loop to the thread.
"""

from __future__ import annotations

from typing import Protocol

from scheduler.client.clock import Clock


class Fence(Protocol):
    """Checked immediately before each write."""

    def allowed(self) -> bool:
        """Whether this process may write now."""
        ...


class OpenFence:
    """An always open fence, for processes without leader election."""

    __slots__ = ()

    def allowed(self) -> bool:
        """Return True."""
        return True


class LeaderFence:
    """Open only while the last successful renewal is younger than the renew deadline.

    Shut at the start, and for ever after `shut`. The thread that renews the Lease writes it, any
    thread may read it: each field is replaced atomically.
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
        """Return the seconds until the fence shuts unless renewed; zero or less if it is shut."""
        if self._shut or self._renewed is None:
            return 0.0
        return self._renewed + self._renew_deadline - self._clock.monotonic()

    def renewed(self, at: float) -> None:
        """Note a renewal of the Lease by a request *begun* at monotonic time `at`."""
        self._renewed = at

    def shut(self) -> None:
        """Shut the fence for ever."""
        self._shut = True


class Heartbeat(Protocol):
    """Progress of the process, as the thread that renews the Lease sees it."""

    def age(self) -> float:
        """Return the seconds since the event loop last ran a timer."""
        ...

    def where(self) -> str:
        """Return what the event loop executes at this moment, for a log line."""
        ...
