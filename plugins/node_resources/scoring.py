"""Scoring of NodeResourcesFit: the configured strategy over the usage of node and pod together.

As upstream (`resource_allocation.go: calculatePodResourceRequest`), callers pass the pod's requests
with defaults and without pod-level requests (`PodSignature.scoring`). For CPU and memory the node's
non-zero requests count, for other resources its plain requests.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, cast

import numpy as np

from plugins.node_resources.amounts import (
    MAX_SCORED,
    NATIVE,
    KeptShares,
    Share,
    amount_of,
    amounts_at,
    amounts_in,
)
from plugins.node_resources.arguments import (
    LEAST_ALLOCATED,
    MAX_SHAPE_SCORE,
    MOST_ALLOCATED,
    ScoringStrategy,
)
from plugins.node_resources.served import ServedAmounts
from plugins.node_resources.strategies import (
    AmountColumns,
    Amounts,
    LeastAllocated,
    MostAllocated,
    RequestedToCapacityRatio,
    Strategy,
)
from plugins.row_selection import FEW, no_scores, selector
from scheduler.api.node import Node
from scheduler.api.requests import Resources
from scheduler.framework import (
    MAX_NODE_SCORE,
    Int64Column,
    NodeAmounts,
    NodeInfo,
    NodeTableView,
    Rows,
)

_NON_ZERO: Final = frozenset({"cpu", "memory"})
"""Resources for which pods without a request count with a default."""


class Scorer:
    """A strategy and the resources it scores."""

    def __init__(self, arguments: ScoringStrategy, served: ServedAmounts | None = None) -> None:
        """`arguments` must be valid. `served` counts devices on nodes without a resource."""
        self._served = served
        self._kept = KeptShares(arguments.resources)
        self._strategy = _strategy(arguments)
        self._one = lru_cache(MAX_SCORED)(self._strategy.one)

    def one(self, pod: Resources, node: NodeInfo) -> int:
        """Return the score of one node, 0 to 100."""
        allocatable, requested = node.allocatable, node.requested
        milli_cpu, memory = node.non_zero_requested
        used = {"cpu": milli_cpu, "memory": memory}
        amounts = [
            (
                used.get(name, amount_of(requested, name)) + amount,
                amount_of(allocatable, name),
                weight,
            )
            for name, amount, weight in self._kept.of(pod)
        ]
        if self._served is not None:
            amounts = self._with_devices(amounts, self._kept.of(pod), node.node)
        return self._one(tuple(amounts))

    def _with_devices(
        self, amounts: list[Amounts], taking_part: list[Share], node: Node
    ) -> list[Amounts]:
        """Put the devices of a node in place of extended resources that it does not have."""
        assert self._served is not None
        found = []
        for each, (name, added, weight) in zip(amounts, taking_part, strict=True):
            devices = None
            if not each[1] and self._served.may_serve(name):
                devices = self._served.amounts(name, node)
            found.append(each if devices is None else (devices[1] + added, devices[0], weight))
        return found

    def rows(self, pod: Resources, table: NodeAmounts, rows: Rows) -> Int64Column:
        """Return the scores of many nodes; `table` is a `NodeTableView` if devices count."""
        taking_part = self._kept.of(pod)
        if not taking_part:
            return no_scores(rows)
        if len(rows) <= FEW:
            scores = no_scores(rows)
            for at, row in enumerate(rows.tolist()):
                amounts = _amounts(table, row, taking_part)
                if self._served is not None:
                    node = cast("NodeTableView", table).node_info(row).node
                    amounts = self._with_devices(amounts, taking_part, node)
                scores[at] = self._one(tuple(amounts))
            return scores
        columns = _columns(table, selector(table, rows), taking_part)
        if self._served is not None:
            columns = self._with_device_columns(
                columns, taking_part, cast("NodeTableView", table), rows
            )
        return self._strategy.column(columns)

    def _with_device_columns(
        self,
        columns: list[AmountColumns],
        taking_part: list[Share],
        table: NodeTableView,
        rows: Rows,
    ) -> list[AmountColumns]:
        """Columnar form of `_with_devices`."""
        assert self._served is not None
        found = []
        for each, (name, added, weight) in zip(columns, taking_part, strict=True):
            used, capacity, _ = each
            devices = self._served.columns(name, table, rows) if not capacity.all() else None
            if devices is None or not self._served.may_serve(name):
                found.append(each)
                continue
            lacking = capacity == 0
            capacity = np.where(lacking, devices[0], capacity)
            found.append((np.where(lacking, devices[1] + added, used), capacity, weight))
        return found


def _strategy(arguments: ScoringStrategy) -> Strategy:
    if arguments.type == LEAST_ALLOCATED:
        return LeastAllocated()
    if arguments.type == MOST_ALLOCATED:
        return MostAllocated()
    ratio, scale = arguments.requested_to_capacity_ratio, MAX_NODE_SCORE // MAX_SHAPE_SCORE
    points = [(point.utilization, point.score * scale) for point in (ratio.shape if ratio else ())]
    return RequestedToCapacityRatio(points)


def _amounts(table: NodeAmounts, row: int, taking_part: list[Share]) -> list[Amounts]:
    amounts = []
    for name, added, weight in taking_part:
        allocatable, used = amounts_at(table, name, row)
        if name in _NON_ZERO:
            used = table.non_zero_requested.item(NATIVE[name], row)
        amounts.append((used + added, allocatable, weight))
    return amounts


def _columns(
    table: NodeAmounts, index: slice | Rows, taking_part: list[Share]
) -> list[AmountColumns]:
    columns = []
    for name, added, weight in taking_part:
        if name in _NON_ZERO:
            native = NATIVE[name]
            allocatable = table.allocatable[native][index]
            used = table.non_zero_requested[native][index]
        else:
            allocatable, used = amounts_in(table, name, index)
        columns.append((used + added, allocatable, weight))
    return columns
