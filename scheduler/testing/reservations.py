"""Reserve and Unreserve, judged by symmetry: what is reserved and undone leaves nothing behind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from scheduler.api.pod import Pod
from scheduler.framework import CycleState, NodeTableView, Status
from scheduler.framework import extension_points as points
from scheduler.testing.answers import answers, is_async, passes, shown, statuses

REPEATS: Final = 30
"""Reservations in a row, each undone: a leak of one of a few becomes a rejection."""


def reservation_problems(
    plugin: Any, table: NodeTableView, pods: Sequence[Pod], now: float
) -> Iterator[str]:
    """Reserve and undo for each pod many times; yield what is different afterwards."""
    if not points.RESERVE.implemented_by(plugin) or is_async(plugin, "pre_filter"):
        return
    for pod in pods:
        before = str(answers(plugin, table, pod, now))
        first: str | None = None
        for count in range(REPEATS):
            status = _reserve_and_undo(plugin, table, pod, now)
            if first is None:
                first = shown(status)
            elif shown(status) != first:
                yield (
                    f"pod {pod.key}: reserve returned {first} at first, and {shown(status)} after "
                    f"{count} reservations that unreserve had undone"
                )
                break
        after = str(answers(plugin, table, pod, now))
        if after != before:
            yield (
                f"pod {pod.key}: reserve and unreserve left something behind: the plugin answers "
                f"{after} now, and {before} before"
            )


def _reserve_and_undo(plugin: Any, table: NodeTableView, pod: Pod, now: float) -> Status | None:
    state = CycleState(now)
    result = (
        plugin.pre_filter(state, pod, table) if points.PRE_FILTER.implemented_by(plugin) else None
    )
    if isinstance(result, Status) and result.skip:
        fitting = [table.names[row] for row in table.rows.tolist()]
    elif isinstance(result, Status) and not result.success:
        return None
    else:
        found = statuses(plugin, state, pod, table)
        fitting = [name for name, status in found.items() if passes(status)]
    if not fitting:
        return None
    status: Status | None = plugin.reserve(state, pod, fitting[0])
    plugin.unreserve(state, pod, fitting[0])
    return status
