"""The time of a plugin for one node, scalar and columnar, as a measurement for people.

The best of several passes: other work of the machine only adds to them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from scheduler.api.pod import Pod
from scheduler.framework import CycleState, NodeTableView
from scheduler.framework import extension_points as points
from scheduler.testing.answers import passes

PASSES: Final = 5


@dataclass(frozen=True, slots=True)
class Speed:
    """The time of one method."""

    method: str
    microseconds: float
    """For one node."""


def speeds(
    plugin: Any,
    table: NodeTableView,
    pod: Pod,
    now: float,
    timer: Callable[[], float] = time.perf_counter,
) -> Iterator[Speed]:
    """Measure `filter`, `filter_rows`, `score` and `score_rows`, those that the plugin has."""
    state = CycleState(now)
    if points.PRE_FILTER.implemented_by(plugin) and not passes(
        plugin.pre_filter(state, pod, table)
    ):
        return
    if points.PRE_SCORE.implemented_by(plugin):
        plugin.pre_score(state, pod, table, table.rows)
    rows = table.rows
    infos = [table.node_info(row) for row in rows.tolist()]
    for method in ("filter", "score", "filter_rows", "score_rows"):
        function = getattr(plugin, method, None)
        if not callable(function):
            continue
        best = float("inf")
        for _ in range(PASSES):
            began = timer()
            if method.endswith("_rows"):
                function(state, pod, table, rows)
            else:
                for info in infos:
                    function(state, pod, info)
            best = min(best, timer() - began)
        yield Speed(method, best / max(1, len(rows)) * 1e6)
