"""NodeUnschedulable: keeps pods off cordoned nodes unless they tolerate the cordon.

Upstream: `node_unschedulable.go`. Only `spec.unschedulable` is read; TaintToleration evaluates the
taint that a controller adds to a cordoned node.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final

import numpy as np

from plugins.queueing_hints import queue_if, same_pod
from plugins.row_selection import all_pass, selector
from scheduler.api.node import Node, Taint
from scheduler.api.pod import Pod, Toleration
from scheduler.api.tolerations import NO_SCHEDULE, TAINT_NODE_UNSCHEDULABLE, tolerates
from scheduler.framework import (
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

UNSCHEDULABLE: Final = unresolvable("node(s) were unschedulable")

_CORDONED: Final = Taint(key=TAINT_NODE_UNSCHEDULABLE, effect=NO_SCHEDULE)


class NodeUnschedulable:
    """Rejects cordoned nodes."""

    name: ClassVar[str] = plugin_names.NODE_UNSCHEDULABLE
    filter_reuse: ClassVar[ReuseRule | None] = ReuseRule(Columns.TAINTS)

    pre_filter_reusable: ClassVar[bool] = True

    def __init__(self, args: NoArgs | None, handle: Handle) -> None:
        pass

    def pre_filter(self, state: CycleState, pod: Pod, table: NodeTableView) -> Status | None:
        """Return None, as upstream: there is nothing to prepare."""
        return None

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Reject a cordoned node."""
        if not node.unschedulable or tolerates_cordon(pod.signature.tolerations):
            return None
        return UNSCHEDULABLE

    def filter_rows(self, state: CycleState, pod: Pod, table: NodeTableView, rows: Rows) -> Codes:
        """Columnar form of `filter`."""
        if tolerates_cordon(pod.signature.tolerations):
            return all_pass(rows)
        return table.unschedulable[selector(table, rows)].astype(np.int32)

    def filter_status(self, state: CycleState, pod: Pod, code: int) -> Status:
        """Return the only rejection there is."""
        return UNSCHEDULABLE

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Register for schedulable and uncordoned nodes, and for the pod's own new tolerations."""
        return (
            ClusterEventWithHint(
                ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_TAINT),
                _after_node_change,
                per_signature=True,
            ),
            ClusterEventWithHint(
                ClusterEvent(EventResource.TARGET_POD, ActionType.UPDATE_POD_TOLERATION),
                _after_toleration_change,
                per_signature=True,
            ),
        )


def tolerates_cordon(tolerations: Sequence[Toleration]) -> bool:
    """Whether a toleration covers the taint `node.kubernetes.io/unschedulable:NoSchedule`."""
    return any(tolerates(each, _CORDONED) for each in tolerations)


def _after_node_change(_pod: Pod, old: Node | None, new: Node) -> QueueingHint:
    opened = not new.spec.unschedulable and (old is None or old.spec.unschedulable)
    return queue_if(opened)


def _after_toleration_change(pod: Pod, _old: Any, new: Any) -> QueueingHint:
    return queue_if(same_pod(pod, new) and tolerates_cordon(new.spec.tolerations))
