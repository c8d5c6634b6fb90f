"""Deadlines: timed work for groups, for all parts of the plugin."""

from __future__ import annotations

from collections.abc import Callable

from scheduler.framework import Clock, Subscriptions
from scheduler.groups import GroupKey

Work = Callable[[GroupKey], None]


class Deadlines:
    """Implements `framework.TimedWork`."""

    def __init__(self, clock: Clock, subscriptions: Subscriptions) -> None:
        self._wake = subscriptions.on_time(self)
        self._clock = clock
        #: Monotonic time of each work of a group.
        self._due: dict[GroupKey, dict[Work, float]] = {}
        self._next_due: float | None = None

    def plan(self, work: Work, key: GroupKey, seconds: float) -> None:
        """Call `work` for a group after `seconds`, unless an earlier call is already planned."""
        due = self._clock.monotonic() + seconds
        planned = self._due.setdefault(key, {})
        if due >= planned.get(work, float("inf")):
            return
        planned[work] = due
        if self._next_due is None or due < self._next_due:
            self._next_due = due
            self._wake()

    def cancel(self, work: Work, key: GroupKey) -> None:
        """Cancel the planned call of `work` for a group."""
        self._due.get(key, {}).pop(work, None)

    def forget(self, key: GroupKey) -> None:
        """Cancel all calls for a deleted group."""
        self._due.pop(key, None)

    def next_due(self) -> float | None:
        """Return the earliest deadline."""
        return self._next_due

    def run_due(self) -> None:
        """Do all work that is due."""
        now = self._clock.monotonic()
        due = [
            (key, work)
            for key, planned in self._due.items()
            for work, time in planned.items()
            if time <= now
        ]
        for key, work in due:
            self.cancel(work, key)
        for key, work in due:
            work(key)
        self._due = {key: planned for key, planned in self._due.items() if planned}
        times = (time for planned in self._due.values() for time in planned.values())
        self._next_due = min(times, default=None)
