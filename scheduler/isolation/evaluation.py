"""Evaluation of one plugin's PreFilter, Filter and Score for one pod on all nodes.

It runs in the thread or process of an isolated plugin while the scheduling cycle is suspended and
no state changes (docs/decisions/0010-isolated-plugins.md).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from scheduler.api.pod import Pod
from scheduler.engine.plugin_calls import pre_filter_result
from scheduler.framework import (
    Codes,
    CycleState,
    Int64Column,
    PluginError,
    PreFilterResult,
    Rows,
    Status,
)
from scheduler.framework.status import status_or_none


class CycleEndedError(Exception):
    """An abandoned thread read the node table after its call had timed out."""


class PluginTimeoutError(Exception):
    """A call of an isolated plugin did not end in time."""

    #: The label under which it is counted.
    result: str = "timeout"


class CycleTable:
    """The node table as one call in another thread sees it; unreadable once the call has ended.

    State changes again when the cycle continues. An abandoned thread must not read the table then,
    nor build columns of labels in it.
    """

    def __init__(self, table: Any) -> None:
        self._table = table
        self._lock = threading.Lock()
        self._ended = False

    def end(self) -> None:
        """Make every further use raise CycleEndedError. Callable from any thread."""
        with self._lock:
            self._ended = True

    def __getattr__(self, name: str) -> Any:
        """Return a column, or a method that is checked once more when it is called."""
        found = self._checked(getattr, self._table, name)
        return partial(self._checked, found) if callable(found) else found

    def _checked(self, function: Callable[..., Any], *arguments: Any) -> Any:
        with self._lock:
            if self._ended:
                raise CycleEndedError
            return function(*arguments)


@dataclass(slots=True)
class Evaluation:
    """The results of one plugin for one pod."""

    #: The result of PreFilter.
    result: PreFilterResult | Status | None
    #: By row: 0, or a key of `statuses`.
    codes: Codes
    #: By row; 0 for nodes that the plugin's own Filter rejects.
    scores: Int64Column
    statuses: dict[int, Status] = field(default_factory=dict)


def evaluate(plugin: Any, state: CycleState, pod: Pod, table: Any) -> Evaluation:
    """Run the plugin for all nodes of `table`. Raises whatever the plugin raises."""
    result = None
    if callable(getattr(plugin, "pre_filter", None)):
        result = pre_filter_result(plugin.pre_filter(state, pod, table))
    capacity, rows = table.capacity, table.rows
    found = Evaluation(result, np.zeros(capacity, np.int32), np.zeros(capacity, np.int64))
    skipped = isinstance(result, Status) and result.skip
    if isinstance(result, Status) and not (result.success or skipped):
        return found
    if not skipped:
        _filter(found, plugin, state, pod, table, rows)
        rows = rows[found.codes[rows] == 0]
    if callable(getattr(plugin, "score_rows", None)):
        found.scores[rows] = plugin.score_rows(state, pod, table, rows)
    elif callable(getattr(plugin, "score", None)):
        node_info = table.node_info
        found.scores[rows] = [plugin.score(state, pod, node_info(row)) for row in rows.tolist()]
    return found


def _filter(
    found: Evaluation, plugin: Any, state: CycleState, pod: Pod, table: Any, rows: Rows
) -> None:
    if callable(getattr(plugin, "filter_rows", None)):
        found.codes[rows] = plugin.filter_rows(state, pod, table, rows)
        for code in np.unique(found.codes).tolist():
            if code:
                found.statuses[code] = _rejection(plugin.filter_status(state, pod, code))
    elif callable(getattr(plugin, "filter", None)):
        known: dict[Status, int] = {}
        node_info = table.node_info
        for row in rows.tolist():
            status = status_or_none(plugin.filter(state, pod, node_info(row)))
            if status is not None and not status.success:
                found.codes[row] = known.setdefault(_rejection(status), len(known) + 1)
        found.statuses = {code: status for status, code in known.items()}


def _rejection(status: Status | None) -> Status:
    if status is None or not status.rejected:
        raise PluginError("no rejection" if status is None else status.message)
    return status
