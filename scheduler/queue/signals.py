"""How the queue tells the scheduling loop that there is something to do.

The loop asks (`pop`, `next_wakeup`) and sleeps when there is nothing; it must be woken exactly when
the answers it was given stop being true. Invariant: no call is missing, and there is at most one
for each answer given.
"""

from __future__ import annotations

from collections.abc import Callable

from scheduler.framework.queued import QueuedPodInfo
from scheduler.framework.status import Status

GateListener = Callable[[QueuedPodInfo, Status], None]
"""`listener(info, status)`; the status names its plugin."""


class Signals:
    """The callbacks, and when to call them."""

    __slots__ = ("_armed", "on_gated", "on_ready", "on_timer", "waiting_for_pod")

    def __init__(self) -> None:
        #: Called once after `pop` returned None, as soon as it would return a pod.
        self.on_ready: Callable[[], None] | None = None
        #: Called when the next wake-up moved to an earlier time than was answered last.
        self.on_timer: Callable[[], None] | None = None
        #: Called with a pod's record and the refusal whenever a PreEnqueue plugin holds a pod, or
        #: holds it again: for conditions that a gate wants written. Must not call the queue.
        self.on_gated: GateListener | None = None
        #: The last answer was that there is no pod to schedule, and no call was made since.
        self.waiting_for_pod = True
        self._armed: float | None = None

    def ready(self) -> None:
        """There is a pod to schedule."""
        if self.waiting_for_pod:
            self.waiting_for_pod = False
            if self.on_ready:
                self.on_ready()

    def armed(self, wakeup: float | None) -> None:
        """The loop was told to sleep until then; None for as long as it likes."""
        self._armed = wakeup

    def due(self, time: float) -> None:
        """There will be work at `time`."""
        if self._armed is None or time < self._armed:
            self._armed = time
            if self.on_timer:
                self.on_timer()

    def clock_rewound(self) -> None:
        """All times have moved: what was answered means nothing any more."""
        self._armed = None
        if self.on_timer:
            self.on_timer()
