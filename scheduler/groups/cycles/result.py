"""GroupResult: the result of a group cycle for the scheduling loop."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.engine.failure import Failure
from scheduler.engine.schedule_one import Attempt
from scheduler.engine.template_capacity import GroupBound
from scheduler.framework import QueuedPodInfo
from scheduler.framework.grouping import GroupOutcome
from scheduler.groups.cycles.preemption import EvictionPlan


@dataclass(slots=True)
class GroupResult:
    """The decision about a group."""

    outcome: GroupOutcome
    #: Attempts with a node; empty if the group failed.
    placed: list[Attempt]
    #: Failed attempts; in a scheduled group these are members beyond the minimum.
    failed: list[Attempt]
    #: Members that were not tried.
    untried: list[QueuedPodInfo]
    #: The failure of untried members.
    untried_failure: Failure | None = None
    #: If the group failed: it cannot fit before this bound has risen. None: it waits for events of
    #: the plugins that rejected members.
    bound: GroupBound | None = None
    #: Evictions after which the failed group fits.
    plan: EvictionPlan | None = None
