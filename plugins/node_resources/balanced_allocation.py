"""NodeResourcesBalancedAllocation: prefers nodes whose resource usage the pod balances.

Upstream: `balanced_allocation.go`. The score compares the balance with and without the pod: 75
means no change. Arithmetic is float64 in upstream's order of operations, because the last bit can
decide a truncation; `np.std` adds in another order.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import sqrt
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plugins.arguments import require_valid
from plugins.node_resources.amounts import (
    MAX_SCORED,
    KeptShares,
    Share,
    amount_of,
    amounts_at,
    amounts_in,
)
from plugins.node_resources.arguments import (
    NodeResourcesBalancedAllocationArgs,
    balanced_problems,
)
from plugins.row_selection import FEW, no_scores, selector
from scheduler.api.pod import Pod
from scheduler.framework import (
    MAX_NODE_SCORE,
    SKIP,
    Columns,
    CycleState,
    Handle,
    Int64Column,
    NodeAmounts,
    NodeInfo,
    NodeTableView,
    ReuseRule,
    Rows,
    Status,
    plugin_names,
)

_HALF = MAX_NODE_SCORE // 2

FloatColumns = NDArray[np.float64]
"""(2, nodes): with the pod and without it."""


class _Usage(NamedTuple):
    """One resource of many nodes."""

    used: Int64Column
    added: int
    allocatable: Int64Column


class NodeResourcesBalancedAllocation:
    """Scores the change of balance. Pods that request none of the resources are not scored."""

    name: ClassVar[str] = plugin_names.NODE_RESOURCES_BALANCED_ALLOCATION
    args_type: ClassVar[type[NodeResourcesBalancedAllocationArgs]] = (
        NodeResourcesBalancedAllocationArgs
    )
    validate_args = staticmethod(balanced_problems)
    pre_score_reusable: ClassVar[bool] = True
    score_reuse: ClassVar[ReuseRule | None] = ReuseRule(
        Columns.USAGE | Columns.ALLOCATABLE, amounts_only=True
    )

    def __init__(self, args: NodeResourcesBalancedAllocationArgs | None, handle: Handle) -> None:
        args = args or NodeResourcesBalancedAllocationArgs()
        require_valid(balanced_problems(args))
        self._kept = KeptShares(args.resources)
        self._score = lru_cache(MAX_SCORED)(_score)

    def pre_score(
        self, state: CycleState, pod: Pod, table: NodeTableView, feasible: Rows
    ) -> Status | None:
        """Skip a pod that requests none of the resources."""
        return None if self._shares(pod) else SKIP

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """Return 0 to 100, 75 for no change; 0 for a pod that PreScore would have skipped."""
        allocatable, requested = node.allocatable, node.requested
        usages = [
            (amount_of(requested, name), amount, amount_of(allocatable, name))
            for name, amount, _ in self._shares(pod)
        ]
        return self._score(tuple(usages)) if usages else 0

    def score_rows(
        self, state: CycleState, pod: Pod, table: NodeAmounts, rows: Rows
    ) -> Int64Column:
        """Columnar form of `score`."""
        taking_part = self._shares(pod)
        if not taking_part:
            return no_scores(rows)
        if len(rows) <= FEW:
            scores = no_scores(rows)
            for at, row in enumerate(rows.tolist()):
                usages = []
                for name, amount, _ in taking_part:
                    allocatable, used = amounts_at(table, name, row)
                    usages.append((used, amount, allocatable))
                scores[at] = self._score(tuple(usages))
            return scores
        index = selector(table, rows)
        columns = []
        for name, amount, _ in taking_part:
            capacity, in_use = amounts_in(table, name, index)
            columns.append(_Usage(in_use, amount, capacity))
        return _score_columns(columns, len(rows))

    def _shares(self, pod: Pod) -> list[Share]:
        """Return the scored resources; none if the pod requests none of them."""
        taking_part = self._kept.of(pod.signature.assigned)
        for share in taking_part:
            if share.amount:
                return taking_part
        return []


def _score(usages: tuple[tuple[int, int, int], ...]) -> int:
    """Score one node by (used, added, allocatable) of each resource."""
    with_pod, without = [], []
    for used, added, allocatable in usages:
        if allocatable:
            with_pod.append(min((used + added) / allocatable, 1.0))
            without.append(min(used / allocatable, 1.0))
    return _HALF + (_HALF + _evenness(with_pod) - _evenness(without)) // 2


def _evenness(fractions: Sequence[float]) -> int:
    """Return 100 for equal fractions, down to 50 for the most uneven."""
    count = len(fractions)
    deviation = 0.0
    if count == 2:
        deviation = abs((fractions[0] - fractions[1]) / 2)
    elif count > 2:
        total = 0.0
        for fraction in fractions:
            total += fraction
        mean = total / count
        squares = 0.0
        for fraction in fractions:
            squares += (fraction - mean) * (fraction - mean)
        deviation = sqrt(squares / count)
    return int((1.0 - deviation) * MAX_NODE_SCORE)


def _score_columns(usages: Sequence[_Usage], count: int) -> Int64Column:
    """Score nodes in groups that have the same resources; resources a node lacks are left out."""
    if all([len(usage.allocatable.nonzero()[0]) == count for usage in usages]):  # noqa: C419 - a generator takes longer
        return _score_group(usages, count)
    having = np.zeros(count, dtype=np.int64)
    for position, usage in enumerate(usages):
        having |= (usage.allocatable != 0).astype(np.int64) << position
    scores = np.empty(count, dtype=np.int64)
    for group in np.unique(having).tolist():
        members = np.flatnonzero(having == group)
        picked = [
            _Usage(usage.used[members], usage.added, usage.allocatable[members])
            for usage in _present(usages, group)
        ]
        scores[members] = _score_group(picked, len(members))
    return scores


def _present(usages: Sequence[_Usage], group: int) -> list[_Usage]:
    return [usage for position, usage in enumerate(usages) if group >> position & 1]


def _score_group(usages: Sequence[_Usage], count: int) -> Int64Column:
    # Two rows, with the pod and without it, since for a few dozen nodes NumPy takes longer to begin
    # than to compute.
    fractions = [
        np.minimum(
            (usage.used + np.array(((usage.added,), (0,)), dtype=np.int64)) / usage.allocatable, 1.0
        )
        for usage in usages
    ]
    with_pod, without = _evenness_columns(fractions, (2, count))
    scores: Int64Column = _HALF + (_HALF + with_pod - without) // 2
    return scores


def _evenness_columns(
    fractions: Sequence[FloatColumns], shape: tuple[int, int]
) -> NDArray[np.int64]:
    """Columnar form of `_evenness`, with the same order of additions."""
    if len(fractions) < 2:
        return np.full(shape, MAX_NODE_SCORE, dtype=np.int64)
    if len(fractions) == 2:
        deviation = np.abs((fractions[0] - fractions[1]) / 2)
    else:
        total = np.zeros(shape, dtype=np.float64)
        for fraction in fractions:
            total += fraction
        mean = total / len(fractions)
        squares = np.zeros(shape, dtype=np.float64)
        for fraction in fractions:
            squares += (fraction - mean) * (fraction - mean)
        deviation = np.sqrt(squares / len(fractions))
    return ((1.0 - deviation) * MAX_NODE_SCORE).astype(np.int64)
