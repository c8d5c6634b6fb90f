"""Inclusion policies: which nodes contribute domains and counts to a constraint.

They say nothing about whether the pod may go to a node; other plugins do.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from plugins.node_matching import required_mask
from plugins.pod_topology_spread.constraints import Constraint
from plugins.taint_toleration import tolerance
from scheduler.api.node import Taint
from scheduler.api.pod import Pod
from scheduler.api.tolerations import SCHEDULING_EFFECTS
from scheduler.framework import BoolColumn, Handle, NodeInfo, NodeTableView, Rows


class Inclusion:
    """Evaluates the policies, for one node or for many rows."""

    def __init__(self, handle: Handle) -> None:
        self._tolerates = tolerance(handle)

    def includes(self, constraint: Constraint, pod: Pod, node: NodeInfo) -> bool:
        """Whether `node` counts for `constraint`."""
        if constraint.honors_affinity:
            if pod.pin and pod.pin != node.name:
                return False
            required = pod.signature.required_node_affinity
            if required is not None and not required.matches(node.labels, node.name):
                return False
        return not constraint.honors_taints or self._tolerated(node.taints, pod)

    def masks(
        self, constraints: Sequence[Constraint], pod: Pod, table: NodeTableView, rows: Rows,
        index: slice | Rows,
    ) -> list[BoolColumn | None]:  # fmt: skip
        """Per constraint which of `rows` count; None: all of them."""
        affinity = taints = None
        if any(each.honors_affinity for each in constraints):
            affinity = _affinity_mask(pod, table, rows, index)
        if any(each.honors_taints for each in constraints):
            open_sets = [self._tolerated(each, pod) for each in table.taint_sets]
            if not all(open_sets):
                taints = np.array(open_sets, dtype=np.bool_)[table.taint_set[index]]
        return [
            _both(
                affinity if each.honors_affinity else None, taints if each.honors_taints else None
            )
            for each in constraints
        ]

    def _tolerated(self, taints: Sequence[Taint], pod: Pod) -> bool:
        signature = pod.signature
        return all(
            taint.effect not in SCHEDULING_EFFECTS or self._tolerates(signature, taint)
            for taint in taints
        )


def _affinity_mask(
    pod: Pod, table: NodeTableView, rows: Rows, index: slice | Rows
) -> BoolColumn | None:
    required = pod.signature.required_node_affinity
    mask = None if required is None else required_mask(required, table, rows, index)
    if not pod.pin:
        return mask
    pinned = rows == (-1 if (row := table.row_of(pod.pin)) is None else row)
    return _both(mask, pinned)


def _both(one: BoolColumn | None, other: BoolColumn | None) -> BoolColumn | None:
    if one is None or other is None:
        return other if one is None else one
    both: BoolColumn = one & other
    return both
