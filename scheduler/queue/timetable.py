"""Times of periodic work on unschedulable pods: the flush of left-over pods, the Time event.

Times are wall clock seconds. A period starts when the work is done, so work that was missed for
several periods is done once.
"""

from __future__ import annotations

from typing import Final

from scheduler.queue.unschedulable_pods import UnschedulablePods

UNSCHEDULABLE_FLUSH_PERIOD: Final = 30.0
"""Seconds between two searches for pods that were unschedulable for too long."""


class Timetable:
    """Two periodic tasks, due only while there are unschedulable pods that they concern."""

    def __init__(
        self, now: float, *, flush: bool, hint_period: float, time_plugins: tuple[str, ...]
    ) -> None:
        self._flush = flush
        self._hint_period = hint_period
        #: The plugins that registered the Time event.
        self.time_plugins = time_plugins
        self._next_flush = now
        self._next_tick = now + hint_period

    def next(self, pods: UnschedulablePods) -> float | None:
        """Return when the first task that concerns any of the pods is due; None when never."""
        flush = self._next_flush if self._flush and pods.flushed else None
        if not self.time_plugins or not pods.has_groups_of(self.time_plugins):
            return flush
        return self._next_tick if flush is None else min(flush, self._next_tick)

    def flush_due(self, now: float) -> bool:
        """Whether to flush now; if so, the next period begins."""
        if not self._flush or now < self._next_flush:
            return False
        self._next_flush = now + UNSCHEDULABLE_FLUSH_PERIOD
        return True

    def tick_due(self, now: float) -> bool:
        """Whether to emit the Time event now; if so, the next period begins."""
        if not self.time_plugins or now < self._next_tick:
            return False
        self._next_tick = now + self._hint_period
        return True

    def shift(self, jump: float) -> None:
        """Move all times by `jump` seconds, after the wall clock was set."""
        self._next_flush += jump
        self._next_tick += jump
