"""NodeName: a pod with `spec.nodeName` fits on that node only (upstream `node_name.go`).

Pods from the API server that name a node are bound already: only replayed and simulated pods get
here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

import numpy as np

from plugins.row_selection import all_pass, is_node
from scheduler.api.pod import Pod
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
    PreFilterResult,
    ReuseRule,
    Rows,
    Status,
    plugin_names,
    unresolvable,
)

OTHER_NODE: Final = unresolvable("node(s) didn't match the requested node name")


class NodeName:
    """Compares `spec.nodeName` with the node's name."""

    name: ClassVar[str] = plugin_names.NODE_NAME
    # These hold for pods that name no node. The others are evaluated one by one, like pinned pods,
    # because the name is not part of the signature.
    pre_filter_reusable: ClassVar[bool] = True
    filter_reuse: ClassVar[ReuseRule | None] = ReuseRule(Columns.EXISTENCE)

    def __init__(self, args: NoArgs | None, handle: Handle) -> None:
        pass

    def pre_filter(
        self, state: CycleState, pod: Pod, table: NodeTableView
    ) -> PreFilterResult | None:
        """Select the named node."""
        named = pod.spec.node_name
        return PreFilterResult(frozenset((named,))) if named else None

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Reject every node but the named one."""
        required = pod.spec.node_name
        return OTHER_NODE if required and required != node.name else None

    def filter_rows(self, state: CycleState, pod: Pod, table: NodeTableView, rows: Rows) -> Codes:
        """Columnar form of `filter`."""
        required = pod.spec.node_name
        if not required:
            return all_pass(rows)
        return (~is_node(table, rows, required)).astype(np.int32)

    def filter_status(self, state: CycleState, pod: Pod, code: int) -> Status:
        """Return the only rejection there is."""
        return OTHER_NODE

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Register for added nodes."""
        return (ClusterEventWithHint(ClusterEvent(EventResource.NODE, ActionType.ADD)),)
