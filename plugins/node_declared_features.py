"""NodeDeclaredFeatures: keeps pods off nodes that do not declare the features they need.

Upstream: `nodedeclaredfeatures.go`. `PodSignature.required_features` infers the features from the
pod's spec.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

import numpy as np

from plugins.queueing_hints import queue_if, same_pod
from plugins.row_selection import all_pass
from scheduler.api.node import Node
from scheduler.api.pod import Pod
from scheduler.framework import (
    SKIP,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    Codes,
    Columns,
    CycleState,
    EventResource,
    Handle,
    NoArgs,
    NodeInfo,
    NodeTableView,
    QueueingHint,
    ReuseRule,
    Rows,
    Status,
    plugin_names,
    unresolvable,
)

MISSING_FEATURES: Final = unresolvable("node(s) didn't match Pod's required features")

GATE: Final = "NodeDeclaredFeatures"
"""Feature gate of the plugin; beta and on in v1.36."""


class NodeDeclaredFeatures:
    """Compares the features a pod needs with those a node declares."""

    name: ClassVar[str] = plugin_names.NODE_DECLARED_FEATURES
    pre_filter_reusable: ClassVar[bool] = True
    filter_reuse: ClassVar[ReuseRule | None] = ReuseRule(Columns.FEATURES)

    def __init__(self, args: NoArgs | None, handle: Handle) -> None:
        self._enabled = handle.feature_gates.get(GATE, True)

    def pre_filter(self, state: CycleState, pod: Pod, table: NodeTableView) -> Status | None:
        """Skip a pod that needs no feature."""
        return None if self._needed(pod) else SKIP

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Reject a node that does not declare every needed feature."""
        return None if node.declared_features.issuperset(self._needed(pod)) else MISSING_FEATURES

    def filter_rows(self, state: CycleState, pod: Pod, table: NodeTableView, rows: Rows) -> Codes:
        """Columnar form of `filter`."""
        needed = self._needed(pod)
        if not needed:
            return all_pass(rows)
        declared = table.declared_features
        return np.array(
            [not declared[row].issuperset(needed) for row in rows.tolist()], dtype=np.int32
        )

    def filter_status(self, state: CycleState, pod: Pod, code: int) -> Status:
        """Return the only rejection there is."""
        return MISSING_FEATURES

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Register for changes of declared features, and of the pod's own needs."""
        return (
            ClusterEventWithHint(
                ClusterEvent(
                    EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_DECLARED_FEATURE
                ),
                _after_node_change,
                per_signature=True,
            ),
            ClusterEventWithHint(
                ClusterEvent(EventResource.TARGET_POD, ActionType.UPDATE), _after_own_update
            ),
        )

    def _needed(self, pod: Pod) -> tuple[str, ...]:
        return pod.signature.required_features if self._enabled else ()


def _after_node_change(_pod: Pod, old: Node | None, new: Node) -> QueueingHint:
    # As upstream (isSchedulableAfterNodeChange): any difference counts, helpful or not.
    return queue_if(old is None or old.status.declared_features != new.status.declared_features)


def _after_own_update(pod: Pod, old: Pod, new: Pod) -> QueueingHint:
    changed = old.signature.required_features != new.signature.required_features
    return queue_if(same_pod(pod, new) and changed)
