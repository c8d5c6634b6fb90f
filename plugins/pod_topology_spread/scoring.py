"""Soft constraints: fewer matching pods in a node's domains score higher.

Upstream: `podtopologyspread/scoring.go`. Floating point follows its order of operations, because
scores are rounded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from plugins.pod_topology_spread.constraints import Constraint
from plugins.pod_topology_spread.filtering import domain_counts, matching
from plugins.pod_topology_spread.inclusion import Inclusion
from plugins.row_selection import selector
from scheduler.api.node import HOSTNAME
from scheduler.api.pod import Pod
from scheduler.framework import (
    MAX_NODE_SCORE,
    BoolColumn,
    Int32Column,
    Int64Column,
    LabelValues,
    NodeInfo,
    NodeTableView,
    Rows,
)


class Weighted(NamedTuple):
    """One constraint with the counts of its domains."""

    constraint: Constraint
    #: ln(domains + 2).
    weight: float
    #: Pods per value id of the topology label; None for the hostname, where each node counts alone.
    domains: Int64Column | None
    #: Pods per row.
    pods: Int32Column
    values: LabelValues

    def score(self, count: int) -> float:
        """Return the score of `count` matching pods in a domain (`scoring.go: scoreForCount`)."""
        return count * self.weight + (self.constraint.max_skew - 1)


@dataclass(slots=True)
class SoftState:
    """State of Score and NormalizeScore."""

    constraints: list[Weighted]
    #: (capacity,): feasible nodes that lack a topology key and score 0; None for none.
    ignored: BoolColumn | None

    def score(self, pod: Pod, node: NodeInfo) -> int:
        """Return the rounded sum over the constraints whose label the node has."""
        if self.ignored is not None and self.ignored[node.row]:
            return 0
        total = 0.0
        labels = node.labels
        for each in self.constraints:
            value = labels.get(each.constraint.topology_key)
            if value is None:
                continue
            if each.domains is None:
                count = _pods_on(node, each.constraint, pod)
            else:
                count = int(each.domains[each.values.ids[value]])
            total += each.score(count)
        return math.floor(total + 0.5)

    def scores(self, table: NodeTableView, rows: Rows) -> Int64Column:
        """Columnar form of `score`."""
        index = selector(table, rows)
        total = np.zeros(len(rows), dtype=np.float64)
        for each in self.constraints:
            column = table.label_column(each.constraint.topology_key)[index]
            offset = each.constraint.max_skew - 1
            if each.domains is None:
                part = each.pods[index] * each.weight + offset
                part[column < 0] = 0.0
            else:
                # Domains are fewer than rows. The last entry is for a missing label.
                per_domain = np.append(each.domains * each.weight + offset, 0.0)
                part = per_domain[column]
            total += part
        scores: Int64Column = np.floor(total + 0.5).astype(np.int64)
        if self.ignored is not None:
            scores[self.ignored[index]] = 0
        return scores

    def normalized(self, rows: Rows, scores: Int64Column) -> Int64Column:
        """Scale the fewest pods to 100; ignored nodes get 0."""
        if not len(scores):
            return scores
        if self.ignored is None:
            return _normalized(scores, scores)
        ignored = self.ignored[rows]
        final = _normalized(scores, scores[~ignored])
        final[ignored] = 0
        return final


def _normalized(scores: Int64Column, counting: Int64Column) -> Int64Column:
    largest = int(counting.max()) if len(counting) else 0
    if largest <= 0:
        return np.full(len(scores), MAX_NODE_SCORE, dtype=np.int64)
    top = largest + int(counting.min())
    if largest < len(scores):
        # A look-up table is faster than dividing int64 columns; scores are small.
        table = MAX_NODE_SCORE * (top - np.arange(largest + 1, dtype=np.int64)) // largest
        found: Int64Column = table[scores]
        return found
    scaled: Int64Column = MAX_NODE_SCORE * (top - scores) // largest
    return scaled


def _pods_on(node: NodeInfo, constraint: Constraint, pod: Pod) -> int:
    if constraint.selector.empty:
        return 0
    namespace = pod.metadata.namespace
    return sum(
        other.metadata.namespace == namespace
        and not other.terminating
        and constraint.matches(other)
        for other in node.pods
    )


def soft_state(
    constraints: Sequence[Constraint],
    inclusion: Inclusion,
    pod: Pod,
    table: NodeTableView,
    feasible: Rows,
    *,
    require_all: bool,
) -> SoftState:
    """Count pods by domain over all nodes, and the domains of feasible nodes.

    With `require_all`, nodes that lack one of the topology keys neither count nor score.
    """
    rows = table.rows
    index = selector(table, rows)
    # Feasible rows are usually all rows; a view is enough then.
    chosen = index if len(feasible) == len(rows) else feasible
    keys = dict.fromkeys(each.topology_key for each in constraints)
    columns = {key: table.label_column(key) for key in keys}
    complete = ignored = None
    scored = len(feasible)
    if require_all and any((columns[key][index] < 0).any() for key in keys):
        lacking = np.zeros(table.capacity, dtype=np.bool_)
        for column in columns.values():
            lacking |= column < 0
        complete = ~lacking[index]
        ignored = lacking
        scored -= int(np.count_nonzero(lacking[chosen]))
    masks = inclusion.masks(constraints, pod, table, rows, index)
    weighted = []
    for constraint, mask in zip(constraints, masks, strict=True):
        key = constraint.topology_key
        values, pods = table.label_values(key), matching(constraint, pod, table)
        if key == HOSTNAME:
            weighted.append(Weighted(constraint, math.log(scored + 2), None, pods, values))
            continue
        size = len(values.ids)
        # Without `require_all` a missing label is the domain "", as upstream has it.
        missing = size if require_all else values.ids.get("", size + 1)
        column = columns[key]
        candidates = column[chosen]
        if ignored is not None:
            candidates = candidates[~ignored[chosen]]
        registered = _present(candidates, size, missing)
        slots = _slots(column[index], missing)
        for counting in (mask, complete):
            if counting is not None:
                slots = np.where(counting, slots, np.int32(size))
        if missing == size + 1:
            slots = np.minimum(slots, size)
        counts = domain_counts(slots, size, pods[index])[:-1]
        weight = math.log(int(np.count_nonzero(registered)) + 2)
        weighted.append(Weighted(constraint, weight, counts, pods, values))
    return SoftState(weighted, ignored)


def _slots(column: Int32Column, missing: int) -> Int32Column:
    slots: Int32Column = np.where(column < 0, np.int32(missing), column)
    return slots


def _present(column: Int32Column, size: int, missing: int) -> BoolColumn:
    """Return which value ids occur; entry size + 1 is the domain of missing labels."""
    found = np.zeros(size + 2, dtype=np.bool_)
    found[_slots(column, missing)] = True
    found[size] = False
    return found
