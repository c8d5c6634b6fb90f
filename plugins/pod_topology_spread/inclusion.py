"""Inclusion policies: the nodes that contribute domains and counts to a constraint.

Upstream: `podtopologyspread/common.go: matchNodeInclusionPolicies`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from plugins.node_matching import matches_required, required_mask
from plugins.pod_topology_spread.constraints import Constraint
from plugins.row_selection import is_node
from plugins.taint_toleration import TaintRules
from scheduler.api.pod import Pod
from scheduler.framework import BoolColumn, Handle, NodeInfo, NodeTableView, Rows


class Inclusion:
    """Evaluates the policies, for one node or for many rows."""

    def __init__(self, handle: Handle) -> None:
        self._rejects = TaintRules(handle).rejects

    def includes(self, constraint: Constraint, pod: Pod, node: NodeInfo) -> bool:
        """Whether `node` counts for `constraint`."""
        if constraint.honors_affinity and not matches_required(pod, node.labels, node.name):
            return False
        return not constraint.honors_taints or not self._rejects(node.taints, pod.signature)

    def masks(
        self, constraints: Sequence[Constraint], pod: Pod, table: NodeTableView, rows: Rows,
        index: slice | Rows,
    ) -> list[BoolColumn | None]:  # fmt: skip
        """Return per constraint which of `rows` count; None for all."""
        affinity = taints = None
        if any(each.honors_affinity for each in constraints):
            affinity = _affinity_mask(pod, table, rows, index)
        if any(each.honors_taints for each in constraints):
            signature = pod.signature
            open_sets = [not self._rejects(each, signature) for each in table.taint_sets]
            if not all(open_sets):
                taints = np.array(open_sets, dtype=np.bool_)[table.taint_set[index]]
        return [
            _both(
                affinity if each.honors_affinity else None, taints if each.honors_taints else None
            )
            for each in constraints
        ]


def _affinity_mask(
    pod: Pod, table: NodeTableView, rows: Rows, index: slice | Rows
) -> BoolColumn | None:
    required = pod.signature.required_node_affinity
    mask = None if required is None else required_mask(required, table, rows, index)
    return _both(mask, is_node(table, rows, pod.pin)) if pod.pin else mask


def _both(one: BoolColumn | None, other: BoolColumn | None) -> BoolColumn | None:
    if one is None or other is None:
        return other if one is None else one
    both: BoolColumn = one & other
    return both
