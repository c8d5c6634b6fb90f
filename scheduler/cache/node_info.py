"""The two implementations of NodeInfo: a live view of a row, and an overlay for what-ifs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from scheduler.api.node import Node, Taint
from scheduler.api.pod import Pod
from scheduler.api.ports import HostPort
from scheduler.api.requests import Resources
from scheduler.framework.nodes import ImageState

if TYPE_CHECKING:
    from scheduler.cache.node_table import NodeTable


class NodeView:
    """Scalar access to one row of the live table, without copies; valid only during a call."""

    __slots__ = ("_row", "_table")

    def __init__(self, table: NodeTable, row: int) -> None:
        self._table = table
        self._row = row

    @property
    def node(self) -> Node:
        """The node object."""
        node = self._table.nodes[self._row]
        if node is None:
            msg = f"row {self._row} ({self._table.names[self._row] or 'free'}) is not a node"
            raise LookupError(msg)
        return node

    @property
    def name(self) -> str:
        """The node's name."""
        return self._table.names[self._row]

    @property
    def row(self) -> int:
        """The row in the table."""
        return self._row

    @property
    def pods(self) -> Collection[Pod]:
        """Pods bound or assumed here."""
        return self._table.pods[self._row].values()

    @property
    def pod_count(self) -> int:
        """Number of pods."""
        return len(self._table.pods[self._row])

    @property
    def allowed_pod_number(self) -> int:
        """Allocatable `pods`."""
        return int(self._table.pod_limit[self._row])

    @property
    def allocatable(self) -> Resources:
        """Allocatable resources."""
        return self._table.resources[self._row]

    @property
    def requested(self) -> Resources:
        """Sum over the pods."""
        return self._table.requested_of(self._row)

    @property
    def non_zero_requested(self) -> tuple[int, int]:
        """CPU and memory with defaults, summed over the pods."""
        cpu, memory = self._table.non_zero_requested[:, self._row].tolist()
        return cpu, memory

    @property
    def labels(self) -> Mapping[str, str]:
        """Labels of the node."""
        return self.node.metadata.labels

    @property
    def taints(self) -> tuple[Taint, ...]:
        """Taints of the node."""
        return self.node.spec.taints

    @property
    def unschedulable(self) -> bool:
        """`spec.unschedulable`."""
        return self.node.spec.unschedulable

    @property
    def used_ports(self) -> Mapping[tuple[str, int], Mapping[str, int]]:
        """Host ports in use."""
        return self._table.ports.by_row.get(self._row, {})

    @property
    def image_states(self) -> Mapping[str, ImageState]:
        """Every image of the cluster; this node's are those whose rows contain `row`."""
        return self._table.images

    @property
    def declared_features(self) -> frozenset[str]:
        """Declared features."""
        return self._table.declared_features[self._row]

    @property
    def pvc_ref_counts(self) -> Mapping[str, int]:
        """`namespace/claim` to the number of pods here that use it."""
        return Counter(
            f"{pod.metadata.namespace}/{claim}"
            for pod in self.pods
            for claim in pod.signature.claims
        )


class NodeOverlay(NodeView):
    """A private copy of a node's pods; adding and removing pods does not change the table."""

    __slots__ = ("_freed_ports", "_pods", "_requested")

    def __init__(self, table: NodeTable, row: int) -> None:
        super().__init__(table, row)
        self._pods = dict(table.pods[row])
        #: Updated incrementally: a what-if reads it after each addition and removal.
        self._requested = table.requested_of(row)
        #: Ports of removed pods. Upstream keeps ports as a set (`HostPortInfo`), so a port is free
        #: once any of its holders is removed.
        self._freed_ports: frozenset[HostPort] = frozenset()

    def copy(self) -> NodeOverlay:
        """Return another overlay with the same pods."""
        other = NodeOverlay(self._table, self._row)
        other._pods = dict(self._pods)
        other._requested = self._requested
        other._freed_ports = self._freed_ports
        return other

    def add_pod(self, pod: Pod) -> None:
        """Add `pod` to the overlay, in place of an earlier version of it."""
        self.remove_pod(pod)
        self._pods[pod.metadata.uid] = pod
        self._requested = _changed(self._requested, pod.signature.assigned, 1)
        if self._freed_ports:
            self._freed_ports = self._freed_ports.difference(pod.signature.host_ports)

    def remove_pod(self, pod: Pod) -> None:
        """Remove `pod` from the overlay like upstream's RemovePod, which frees its ports."""
        known = self.leave_out(pod)
        if known is not None and known.signature.host_ports:
            self._freed_ports = self._freed_ports.union(known.signature.host_ports)

    def leave_out(self, pod: Pod) -> Pod | None:
        """Remove `pod` without freeing ports that other pods hold; return it, None if unknown."""
        known = self._pods.pop(pod.metadata.uid, None)
        if known is not None:
            self._requested = _changed(self._requested, known.signature.assigned, -1)
        return known

    @property
    def pods(self) -> Collection[Pod]:
        """Pods of the what-if."""
        return self._pods.values()

    @property
    def pod_count(self) -> int:
        """Number of pods in the what-if."""
        return len(self._pods)

    @property
    def requested(self) -> Resources:
        """Sum over the pods of the what-if."""
        return self._requested

    @property
    def non_zero_requested(self) -> tuple[int, int]:
        """CPU (millicores) and memory (bytes), with defaults, of the pods of the what-if."""
        pairs = [pod.signature.non_zero for pod in self._pods.values()]
        return sum(cpu for cpu, _ in pairs), sum(memory for _, memory in pairs)

    @property
    def used_ports(self) -> Mapping[tuple[str, int], Mapping[str, int]]:
        """Host ports in use in the what-if."""
        used: dict[tuple[str, int], dict[str, int]] = {}
        for pod in self._pods.values():
            for ip, protocol, port in pod.signature.host_ports:
                if (ip, protocol, port) in self._freed_ports:
                    continue
                counts = used.setdefault((protocol, port), {})
                counts[ip] = counts.get(ip, 0) + 1
        return used


def _changed(total: Resources, amounts: Resources, sign: int) -> Resources:
    """Add (`sign` 1) or subtract (-1) `amounts`; scalar resources that become 0 are dropped."""
    scalars = total.scalars
    if amounts.scalars:
        by_name = dict(scalars)
        for name, amount in amounts.scalars:
            by_name[name] = by_name.get(name, 0) + sign * amount
        scalars = tuple(sorted((name, each) for name, each in by_name.items() if each))
    return Resources(
        milli_cpu=total.milli_cpu + sign * amounts.milli_cpu,
        memory=total.memory + sign * amounts.memory,
        ephemeral_storage=total.ephemeral_storage + sign * amounts.ephemeral_storage,
        scalars=scalars,
    )
