"""Scoring of NodeResourcesFit: the configured strategy over the usage of node and pod together.

As upstream (`resource_allocation.go: calculatePodResourceRequest`), callers pass the pod's requests
with defaults and without pod-level requests (`PodSignature.scoring`). For CPU and memory the node's
non-zero requests count, for other resources its plain requests.
"""

from __future__ import annotations

from typing import Final

from plugins.node_resources.amounts import NATIVE, Share, amount_of, amounts_at, amounts_in, shares
from plugins.node_resources.arguments import (
    LEAST_ALLOCATED,
    MAX_SHAPE_SCORE,
    MOST_ALLOCATED,
    ScoringStrategy,
)
from plugins.node_resources.strategies import (
    AmountColumns,
    Amounts,
    LeastAllocated,
    MostAllocated,
    RequestedToCapacityRatio,
    Strategy,
)
from plugins.row_selection import FEW, no_scores, selector
from scheduler.api.requests import Resources
from scheduler.framework import MAX_NODE_SCORE, Int64Column, NodeInfo, NodeTableView, Rows

_NON_ZERO: Final = frozenset({"cpu", "memory"})
"""Resources for which pods without a request count with a default."""


class Scorer:
    """A strategy and the resources it scores."""

    def __init__(self, arguments: ScoringStrategy) -> None:
        """`arguments` must be valid."""
        self._resources = arguments.resources
        self._strategy = _strategy(arguments)

    def one(self, pod: Resources, node: NodeInfo) -> int:
        """Return the score of one node, 0 to 100."""
        allocatable, requested = node.allocatable, node.requested
        milli_cpu, memory = node.non_zero_requested
        used = {"cpu": milli_cpu, "memory": memory}
        return self._strategy.one(
            [
                (
                    used.get(name, amount_of(requested, name)) + amount,
                    amount_of(allocatable, name),
                    weight,
                )
                for name, amount, weight in shares(self._resources, pod)
            ]
        )

    def rows(self, pod: Resources, table: NodeTableView, rows: Rows) -> Int64Column:
        """Return the scores of many nodes."""
        taking_part = shares(self._resources, pod)
        if not taking_part:
            return no_scores(rows)
        if len(rows) <= FEW:
            scores = no_scores(rows)
            for at, row in enumerate(rows.tolist()):
                scores[at] = self._strategy.one(_amounts(table, row, taking_part))
            return scores
        return self._strategy.column(_columns(table, selector(table, rows), taking_part))


def _strategy(arguments: ScoringStrategy) -> Strategy:
    if arguments.type == LEAST_ALLOCATED:
        return LeastAllocated()
    if arguments.type == MOST_ALLOCATED:
        return MostAllocated()
    ratio, scale = arguments.requested_to_capacity_ratio, MAX_NODE_SCORE // MAX_SHAPE_SCORE
    points = [(point.utilization, point.score * scale) for point in (ratio.shape if ratio else ())]
    return RequestedToCapacityRatio(points)


def _amounts(table: NodeTableView, row: int, taking_part: list[Share]) -> list[Amounts]:
    amounts = []
    for name, added, weight in taking_part:
        allocatable, used = amounts_at(table, name, row)
        if name in _NON_ZERO:
            used = table.non_zero_requested.item(NATIVE[name], row)
        amounts.append((used + added, allocatable, weight))
    return amounts


def _columns(
    table: NodeTableView, index: slice | Rows, taking_part: list[Share]
) -> list[AmountColumns]:
    columns = []
    for name, added, weight in taking_part:
        allocatable, used = amounts_in(table, name, index)
        if name in _NON_ZERO:
            used = table.non_zero_requested[NATIVE[name], index]
        columns.append((used + added, allocatable, weight))
    return columns
