"""Callbacks by which the queue wakes the scheduling loop.

The loop calls `pop` and `next_wakeup`, and sleeps if there is nothing to do. It must be woken as
soon as their results are outdated. Invariant: no callback is missed, and there is at most one for
each result.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from scheduler.api.signal import Signal
from scheduler.framework.queued import QueuedPodInfo
from scheduler.framework.status import Status


@dataclass(slots=True, eq=False)
class Signals:
    """The callbacks, and when to call them."""

    #: Called once after `pop` returned None, as soon as `pop` would return a pod.
    on_ready: Signal[[]] = field(default_factory=Signal)
    #: Called when the result of `next_wakeup` has become earlier than it was: call it again.
    on_timer: Signal[[]] = field(default_factory=Signal)
    #: Called at every event after which there may be more room, whether or not a plugin registered
    #: it.
    on_room: Signal[[]] = field(default_factory=Signal)
    #: Called with a pod's record and the rejection, which names its plugin, whenever a PreEnqueue
    #: plugin gates the pod, or gates it again, so that a pod condition can be written. Listeners
    #: must not call the queue.
    on_gated: Signal[[QueuedPodInfo, Status]] = field(default_factory=Signal)
    #: Whether the last `pop` returned None and `on_ready` has not been called since.
    waiting_for_pod: bool = True
    _armed: float | None = field(default=None, init=False)

    def ready(self) -> None:
        """Report that `pop` would return a pod."""
        if self.waiting_for_pod:
            self.waiting_for_pod = False
            self.on_ready()

    def armed(self, wakeup: float | None) -> None:
        """Record the time until which the loop sleeps; None: until the next callback."""
        self._armed = wakeup

    def due(self, time: float) -> None:
        """Report that there will be work at `time`."""
        if self._armed is None or time < self._armed:
            self._armed = time
            self.on_timer()

    def clock_rewound(self) -> None:
        """Report that all times were shifted, including the time until which the loop sleeps."""
        self._armed = None
        self.on_timer()
