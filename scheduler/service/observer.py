"""Observer: the protocol through which the scheduler reports what it applies and decides.

Nothing depends on an observer: no report raises or waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol

from scheduler.client.deltas import Delta
from scheduler.engine import Attempt, Failure
from scheduler.engine.group_result import GroupResult
from scheduler.framework import QueuedPodInfo
from scheduler.framework.grouping import GroupToSchedule

RELIST: Final = "relist"
LEADER: Final = "leader"
RELOAD: Final = "reload"


class Decisions(Protocol):
    """Remembers what was decided about each pod; `scheduler.history` implements it."""

    def record(self, attempt: Attempt) -> None:
        """Record an attempt right after its scheduling cycle, before anything else has changed."""

    def failed(self, attempt: Attempt, failure: Failure) -> None:
        """Record that an attempt with a node failed."""

    def dropped(self, info: QueuedPodInfo) -> None:
        """Record that an attempt was given up because its pod has changed."""

    def bound(self, attempt: Attempt, now: float) -> int | None:
        """Record the binding; return the score of the node, if it is known."""


class Observer(Protocol):
    """Receives the reports of event handlers, scheduling loop, groups and binding cycles."""

    def end(self, reason: str) -> None:
        """Note that reports are no longer complete: `RELIST`, `LEADER` or `RELOAD`."""

    def deltas(self, plural: str, batch: Sequence[Delta[Any]]) -> None:
        """Note changes of objects, before they are applied."""

    def due(self) -> None:
        """Note that work of the queue or of plugins is due by the clock, if any is."""

    def attempt_begins(self, info: QueuedPodInfo) -> None:
        """Note the inputs of an attempt."""

    def attempt_ended(self, attempt: Attempt) -> None:
        """Note the outcome of the attempt that began last."""

    def group_begins(
        self,
        info: QueuedPodInfo,
        group: GroupToSchedule,
        infos: Sequence[QueuedPodInfo],
        *,
        may_preempt: bool,
    ) -> None:
        """Note the inputs of a group's cycle; `info` is the member that was popped."""

    def cycle_paused(self) -> AbstractContextManager[None]:
        """Return the context of a pause of a cycle, in which others draw random numbers."""

    def group_ended(self, result: GroupResult, infos: Sequence[QueuedPodInfo]) -> None:
        """Note the outcome of the cycle that began last, of these members."""

    def binding(self, attempt: Attempt, step: str, failure: Failure | None = None) -> None:
        """Note a step of a binding cycle: `permitted`, `done`, `bound` or `failed`."""


class ObserverSlot:
    """The observer of the recording that runs, if one does; all parts that report share this."""

    __slots__ = ("observer",)

    def __init__(self) -> None:
        self.observer: Observer | None = None

    def attach(self, observer: Observer | None) -> None:
        """Hand all reports from now on to an observer, or to none."""
        self.observer = observer
