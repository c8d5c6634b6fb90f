"""NodePorts: rejects nodes where a requested host port is in use (upstream `node_ports.go`).

The table indexes holders by port, so the cost of a pod depends on the holders of its ports, not on
the number of nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import numpy as np

from plugins.details import listed
from plugins.queueing_hints import is_placed, queue_if
from plugins.row_selection import FEW, all_pass
from scheduler.api.pod import Pod
from scheduler.api.ports import ANY_IP, HostPort, conflicts
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
    Int64Column,
    NoArgs,
    NodeInfo,
    NodeTableView,
    QueueingHint,
    RejectedNodes,
    ReuseRule,
    Rows,
    Status,
    TableWithoutVictims,
    plugin_names,
    unschedulable,
)

NO_FREE_PORT: Final = unschedulable("node(s) didn't have free ports for the requested pod ports")


class NodePorts:
    """Compares requested host ports with those in use."""

    name: ClassVar[str] = plugin_names.NODE_PORTS
    pre_filter_reusable: ClassVar[bool] = True
    filter_reuse: ClassVar[ReuseRule | None] = ReuseRule(Columns.PORTS)

    def __init__(self, args: NoArgs | None, handle: Handle) -> None:
        pass

    def pre_filter(self, state: CycleState, pod: Pod, table: NodeTableView) -> Status | None:
        """Skip a pod without host ports."""
        return None if pod.signature.host_ports else SKIP

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Reject a node where a requested port is in use."""
        used = node.used_ports
        for ip, protocol, port in pod.signature.host_ports:
            if _taken(used.get((protocol, port)), ip):
                return NO_FREE_PORT
        return None

    def capacity_rows(self, pod: Pod, table: NodeTableView, rows: Rows) -> Int64Column:
        """Return 1 for each row: a second pod finds the ports of the first in use."""
        return np.ones(len(rows), dtype=np.int64)

    def filter_rows(self, state: CycleState, pod: Pod, table: NodeTableView, rows: Rows) -> Codes:
        """Columnar form of `filter`."""
        used = table.host_ports
        contested = [
            (ip, used[protocol, port])
            for ip, protocol, port in pod.signature.host_ports
            if (protocol, port) in used
        ]
        if not contested:
            return all_pass(rows)
        if len(rows) <= FEW:
            return np.array(
                [any(_taken(by_row.get(row), ip) for ip, by_row in contested) for row in rows],
                dtype=np.int32,
            )
        taken = np.zeros(table.capacity, dtype=np.int32)
        for ip, by_row in contested:
            for row, holders in by_row.items():
                if _taken(holders, ip):
                    taken[row] = 1
        codes: Codes = taken[rows]
        return codes

    def filter_without_victims(
        self, state: CycleState, pod: Pod, table: TableWithoutVictims, rows: Rows
    ) -> Codes:
        """`filter_rows` with the ports of each row's potential victims released."""
        taken = np.zeros(len(rows), dtype=np.int32)
        for ip, protocol, port in pod.signature.host_ports:
            for held, kept in table.remaining_ports(protocol, port).items():
                if ANY_IP in (ip, held) or ip == held:
                    taken |= kept[rows]
        return taken

    def filter_status(self, state: CycleState, pod: Pod, code: int) -> Status:
        """Return the only rejection there is."""
        return NO_FREE_PORT

    def explain_rejection(
        self, state: CycleState, pod: Pod, table: NodeTableView, rejected: RejectedNodes
    ) -> str:
        """Return which ports are in use on how many of the nodes, and on one node by which pod."""
        used, rows = table.host_ports, rejected.rows.tolist()
        texts = []
        for ip, protocol, port in pod.signature.host_ports:
            by_row = used.get((protocol, port), {})
            taken = [row for row in rows if _taken(by_row.get(row), ip)]
            if taken:
                owner = _owner(table.node_info(taken[0]), ip, protocol, port)
                texts.append(
                    f"{protocol} {port} on {len(taken)}, on {table.names[taken[0]]} by {owner}"
                )
        return listed(texts, len(texts), "; ")

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Register for deleted pods that held a requested port, and for added nodes."""
        return (
            ClusterEventWithHint(
                ClusterEvent(EventResource.ASSIGNED_POD, ActionType.DELETE),
                _after_pod_delete,
                per_signature=True,
            ),
            ClusterEventWithHint(ClusterEvent(EventResource.NODE, ActionType.ADD)),
        )


def _taken(holders: Mapping[str, int] | None, ip: str) -> bool:
    """Whether `holders` of a port exclude `ip`; the wildcard address excludes every other."""
    return bool(holders and (ip == ANY_IP or ip in holders or ANY_IP in holders))


def _owner(node: NodeInfo, ip: str, protocol: str, port: int) -> str:
    """Return the pod that holds a port."""
    wanted = HostPort(ip, protocol, port)
    for pod in node.pods:
        if conflicts(pod.signature.host_ports, wanted):
            return pod.key
    return "another pod"


def _after_pod_delete(pod: Pod, old: Pod, _new: Any) -> QueueingHint:
    freed = old.signature.host_ports
    return queue_if(
        is_placed(old) and any(conflicts(freed, each) for each in pod.signature.host_ports)
    )
