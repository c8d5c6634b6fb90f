"""Limits of a group as a whole, such as quota: a group beyond them is refused untried."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from scheduler.engine import failure
from scheduler.engine.engine import Engine
from scheduler.engine.group_result import GroupResult
from scheduler.framework import QueuedPodInfo, Status
from scheduler.framework.grouping import GroupOutcome, GroupToSchedule


def refused_together(
    engine: Engine, group: GroupToSchedule, infos: Sequence[QueuedPodInfo]
) -> Status | None:
    """Return the rejection of a plugin that limits what the members take together."""
    if group.alone or len(infos) < group.need:
        return None
    pods = [info.pod for info in infos]
    for plugin in engine.frameworks[pods[0].spec.scheduler_name].pre_filter:
        reject_group = getattr(plugin, "reject_group", None)
        status: Status | None = None if reject_group is None else reject_group(pods, group.need)
        if status is not None:
            return status.by(plugin.name)
    return None


def refusal(
    engine: Engine,
    group: GroupToSchedule,
    infos: Sequence[QueuedPodInfo],
    status: Status,
    *,
    take: Callable[[QueuedPodInfo], None],
    seconds: Callable[[], float],
) -> GroupResult:
    """Return the result for a group that was refused; `take` puts a member in flight.

    No eviction is planned, since none would help.
    """
    message = f"needs {group.minimum} pods; {status.message}"
    why = failure.refused_together(status, f"{group.name}: {message}", group.plugin)
    failed = []
    for info in infos:
        take(info)
        failed.append(engine.untried(info, why))
    outcome = GroupOutcome(
        scheduled=False,
        message=message,
        fit=0,
        failed=len(infos),
        seconds=seconds(),
        refused_by=status.plugin,
    )
    return GroupResult(outcome, [], failed, [])
