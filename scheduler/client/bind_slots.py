"""How many binds are under way at once: few while the API server is quick, more when it is far.

More requests than keep the server busy only cost: each needs a connection of its own, whose TLS
handshake takes both sides longer than ten binds, and each waits for the others at the server. What
keeps it busy is rate times latency. The latency that counts is that of the *quickest* of the last
binds: it shows the way there and back, while the mean also holds the queue that we make ourselves
and would grow with every slot.
"""

from __future__ import annotations

from collections import deque
from typing import Final

FEWEST: Final = 32
"""Enough for any server that can answer within 32 ms. Measured with everything on two cores:
against 100, a tenth less CPU here and a sixth less in the API server; 12 left the server idle."""

BINDS_A_SECOND: Final = 1000.0
"""The rate that there shall be slots for; above what an API server takes."""

WINDOW: Final = 32
"""Binds after which the number is reconsidered."""

WINDOWS: Final = 4
"""How many windows the quickest bind is taken from."""


class BindSlots:
    """The limit for binds in flight, between `FEWEST` and what the user allows."""

    __slots__ = ("_count", "_quickest", "_recent", "limit", "most")

    def __init__(self, most: int) -> None:
        self.most: Final = most
        #: Binds that may be under way now.
        self.limit = min(FEWEST, most)
        self._recent: deque[float] = deque(maxlen=WINDOWS)
        self._quickest = float("inf")
        self._count = 0

    def answered(self, seconds: float) -> None:
        """A bind was answered after `seconds`."""
        self._quickest = min(self._quickest, seconds)
        self._count += 1
        if self._count < WINDOW:
            return
        self._recent.append(self._quickest)
        self._quickest = float("inf")
        self._count = 0
        wanted = int(min(self._recent) * BINDS_A_SECOND)
        self.limit = min(max(wanted, FEWEST), self.most)
