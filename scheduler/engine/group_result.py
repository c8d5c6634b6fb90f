"""GroupResult: what a cycle of a group hands to the scheduling loop."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.engine.attempt import Attempt
from scheduler.engine.failure import Failure
from scheduler.engine.group_preemption import EvictionPlan
from scheduler.engine.template_capacity import GroupBound
from scheduler.framework import QueuedPodInfo
from scheduler.framework.grouping import GroupOutcome


@dataclass(slots=True)
class GroupResult:
    """The decision about a group."""

    outcome: GroupOutcome
    #: Attempts that have a node; empty if the group failed.
    placed: list[Attempt]
    #: Attempts that failed; of a scheduled group those of members beyond its minimum.
    failed: list[Attempt]
    #: Members that were not tried.
    untried: list[QueuedPodInfo]
    #: The failure of those that were not tried.
    untried_failure: Failure | None = None
    #: Set if the group failed and cannot fit before this bound has risen; None: it waits for the
    #: events of the plugins that rejected members.
    bound: GroupBound | None = None
    #: Evictions after which the failed group fits.
    plan: EvictionPlan | None = None
