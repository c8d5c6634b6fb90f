"""Scoring strategies of NodeResourcesFit: from (requested, allocatable) per resource to 0..100.

Upstream: `least_allocated.go`, `most_allocated.go` and `requested_to_capacity_ratio.go`. Integers
and int64 columns use the same truncating arithmetic. Amounts are clamped so that a product with 100
stays within 64 bits; no real node comes near.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol, TypeVar

import numpy as np

from scheduler.framework import MAX_NODE_SCORE, Int64Column

LARGEST: Final = (1 << 63) // 128
"""Amounts above (64 PiB in bytes) count as this much."""

Amounts = tuple[int, int, int]
"""(requested, allocatable, weight) of one resource on one node."""
AmountColumns = tuple[Int64Column, Int64Column, int]
"""(requested, allocatable, weight) of one resource, in columns of equal length."""

Number = TypeVar("Number", int, Int64Column)
"""An amount on one node, or a column of them."""


class Strategy(Protocol):
    """Combines resources into a node's score. Entries with allocatable 0 are ignored."""

    def one(self, resources: Sequence[Amounts]) -> int:
        """Return the score of one node."""
        ...

    def column(self, resources: Sequence[AmountColumns]) -> Int64Column:
        """Return the scores of many nodes; `resources` is not empty."""
        ...


class _WeightedMean:
    """Base of LeastAllocated and MostAllocated: truncated mean of the resources' scores."""

    def one(self, resources: Sequence[Amounts]) -> int:
        """Return the sum of score times weight, divided by the sum of weights."""
        total = weights = 0
        for requested, allocatable, weight in resources:
            if allocatable:
                capacity = min(allocatable, LARGEST)
                total += weight * self._score(min(requested, capacity), capacity)
                weights += weight
        return total // weights if weights else 0

    def column(self, resources: Sequence[AmountColumns]) -> Int64Column:
        """Columnar form of `one`."""
        total: Int64Column | int = 0
        weights: Int64Column | int = 0
        for requested, allocatable, weight in resources:
            capacity = _capacity(allocatable)
            score = self._score(np.minimum(requested, capacity), capacity)
            if len(allocatable.nonzero()[0]) == len(allocatable):
                total = total + (score if weight == 1 else score * weight)
                weights = weights + weight
            else:
                present = allocatable != 0
                total = total + np.where(present, score, 0) * weight
                weights = weights + present * weight
        if isinstance(weights, int):
            # The usual case: every node has every resource.
            return np.asarray(total // max(weights, 1))
        mean: Int64Column = total // np.maximum(weights, 1)
        return mean

    @staticmethod
    def _score(used: Number, capacity: Number) -> Number:
        """Score one resource, 0 to 100; `used` is at most `capacity`, which is at least 1."""
        raise NotImplementedError


class LeastAllocated(_WeightedMean):
    """Prefers nodes with the largest free share."""

    @staticmethod
    def _score(used: Number, capacity: Number) -> Number:
        return (capacity - used) * MAX_NODE_SCORE // capacity


class MostAllocated(_WeightedMean):
    """Prefers nodes with the largest used share."""

    @staticmethod
    def _score(used: Number, capacity: Number) -> Number:
        return used * MAX_NODE_SCORE // capacity


class RequestedToCapacityRatio:
    """Scores the used share by a broken line through configured points.

    As upstream, and unlike the other strategies: a resource that scores 0 is left out of the mean,
    including its weight, and the mean is rounded.
    """

    def __init__(self, points: Sequence[tuple[int, int]]) -> None:
        """`points`: (utilization in percent, score 0..100), utilization strictly increasing."""
        self._scores = [broken_linear(points, percent) for percent in range(101)]
        self._score_column = np.array(self._scores, dtype=np.int64)

    def one(self, resources: Sequence[Amounts]) -> int:
        """Return the rounded weighted mean of the resources that score above 0."""
        total = weights = 0
        for requested, allocatable, weight in resources:
            if allocatable:
                capacity = min(allocatable, LARGEST)
                score = self._scores[min(requested, capacity) * 100 // capacity]
                if score > 0:
                    total += score * weight
                    weights += weight
        return int(total / weights + 0.5) if weights else 0

    def column(self, resources: Sequence[AmountColumns]) -> Int64Column:
        """Columnar form of `one`."""
        length = len(resources[0][0])
        total = np.zeros(length, dtype=np.int64)
        weights = np.zeros(length, dtype=np.int64)
        for requested, allocatable, weight in resources:
            capacity = _capacity(allocatable)
            percent = np.minimum(requested, capacity) * 100 // capacity
            score = np.where(allocatable != 0, self._score_column[percent], 0)
            total += score * weight
            weights += (score > 0) * weight
        mean = total / np.maximum(weights, 1)
        return np.floor(mean + 0.5).astype(np.int64)


def _capacity(allocatable: Int64Column) -> Int64Column:
    """Return amounts between 1 and `LARGEST`; for a few dozen, `np.clip` takes twice as long."""
    capacity: Int64Column = np.minimum(np.maximum(allocatable, 1), LARGEST)
    return capacity


def broken_linear(points: Sequence[tuple[int, int]], percent: int) -> int:
    """Return the line's value at `percent`: flat outside the points, truncated between them.

    >>> line = [(0, 2), (40, 10), (100, 0)]
    >>> [broken_linear(line, percent) for percent in (0, 20, 30, 40, 70, 100)]
    [2, 6, 8, 10, 5, 0]
    """
    previous = points[0]
    for point in points:
        if percent <= point[0]:
            if point is points[0]:
                return point[1]
            rise, run = point[1] - previous[1], point[0] - previous[0]
            product = rise * (percent - previous[0])
            step = product // run if product >= 0 else -(-product // run)
            return previous[1] + step
        previous = point
    return points[-1][1]
