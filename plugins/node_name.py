"""NodeName: a pod that names its node fits there only (plugins.md 4.3).

Nothing is narrowed in PreFilter, as upstream: every node is filtered and says so. Pods from the
API server that name a node are placed already, so this matters for replayed and simulated pods.
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
    args_type: ClassVar[type[NoArgs]] = NoArgs
    # True of pods that name no node. Those that do are not shared work: like pinned pods they must
    # be evaluated on their own, because the name belongs to the pod and not to its signature.
    filter_reuse: ClassVar[ReuseRule | None] = ReuseRule(Columns.EXISTENCE)

    def __init__(self, args: NoArgs | None, handle: Handle) -> None:
        pass

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Reject every node but the named one."""
        required = pod.spec.node_name
        return OTHER_NODE if required and required != node.name else None

    def filter_rows(self, state: CycleState, pod: Pod, table: NodeTableView, rows: Rows) -> Codes:
        """As `filter`."""
        required = pod.spec.node_name
        if not required:
            return all_pass(rows)
        return (~is_node(table, rows, required)).astype(np.int32)

    def filter_status(self, state: CycleState, pod: Pod, code: int) -> Status:
        """The one rejection."""
        return OTHER_NODE

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """The named node may appear."""
        return (ClusterEventWithHint(ClusterEvent(EventResource.NODE, ActionType.ADD)),)
