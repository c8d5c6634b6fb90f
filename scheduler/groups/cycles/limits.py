"""Limits of a group as a whole, such as quota: a group beyond them is rejected untried."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import cast

from scheduler.engine import failure
from scheduler.engine.engine import Engine
from scheduler.engine.group_result import GroupResult
from scheduler.framework import QueuedPodInfo, Status
from scheduler.framework.grouping import GroupLimitPlugin, GroupOutcome, GroupToSchedule


def refused_together(
    engine: Engine, group: GroupToSchedule, infos: Sequence[QueuedPodInfo]
) -> Status | None:
    """Return the rejection of the group as a whole by a `GroupLimitPlugin`, or None."""
    if group.alone or len(infos) < group.need:
        return None
    pods = [info.pod for info in infos]
    for plugin in _limiting(engine, infos):
        status = plugin.reject_group(pods, group.need)
        if status is not None:
            return status.by(plugin.name)
    return None


def failed_together(
    engine: Engine, infos: Sequence[QueuedPodInfo], rejectors: AbstractSet[str]
) -> str:
    """Notify each `GroupLimitPlugin` that rejected members that the group has failed.

    `rejectors` are all plugins that rejected members; no member is placed any more. Returns the
    name of the `GroupLimitPlugin` if it is the only rejector, otherwise an empty string.
    """
    pods = [info.pod for info in infos]
    found = [plugin for plugin in _limiting(engine, infos) if plugin.name in rejectors]
    for plugin in found:
        plugin.group_failed(pods)
    return found[0].name if len(found) == len(rejectors) == 1 else ""


def _limiting(engine: Engine, infos: Sequence[QueuedPodInfo]) -> list[GroupLimitPlugin]:
    framework = engine.frameworks[infos[0].pod.spec.scheduler_name]
    found = [each for each in framework.pre_filter if callable(getattr(each, "reject_group", None))]
    return cast("list[GroupLimitPlugin]", found)


def refusal(
    engine: Engine,
    group: GroupToSchedule,
    infos: Sequence[QueuedPodInfo],
    status: Status,
    *,
    take: Callable[[QueuedPodInfo], None],
    seconds: Callable[[], float],
) -> GroupResult:
    """Return the result of a group that `refused_together` rejected.

    `take` marks a member as in flight. No evictions are planned, since they would not help.
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
