"""How NodeResourcesFit scores a pod: the configured strategy over what node and pod use together.

Upstream's oddity is kept in what callers pass as the pod (`PodShape.scoring`): containers with
defaults, pod-level requests ignored. CPU and memory of the node are its non-zero requests,
everything else its plain ones.
"""

from __future__ import annotations

from collections.abc import Sequence

from plugins.noderesources.amounts import NO_COLUMN, Share, amount_of, column_of, shares
from plugins.noderesources.arguments import (
    LEAST_ALLOCATED,
    MAX_SHAPE_SCORE,
    MOST_ALLOCATED,
    ResourceSpec,
    ScoringStrategy,
)
from plugins.noderesources.strategies import (
    AmountColumns,
    Amounts,
    LeastAllocated,
    MostAllocated,
    RequestedToCapacityRatio,
    Strategy,
)
from plugins.row_selection import FEW, no_scores, selector
from scheduler.api.requests import Resources
from scheduler.framework import MAX_NODE_SCORE, MEMORY, Int64Column, NodeInfo, NodeTableView, Rows


class Scorer:
    """A strategy with the resources it looks at."""

    def __init__(self, strategy: Strategy, resources: Sequence[ResourceSpec]) -> None:
        self._strategy = strategy
        self._resources = tuple(resources)

    def one(self, pod: Resources, node: NodeInfo) -> int:
        """The score of one node, 0 to 100."""
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
        """The scores of many nodes."""
        taking_part = [
            (column, share)
            for share in shares(self._resources, pod)
            if (column := column_of(table, share.name)) != NO_COLUMN
        ]
        if not taking_part:
            return no_scores(rows)
        if len(rows) <= FEW:
            scores = no_scores(rows)
            for at, row in enumerate(rows.tolist()):
                scores[at] = self._strategy.one(_amounts(table, row, taking_part))
            return scores
        return self._strategy.column(_columns(table, selector(table, rows), taking_part))


def scorer(strategy: ScoringStrategy | None) -> Scorer:
    """The scorer of valid arguments."""
    if strategy is None:
        strategy = ScoringStrategy(type=LEAST_ALLOCATED)
    if strategy.type == LEAST_ALLOCATED:
        return Scorer(LeastAllocated(), strategy.resources)
    if strategy.type == MOST_ALLOCATED:
        return Scorer(MostAllocated(), strategy.resources)
    ratio = strategy.requested_to_capacity_ratio
    scale = MAX_NODE_SCORE // MAX_SHAPE_SCORE
    points = [(point.utilization, point.score * scale) for point in (ratio.shape if ratio else ())]
    return Scorer(RequestedToCapacityRatio(points), strategy.resources)


def _amounts(table: NodeTableView, row: int, taking_part: list[tuple[int, Share]]) -> list[Amounts]:
    allocatable, requested, non_zero = (
        table.allocatable,
        table.requested,
        table.non_zero_requested,
    )
    return [
        (
            (non_zero if column <= MEMORY else requested).item(column, row) + share.amount,
            allocatable.item(column, row),
            share.weight,
        )
        for column, share in taking_part
    ]


def _columns(
    table: NodeTableView, index: slice | Rows, taking_part: list[tuple[int, Share]]
) -> list[AmountColumns]:
    columns = []
    for column, share in taking_part:
        used = table.non_zero_requested if column <= MEMORY else table.requested
        columns.append(
            (used[column, index] + share.amount, table.allocatable[column, index], share.weight)
        )
    return columns
