"""GroupResult: what the cycle of a group decided, for those who carry it out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from scheduler.api.pod import Pod
from scheduler.engine.failure import Failure
from scheduler.engine.schedule_one import Attempt
from scheduler.engine.template_capacity import GroupBound
from scheduler.framework import QueuedPodInfo
from scheduler.framework.grouping import GroupOutcome, GroupPreemptionPlugin


@dataclass(frozen=True, slots=True)
class EvictionPlan:
    """Evictions that make room for a group."""

    #: The plugin that evicts the victims.
    plugin: GroupPreemptionPlugin
    #: All victims, including terminating pods; the most important one first.
    victims: tuple[Pod, ...]
    #: The members that fit after the evictions, and their nodes by UID.
    members: tuple[QueuedPodInfo, ...]
    nodes: Mapping[str, str]
    #: Number of violations of disruption budgets, summed over the members.
    violations: int = 0

    @property
    def harm(self) -> tuple[int, int, int]:
        """Budget violations, highest priority and number of victims; the smallest tuple is best."""
        highest = max(each.priority for each in self.victims)
        return self.violations, highest, len(self.victims)


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
