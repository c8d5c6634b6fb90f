"""Inbox: where changes of the scheduler's state wait while a scheduling cycle is suspended.

Invariant: changes are applied in the order in which they were submitted, each exactly once: at
once while no cycle is suspended, else when it resumes, before its outcome is handled. The cycle
therefore sees one world, and the queue records what happened meanwhile for the pod in flight.

Reflectors go on decoding and their stores, which listers read, stay up to date; what waits is
everything that touches cache, queue, nominations and waiting pods. It is bounded by the time-outs
of what a cycle waits for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeVar

import structlog

_log = structlog.get_logger(__name__)

T = TypeVar("T")
Change = Callable[[], object]


class Inbox:
    """Touched from one event loop. One cycle is suspended at a time."""

    def __init__(self) -> None:
        self._waiting: deque[Change] = deque()
        self._suspended = False
        self._deferred = 0

    @property
    def suspended(self) -> bool:
        """Whether changes wait."""
        return self._suspended

    def suspend(self) -> None:
        """A cycle begins that may be suspended."""
        assert not self._suspended, "one cycle at a time"
        self._suspended = True

    def resume(self) -> None:
        """The cycle is over: apply what waits, in order, and what that submits."""
        while self._waiting:
            self._apply_next()
        self._suspended = False

    def apply(self, monotonic: Callable[[], float], seconds: float) -> bool:
        """Apply what waits, in order, for so long; whether something is left. Resumes nothing."""
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
            # Whoever submitted it has gone on; the others must not be lost with it.
            _log.exception("a change that waited for a scheduling cycle failed")

    def submit(self, change: Change) -> None:
        """Apply `change` now, or when the cycle is over."""
        if self._suspended:
            self._deferred += 1
            self._waiting.append(change)
        else:
            change()

    def through(self, handler: Callable[[T], None]) -> Callable[[T], None]:
        """`handler`, but its calls wait while a cycle is suspended."""

        def deliver(what: T) -> None:
            if self._suspended:
                self._deferred += 1
                self._waiting.append(lambda: handler(what))
            else:
                handler(what)

        return deliver

    def statistics(self) -> dict[str, int]:
        """Changes that wait now, and that ever waited."""
        return {"waiting": len(self._waiting), "deferred": self._deferred}
