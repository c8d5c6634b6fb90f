"""Details of rejections for people: the numbers behind a reason (`ExplainingPlugin`).

They are computed on demand: by `kubestow explain`, and after an attempt was rejected. A plugin gets
the nodes that it rejected, and can find out which of them pass every other filter.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from scheduler.api.pod import Pod
from scheduler.cache import NodeTable
from scheduler.engine.columnar_calls import FILTER_ROWS, call_rows
from scheduler.engine.cycle_time import no_stopwatch
from scheduler.engine.errors import AttemptError
from scheduler.engine.plugin_calls import call_filter
from scheduler.engine.runtime import Framework
from scheduler.framework import CycleState, RejectedNodes, Rows, Status

MAX_LENGTH: Final = 300
"""Maximum characters of a detail; longer texts are truncated."""
MAX_SCALAR_NODES: Final = 100
"""Maximum number of nodes on which scalar filters run for a detail."""


class RejectionDetails:
    """Calls `explain_rejection` of the plugins of one profile."""

    def __init__(self, framework: Framework, table: NodeTable) -> None:
        self._framework = framework
        self._table = table
        self._slots = framework.filter_slots
        self._explaining = {
            plugin.name: plugin
            for plugin in framework.plugins.values()
            if callable(getattr(plugin, "explain_rejection", None))
        }

    def of(self, state: CycleState, pod: Pod, status: Status, rows: Rows) -> str:
        """Return the detail of a rejection of `rows`, possibly empty. Never raises.

        `state` is the state of a cycle after PreFilter.
        """
        plugin: Any = self._explaining.get(status.plugin)
        if plugin is None:
            return ""
        rejected = RejectedNodes(
            status, rows, lambda: self._otherwise_fit(state, pod, plugin, rows)
        )
        try:
            text = str(plugin.explain_rejection(state, pod, self._table, rejected))
        except Exception as error:  # noqa: BLE001 - boundary: a detail never fails an attempt
            text = f"no detail: {error!r}"
        return text if len(text) <= MAX_LENGTH else f"{text[: MAX_LENGTH - 4]} ..."

    def _otherwise_fit(self, state: CycleState, pod: Pod, plugin: Any, rows: Rows) -> Rows:
        """Return those of `rows`, rejected by `plugin`, that pass all other filters."""
        table, stopwatch, left = self._table, no_stopwatch(), rows
        try:
            for slot in self._slots:
                if slot.plugin is plugin or slot.name in state.skip_filter or not len(left):
                    continue
                if slot.columnar:
                    codes = call_rows(FILTER_ROWS, slot.plugin, state, pod, table, left, stopwatch)
                    left = left[codes == 0]
                    continue
                left = np.array(
                    [
                        row
                        for row in left[:MAX_SCALAR_NODES].tolist()
                        if call_filter(slot.plugin, state, pod, table.node_info(row)) is None
                    ],
                    dtype=np.intp,
                )
        except AttemptError:
            return rows[:0]
        return left
