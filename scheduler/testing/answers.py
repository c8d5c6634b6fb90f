"""The answers of one plugin about one pod, over all nodes: what two moments are compared by."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import Any

from scheduler.api.pod import Pod
from scheduler.framework import CycleState, NodeTableView, PreFilterResult, Status
from scheduler.framework import extension_points as points
from scheduler.framework.results import ResultError, rows_result, score_result, status_result


@dataclass(frozen=True, slots=True)
class Answers:
    """The statuses of a plugin at each point that it implements; None is Success."""

    gate: Status | None = None
    whole: Status | None = None
    """A rejection of the pod by PreFilter."""
    nodes: dict[str, Status | None] = field(default_factory=dict)
    """By node; empty where `whole` rejects."""
    scores: tuple[int, ...] = ()
    """Raw scores in the order of `nodes`."""

    @property
    def accepted(self) -> frozenset[str]:
        """The nodes that the plugin accepts."""
        return frozenset(name for name, status in self.nodes.items() if passes(status))

    def __str__(self) -> str:
        """Return everything that a comparison is about, statuses by code and message."""
        nodes = {name: shown(status) for name, status in self.nodes.items()}
        return f"gate {shown(self.gate)}, pre_filter {shown(self.whole)}, {nodes}, {self.scores}"


def passes(status: Status | None) -> bool:
    """Whether a status is Success."""
    return status is None or status.success


def shown(status: Status | None) -> str:
    """Return code and message of a status."""
    if status is None or status.success:
        return "Success"
    return f"{status.code.label}: {status.message}"


def is_async(plugin: Any, method: str) -> bool:
    """Whether the plugin has the method as a coroutine function."""
    return inspect.iscoroutinefunction(getattr(plugin, method, None))


def answers(plugin: Any, table: NodeTableView, pod: Pod, now: float) -> Answers:
    """Call the plugin for a pod as an attempt would. PreFilter must not be async."""
    gate = None
    if points.PRE_ENQUEUE.implemented_by(plugin):
        gate = status_result("pre_enqueue", plugin.pre_enqueue(pod))
    state, result = CycleState(now), None
    if points.PRE_FILTER.implemented_by(plugin):
        result = plugin.pre_filter(state, pod, table)
        if not isinstance(result, PreFilterResult):
            result = status_result("pre_filter", result)
    if isinstance(result, Status) and not result.success and not result.skip:
        return Answers(gate, result)
    if isinstance(result, Status) and result.skip:
        nodes: dict[str, Status | None] = dict.fromkeys(_names(table))
    else:
        nodes = statuses(plugin, state, pod, table)
    if isinstance(result, PreFilterResult):
        nodes = {name: status for name, status in nodes.items() if name in result.node_names}
    return Answers(gate, None, nodes, _scores(plugin, state, pod, table))


def statuses(
    plugin: Any, state: CycleState, pod: Pod, table: NodeTableView
) -> dict[str, Status | None]:
    """Return what Filter says about every node, by the scalar form if there is one."""
    if callable(getattr(plugin, "filter", None)):
        return {
            table.names[row]: status_result(
                "filter", plugin.filter(state, pod, table.node_info(row))
            )
            for row in table.rows.tolist()
        }
    if not callable(getattr(plugin, "filter_rows", None)):
        return dict.fromkeys(_names(table))
    codes = plugin.filter_rows(state, pod, table, table.rows)
    numbers = rows_result("filter_rows", codes, len(table.rows), "codes").tolist()
    return {
        name: status_result("filter_status", plugin.filter_status(state, pod, code))
        if code
        else None
        for name, code in zip(_names(table), numbers, strict=True)
    }


def _names(table: NodeTableView) -> list[str]:
    return [table.names[row] for row in table.rows.tolist()]


def _scores(plugin: Any, state: CycleState, pod: Pod, table: NodeTableView) -> tuple[int, ...]:
    if not points.SCORE.implemented_by(plugin):
        return ()
    if points.PRE_SCORE.implemented_by(plugin):
        result = plugin.pre_score(state, pod, table, table.rows)
        if not passes(result):
            return ()
    if callable(getattr(plugin, "score_rows", None)):
        scores = plugin.score_rows(state, pod, table, table.rows)
        return tuple(rows_result("score_rows", scores, len(table.rows), "scores").tolist())
    return tuple(_score(plugin, state, pod, table, row) for row in table.rows.tolist())


def _score(plugin: Any, state: CycleState, pod: Pod, table: NodeTableView, row: int) -> int:
    score = score_result(plugin.score(state, pod, table.node_info(row)))
    if isinstance(score, Status):
        raise ResultError(f"score returned {shown(score)}")
    return score
