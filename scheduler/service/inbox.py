"""Inbox: changes of the scheduler's state that are deferred while a scheduling cycle is suspended.

Invariant: changes are applied in the order of submission, each exactly once: immediately while no
cycle is suspended, else when it resumes, before its outcome is handled. The cycle therefore sees a
consistent state, and the queue records the events for the pod in flight.

Every change of cache, queue, nominations, waiting pods and of the stores that listers read is
deferred; reflectors go on reading. The timeouts of extenders and plugins limit the number of
deferred changes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TypeVarTuple

import structlog

_log = structlog.get_logger(__name__)

Ts = TypeVarTuple("Ts")
Change = Callable[[], object]


class Inbox:
    """Defers changes of state. Used from one event loop; one cycle is suspended at a time."""

    def __init__(self) -> None:
        self._waiting: deque[Change] = deque()
        #: Whether changes are deferred; only `suspend` and `resume` change it.
        self.suspended = False
        self._deferred = 0

    def suspend(self) -> None:
        """Defer changes from now on, at the start of a cycle that may be suspended."""
        assert not self.suspended, "one cycle at a time"
        self.suspended = True

    def resume(self) -> None:
        """Apply deferred changes in order, including those that they submit; stop deferring."""
        while self._waiting:
            self._apply_next()
        self.suspended = False

    def apply(self, monotonic: Callable[[], float], seconds: float) -> bool:
        """Apply deferred changes for `seconds`, still deferring; return whether any remain."""
        end = monotonic() + seconds
        while self._waiting:
            self._apply_next()
            if monotonic() >= end:
                break
        return bool(self._waiting)

    def _apply_next(self) -> None:
        change = self._waiting.popleft()
        try:
            change()
        except Exception:  # noqa: BLE001 - the boundary between one change and the next
            # Its submitter can no longer handle the error, and the other changes must be applied.
            _log.exception("a change that waited for a scheduling cycle failed")

    def submit(self, change: Callable[[*Ts], object], *arguments: *Ts) -> None:
        """Call `change` with these arguments now, or when the cycle ends."""
        if self.suspended:
            self._deferred += 1
            self._waiting.append(partial(change, *arguments))
        else:
            change(*arguments)

    def statistics(self) -> dict[str, int]:
        """Return the number of changes deferred at present, and in total."""
        return {"waiting": len(self._waiting), "deferred": self._deferred}
