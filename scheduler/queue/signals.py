"""Callbacks by which the queue wakes the scheduling loop.

The loop calls `pop` and `next_wakeup`, and sleeps when there is nothing to do. It must be woken as
soon as the results it got are no longer true. Invariant: no callback is missing, and there is at
most one for each result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from scheduler.framework.queued import QueuedPodInfo
from scheduler.framework.status import Status

GateListener = Callable[[QueuedPodInfo, Status], None]
"""`listener(info, status)`; the status names its plugin."""


@dataclass(slots=True, eq=False)
class Signals:
    """The callbacks, and when to call them."""

    #: Called once after `pop` returned None, as soon as `pop` would return a pod.
    on_ready: Callable[[], None] | None = None
    #: Called when the result of `next_wakeup` has become earlier than it was: call it again.
    on_timer: Callable[[], None] | None = None
    #: Called at every event, whether a plugin registered it or not; None while nobody waits for it.
    on_event: Callable[[], None] | None = None
    #: Called with a pod's record and the rejection whenever a PreEnqueue plugin gates the pod, or
    #: gates it again, so that a pod condition can be written. Must not call the queue.
    on_gated: GateListener | None = None
    #: The last `pop` returned None, and `on_ready` was not called since.
    waiting_for_pod: bool = True
    _armed: float | None = field(default=None, init=False)

    def ready(self) -> None:
        """Report that `pop` would return a pod."""
        if self.waiting_for_pod:
            self.waiting_for_pod = False
            if self.on_ready:
                self.on_ready()

    def armed(self, wakeup: float | None) -> None:
        """Note the time until which the loop sleeps; None: until the next callback."""
        self._armed = wakeup

    def due(self, time: float) -> None:
        """Report that there will be work at `time`."""
        if self._armed is None or time < self._armed:
            self._armed = time
            if self.on_timer:
                self.on_timer()

    def clock_rewound(self) -> None:
        """Report that all times have moved, the one the loop sleeps until included."""
        self._armed = None
        if self.on_timer:
            self.on_timer()
