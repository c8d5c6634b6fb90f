"""BindingSlots: a count of the binding cycles past Permit that have work to do."""

from __future__ import annotations

import asyncio


class BindingSlots:
    """The slots, one for each such cycle. Used from one event loop only.

    The scheduling loop pauses while all slots are taken, so that it does not assume the whole
    backlog if the API server stops responding. A pod that waits at Permit, or for its volumes,
    holds no slot, so that a gang of any size can complete.
    """

    def __init__(self, limit: int, wake: asyncio.Event) -> None:
        """Create `limit` slots; `wake` is set when a slot becomes free."""
        self._limit = limit
        self._wake = wake
        self.taken = 0
        #: Set while no slot is taken.
        self.idle = asyncio.Event()
        self.idle.set()

    @property
    def full(self) -> bool:
        """Whether all slots are taken."""
        return self.taken >= self._limit

    def take(self) -> None:
        """Take a slot, even above the limit, since a cycle that has waited must continue."""
        self.taken += 1
        self.idle.clear()

    def release(self) -> None:
        """Give a slot back."""
        self.taken -= 1
        if self.taken == self._limit - 1:
            self._wake.set()
        if not self.taken:
            self.idle.set()
