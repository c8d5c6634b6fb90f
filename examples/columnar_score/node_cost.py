"""NodeCost, a columnar Score: cheap nodes first.

A node states its cost in a label, as a whole number in a unit of your choice. The raw score is that
cost; NormalizeScore turns it into 0 for the dearest feasible node up to 100 for the cheapest. A
node that states no cost gets 0.

The columnar form reads the label's column, one small id per node, and computes the score once per
distinct value. The scalar form computes the score of one node; the contract suite compares both.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Final

import msgspec
import numpy as np

from kubestow.plugin import (
    MAX_NODE_SCORE,
    Columns,
    CycleState,
    Handle,
    Int64Column,
    NodeInfo,
    NodeTableView,
    Pod,
    ReuseRule,
    Rows,
    is_qualified_name,
)

UNKNOWN: Final = -1
"""Raw score of a node without a cost."""
MAX_COST: Final = 10**12
"""Upper bound of costs; a hundred times as much still fits into 64 bits."""


class NodeCostArgs(msgspec.Struct, rename="camel", kw_only=True, forbid_unknown_fields=True):
    """Arguments of NodeCost."""

    #: Key of the node label that holds the cost.
    label: str = "example.com/cost"


class NodeCost:
    """Prefers nodes with a low cost."""

    name: ClassVar[str] = "example.com/NodeCost"
    args_type: ClassVar[type[NodeCostArgs]] = NodeCostArgs
    #: A raw score depends only on the node's labels.
    score_reuse: ClassVar[ReuseRule | None] = ReuseRule(Columns.LABELS)

    def __init__(self, args: NodeCostArgs, handle: Handle) -> None:
        self._label = args.label

    @staticmethod
    def validate_args(args: NodeCostArgs) -> Iterator[tuple[str, str]]:
        """Yield (path below `args`, message) for each problem."""
        if not is_qualified_name(args.label):
            yield "label", f'"{args.label}" is no label key; write one like example.com/cost'

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """Return the node's cost, UNKNOWN without a valid label."""
        value = node.labels.get(self._label, "")
        # Like `LabelValues.integers`: digits only, at most 64 bits.
        if not (value.isascii() and value.isdecimal()) or int(value) >= 2**63:
            return UNKNOWN
        return min(int(value), MAX_COST)

    def score_rows(
        self, state: CycleState, pod: Pod, table: NodeTableView, rows: Rows
    ) -> Int64Column:
        """Columnar form of `score`."""
        values = table.label_values(self._label)
        usable = values.is_integer & (values.integers >= 0)
        costs = np.where(usable, np.minimum(values.integers, MAX_COST), UNKNOWN)
        # The id of a missing label is -1, which selects the appended last element.
        found: Int64Column = np.append(costs, UNKNOWN)[table.label_column(self._label)[rows]]
        return found

    def normalize_scores(
        self, state: CycleState, pod: Pod, table: NodeTableView, rows: Rows, scores: Int64Column
    ) -> Int64Column:
        """Scale to 0..100, the cheapest feasible node to 100."""
        known = scores[scores != UNKNOWN]
        if not known.size:
            return np.zeros_like(scores)
        cheapest, dearest = int(known.min()), int(known.max())
        if cheapest == dearest:
            return np.where(scores == UNKNOWN, 0, MAX_NODE_SCORE)
        saved = MAX_NODE_SCORE * (dearest - scores) // (dearest - cheapest)
        return np.where(scores == UNKNOWN, 0, saved)
