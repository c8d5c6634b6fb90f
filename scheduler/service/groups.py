"""Groups: what tries the groups of pods, as the scheduling loop knows it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from scheduler.api.pod import Pod
from scheduler.engine import Attempt
from scheduler.engine.group_result import GroupResult
from scheduler.framework import QueuedPodInfo, TimedWork
from scheduler.framework.grouping import GroupToSchedule

Pause = Callable[[], Awaitable[bool]]
"""Suspends long work once per time slice; returns whether it did."""


class Groups(Protocol):
    """Decides about groups, and carries it out; `scheduler.groups.running` implements it."""

    @property
    def timed(self) -> Sequence[TimedWork]:
        """Work of groups that wait."""

    def group_of(self, info: QueuedPodInfo) -> GroupToSchedule | None:
        """Return the group with which a popped pod must be tried; None for a single pod."""

    async def decide(
        self, info: QueuedPodInfo, group: GroupToSchedule, pause: Pause | None = None
    ) -> GroupResult:
        """Run the cycle of the group of a popped pod; `pause` may suspend it."""

    async def settle(
        self,
        info: QueuedPodInfo,
        group: GroupToSchedule,
        result: GroupResult,
        pause: Pause | None = None,
    ) -> Sequence[Attempt]:
        """Handle the result; return the attempts whose binding cycles are next."""

    def follow(self, attempt: Attempt) -> None:
        """Let a single pod of a group be bound after the members that are being bound."""

    def pods_evicted(self, info: QueuedPodInfo, victims: Sequence[Pod]) -> None:
        """Note that a pod's attempt evicts others."""


MakeGroups = Callable[
    [
        Callable[[QueuedPodInfo], Awaitable[Attempt | None]],
        Callable[[Attempt], Attempt | None],
    ],
    Groups,
]
"""Makes them of what attempts a single pod (None: it needs no scheduling), and what handles an
ended attempt (None: it failed)."""
