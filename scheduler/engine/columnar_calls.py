"""Calls of plugin methods that evaluate many rows at once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from scheduler.api.pod import Pod
from scheduler.engine.cycle_time import Stopwatch
from scheduler.engine.errors import AttemptError
from scheduler.engine.plugin_calls import FAULTS, FILTER, SCORE, PluginMethod
from scheduler.engine.row_columns import FEW_ROWS
from scheduler.framework import CycleState, NodeAmounts, Rows
from scheduler.framework.results import rows_result


@dataclass(frozen=True, slots=True)
class ColumnarMethod(PluginMethod):
    """A method that returns one number for each of many rows."""

    #: Label of the extension point in metrics.
    point: str = ""
    #: Word for the numbers in error messages.
    results: str = ""


FILTER_ROWS: Final = ColumnarMethod("filter_rows", FILTER.text, point="Filter", results="codes")
SCORE_ROWS: Final = ColumnarMethod(
    "score_rows", SCORE.text, attributed=False, point="Score", results="scores"
)


def call_rows(
    method: ColumnarMethod,
    plugin: Any,
    state: CycleState,
    pod: Pod,
    table: NodeAmounts,
    rows: Rows,
    stopwatch: Stopwatch,
) -> np.ndarray:
    """Call a columnar method, check the cycle's budget, record metrics; return a number per row.

    Raises AttemptError, also if the result is not an array with one integer per row.
    """
    count = len(rows)
    if count > FEW_ROWS and stopwatch.cycle.deadline != math.inf:
        # Checked before the call, so that the previous plugin's result is not lost.
        stopwatch.cycle.check()
    started = stopwatch.monotonic() if state.record_plugin_metrics else None
    try:
        result = getattr(plugin, method.name)(state, pod, table, rows)
        numbers = rows_result(method.name, result, count, method.results)
    except AttemptError:
        raise
    except FAULTS as error:
        raise method.failed(plugin.name, error, error) from error
    if stopwatch.metrics is not None:
        stopwatch.rows(plugin.name, method.point, count, started)
    return numbers
