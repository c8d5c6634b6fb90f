"""TaintToleration: NoSchedule and NoExecute taints reject, PreferNoSchedule taints cost score.

Upstream: `taint_toleration.go`. Nodes with equal taint lists share an id, so tolerations are
evaluated once per distinct list.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final

import numpy as np

from plugins.details import listed
from plugins.normalization import default_normalize
from plugins.queueing_hints import after_own_update, queue_if
from plugins.row_selection import FEW, selector
from scheduler.api.node import Node, Taint
from scheduler.api.pod import Pod, Toleration
from scheduler.api.signatures.signature import PodSignature
from scheduler.api.tolerations import PREFER_NO_SCHEDULE, SCHEDULING_EFFECTS, tolerates
from scheduler.framework import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    Codes,
    Columns,
    CycleState,
    EventResource,
    Handle,
    Int64Column,
    NoArgs,
    NodeInfo,
    NodeTableView,
    QueueingHint,
    RejectedNodes,
    ReuseRule,
    Rows,
    Status,
    plugin_names,
    unresolvable,
)

# As upstream, the reason names neither key nor value, so that events aggregate by text.
UNTOLERATED: Final = unresolvable("node(s) had untolerated taint(s)")

COMPARISON_GATE: Final = "TaintTolerationComparisonOperators"
"""Feature gate of the toleration operators `Lt` and `Gt`; alpha and off in v1.36."""

_CANONICAL_INTEGER: Final = re.compile(r"0|-?[1-9][0-9]{0,18}")
_INT64: Final = range(-(1 << 63), 1 << 63)


class TaintToleration:
    """Compares the pod's tolerations with the node's taints."""

    name: ClassVar[str] = plugin_names.TAINT_TOLERATION
    filter_reuse: ClassVar[ReuseRule | None] = ReuseRule(Columns.TAINTS)
    score_reuse: ClassVar[ReuseRule | None] = ReuseRule(Columns.TAINTS)
    normalizes_by_highest: ClassVar[bool] = True
    pre_score_reusable: ClassVar[bool] = True

    pre_filter_reusable: ClassVar[bool] = True

    def __init__(self, args: NoArgs | None, handle: Handle) -> None:
        self._rules = TaintRules(handle)

    def pre_filter(self, state: CycleState, pod: Pod, table: NodeTableView) -> Status | None:
        """Return None, as upstream: there is nothing to prepare."""
        return None

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Reject a node with an untolerated NoSchedule or NoExecute taint."""
        return UNTOLERATED if self._rules.rejects(node.taints, pod.signature) else None

    def filter_rows(self, state: CycleState, pod: Pod, table: NodeTableView, rows: Rows) -> Codes:
        """Columnar form of `filter`."""
        signature = pod.signature
        codes: Codes = self._per_taint_set(
            table, rows, np.int32, lambda taints: int(self._rules.rejects(taints, signature))
        )
        return codes

    def filter_status(self, state: CycleState, pod: Pod, code: int) -> Status:
        """Return the only rejection there is."""
        return UNTOLERATED

    def explain_rejection(
        self, state: CycleState, pod: Pod, table: NodeTableView, rejected: RejectedNodes
    ) -> str:
        """Return which taints are not tolerated, and how many of the nodes have each."""
        sets, counts = np.unique(table.taint_set[rejected.rows], return_counts=True)
        nodes: dict[str, int] = {}
        for number, count in zip(sets.tolist(), counts.tolist(), strict=True):
            for taint in self._rules.untolerated(table.taint_sets[number], pod.signature):
                value = f"={taint.value}" if taint.value else ""
                text = f"{taint.key}{value}:{taint.effect}"
                nodes[text] = nodes.get(text, 0) + count
        ordered = sorted(nodes.items(), key=lambda each: (-each[1], each[0]))
        return listed((f"{text} on {count}" for text, count in ordered), len(ordered))

    def pre_score(
        self, state: CycleState, pod: Pod, table: NodeTableView, feasible: Rows
    ) -> Status | None:
        """Return None, as upstream: without any taint every node scores 100."""
        return None

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """Count the untolerated PreferNoSchedule taints."""
        return self._rules.count_preferences(node.taints, pod.signature)

    def score_rows(
        self, state: CycleState, pod: Pod, table: NodeTableView, rows: Rows
    ) -> Int64Column:
        """Columnar form of `score`."""
        signature = pod.signature
        scores: Int64Column = self._per_taint_set(
            table, rows, np.int64, lambda taints: self._rules.count_preferences(taints, signature)
        )
        return scores

    def normalize_scores(
        self, state: CycleState, pod: Pod, table: NodeTableView, rows: Rows, scores: Int64Column
    ) -> Int64Column:
        """Scale the fewest taints to 100."""
        return default_normalize(scores, reverse=True)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Register for nodes that become tolerable, and for the pod's own new tolerations."""
        return (
            ClusterEventWithHint(
                ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_TAINT),
                self._after_node_change,
                per_signature=True,
            ),
            ClusterEventWithHint(
                ClusterEvent(EventResource.TARGET_POD, ActionType.UPDATE_POD_TOLERATION),
                after_own_update,
                per_signature=True,
            ),
        )

    def _after_node_change(self, pod: Pod, old: Node | None, new: Node) -> QueueingHint:
        signature = pod.signature
        was_open = old is not None and not self._rules.rejects(old.spec.taints, signature)
        return queue_if(not was_open and not self._rules.rejects(new.spec.taints, signature))

    @staticmethod
    def _per_taint_set(
        table: NodeTableView,
        rows: Rows,
        dtype: type[np.int32 | np.int64],
        evaluate: Callable[[Sequence[Taint]], int],
    ) -> Any:
        """Evaluate once per distinct taint list and spread the results over the rows."""
        sets, column = table.taint_sets, table.taint_set
        if len(rows) <= FEW:
            return np.array([evaluate(sets[column.item(row)]) for row in rows], dtype=dtype)
        values = np.array([evaluate(taints) if taints else 0 for taints in sets], dtype=dtype)
        if not values.any():
            return np.zeros(len(rows), dtype=dtype)
        return values[column[selector(table, rows)]]


class TaintRules:
    """Compares taints with the tolerations of pod signatures, by the feature gates in force."""

    def __init__(self, handle: Handle) -> None:
        self._comparing = handle.feature_gates.get(COMPARISON_GATE, False)

    def rejects(self, taints: Sequence[Taint], signature: PodSignature) -> bool:
        """Whether a NoSchedule or NoExecute taint is not tolerated."""
        return any(
            taint.effect in SCHEDULING_EFFECTS and not self._tolerated(signature, taint)
            for taint in taints
        )

    def untolerated(self, taints: Sequence[Taint], signature: PodSignature) -> list[Taint]:
        """Return the NoSchedule and NoExecute taints that are not tolerated."""
        return [each for each in taints if self.rejects((each,), signature)]

    def count_preferences(self, taints: Sequence[Taint], signature: PodSignature) -> int:
        """Count the PreferNoSchedule taints that are not tolerated."""
        return sum(
            taint.effect == PREFER_NO_SCHEDULE and not self._tolerated(signature, taint)
            for taint in taints
        )

    def _tolerated(self, signature: PodSignature, taint: Taint) -> bool:
        index = signature.toleration_index
        return index.covers(taint) or (
            self._comparing and any(tolerates_comparing(each, taint) for each in index.comparing)
        )


def tolerates_comparing(toleration: Toleration, taint: Taint) -> bool:
    """Whether the toleration covers the taint; supports the operators of the comparison gate.

    `Lt`: the taint's value is below the toleration's; `Gt`: above. Both must be canonical 64-bit
    decimals.
    """
    if toleration.operator not in {"Lt", "Gt"}:
        return tolerates(toleration, taint)
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    actual, bound = _integer(taint.value), _integer(toleration.value)
    if actual is None or bound is None:
        return False
    return actual < bound if toleration.operator == "Lt" else actual > bound


def _integer(text: str) -> int | None:
    if _CANONICAL_INTEGER.fullmatch(text) is None:
        return None
    number = int(text)
    return number if number in _INT64 else None
