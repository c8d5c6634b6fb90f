"""The plugins that `benchmarks.plugins` measures, in a module that other processes can import."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from scheduler.framework import Columns, ReuseRule

timer: Callable[[], float] = time.perf_counter
"""Measures the methods of a plugin."""


class MeasuredPlugin:
    """Filter and Score by the CPU of nodes; `spent` are the seconds in its methods."""

    name = "example.com/Benchmark"
    spent = 0.0
    calls = 0

    def __init__(self, args: object, handle: object) -> None: ...


class Columnar(MeasuredPlugin):
    """In NumPy, over all nodes in each cycle."""

    filter_reuse: ReuseRule | None = None
    score_reuse: ReuseRule | None = None

    def filter_rows(self, state: Any, pod: Any, table: Any, rows: Any) -> Any:
        """Reject small nodes."""
        began = timer()
        codes = (table.allocatable[0][rows] < 1000).astype(np.int32)
        type(self).spent += timer() - began
        return codes

    def filter_status(self, state: Any, pod: Any, code: int) -> None:
        """Return nothing: no node is rejected."""

    def score_rows(self, state: Any, pod: Any, table: Any, rows: Any) -> Any:
        """Prefer large nodes."""
        began = timer()
        scores = np.minimum(table.allocatable[0][rows] // 1000, 100)
        type(self).spent += timer() - began
        return scores

    def filter(self, state: Any, pod: Any, node: Any) -> None:
        """Let the pod pass."""

    def score(self, state: Any, pod: Any, node: Any) -> int:
        """Return the same for all nodes."""
        return 0


class Changing(Columnar):
    """In NumPy; the score of every node differs from that for the last pod."""

    _parity = 0

    def score_rows(self, state: Any, pod: Any, table: Any, rows: Any) -> Any:
        """Prefer other nodes each time."""
        began = timer()
        self._parity = 1 - self._parity
        scores = (rows + self._parity) & 31
        type(self).spent += timer() - began
        return scores


class Reusing(Columnar):
    """In NumPy, with reuse rules: only the node on which the last pod was placed."""

    filter_reuse = ReuseRule(Columns.USAGE)
    score_reuse = ReuseRule(Columns.USAGE)


class Scalar(MeasuredPlugin):
    """Node by node."""

    def filter(self, state: Any, pod: Any, node: Any) -> None:
        """Let the pod pass."""
        type(self).calls += 1

    def score(self, state: Any, pod: Any, node: Any) -> int:
        """Return the same for all nodes."""
        type(self).calls += 1
        return 50
