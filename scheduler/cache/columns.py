"""The per-row storage of the node table, and its growth by doubling."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from scheduler.api.node import Node
from scheduler.api.pod import Pod
from scheduler.api.requests import Resources
from scheduler.cache.scalar_amounts import ScalarAmounts
from scheduler.framework.nodes import BoolColumn, Int32Column, Int64Column, Rows

NATIVE_RESOURCES = 3
"""CPU, memory and ephemeral storage: the first axis of `allocatable` and `requested`."""

NO_FEATURES: frozenset[str] = frozenset()
NO_RESOURCES = Resources()

_FIRST_CAPACITY = 64
_ARRAYS = (
    "valid",
    "unschedulable",
    "taint_set",
    "pod_count",
    "pod_limit",
    "non_zero_requested",
    "allocatable",
    "requested",
)


class NodeColumns:
    """One entry per row in every column. `NodeTableView` documents the public ones.

    Growth replaces arrays: a reference held across a growth is stale.
    """

    def __init__(self, capacity: int = _FIRST_CAPACITY) -> None:
        self.capacity = capacity
        self.valid: BoolColumn = np.zeros(capacity, dtype=np.bool_)
        self.unschedulable: BoolColumn = np.zeros(capacity, dtype=np.bool_)
        self.taint_set: Int32Column = np.zeros(capacity, dtype=np.int32)
        self.pod_count: Int64Column = np.zeros(capacity, dtype=np.int64)
        self.pod_limit: Int64Column = np.zeros(capacity, dtype=np.int64)
        self.non_zero_requested: Int64Column = np.zeros((2, capacity), dtype=np.int64)
        shape = (NATIVE_RESOURCES, capacity)
        self.allocatable: Int64Column = np.zeros(shape, dtype=np.int64)
        self.requested: Int64Column = np.zeros(shape, dtype=np.int64)
        self.scalar_allocatable = ScalarAmounts(capacity)
        self.scalar_requested = ScalarAmounts(capacity)
        #: Node name; empty for free rows. Placeholder rows have one.
        self.names: list[str] = [""] * capacity
        #: Node object; None for placeholder and free rows.
        self.nodes: list[Node | None] = [None] * capacity
        #: `allocatable` as a record.
        self.resources: list[Resources] = [NO_RESOURCES] * capacity
        self.declared_features: list[frozenset[str]] = [NO_FEATURES] * capacity
        #: Pods bound or assumed, by UID; read only outside of this package.
        self.pods: list[dict[str, Pod]] = [{} for _ in range(capacity)]

    def grow_rows(self, capacity: int) -> None:
        """Make room for at least `capacity` rows."""
        while self.capacity < capacity:
            self.capacity *= 2
        for name in _ARRAYS:
            array: np.ndarray = getattr(self, name)
            grown = np.zeros((*array.shape[:-1], self.capacity), dtype=array.dtype)
            grown[..., : array.shape[-1]] = array
            setattr(self, name, grown)
        self.scalar_allocatable.grow(self.capacity)
        self.scalar_requested.grow(self.capacity)
        more = self.capacity - len(self.names)
        self.names += [""] * more
        self.nodes += [None] * more
        self.resources += [NO_RESOURCES] * more
        self.declared_features += [NO_FEATURES] * more
        self.pods += [{} for _ in range(more)]

    def scalar_amounts(self, name: str, index: slice | Rows) -> tuple[Int64Column, Int64Column]:
        """Return (allocatable, requested) of a scalar resource on some rows."""
        return self.scalar_allocatable.of(name, index), self.scalar_requested.of(name, index)

    def scalar_amounts_at(self, name: str, row: int) -> tuple[int, int]:
        """Return (allocatable, requested) of a scalar resource on one row."""
        return self.scalar_allocatable.at(name, row), self.scalar_requested.at(name, row)

    def offers_scalar(self, name: str) -> bool:
        """Whether any node has a non-zero allocatable amount of a scalar resource."""
        return name in self.scalar_allocatable

    @property
    def column_bytes(self) -> int:
        """Bytes of the numeric columns."""
        arrays: int = sum(getattr(self, name).nbytes for name in _ARRAYS)
        return arrays + self.scalar_allocatable.nbytes + self.scalar_requested.nbytes

    def _clear_node(self, row: int) -> None:
        """Reset the columns of the node; usage stays, since it belongs to the pods."""
        self._write_allocatable(row, NO_RESOURCES, 0)
        self.valid[row] = False
        self.unschedulable[row] = False
        self.taint_set[row] = 0
        self.nodes[row] = None
        self.declared_features[row] = NO_FEATURES

    def _write_allocatable(self, row: int, resources: Resources, pods: int) -> None:
        for name, _ in self.resources[row].scalars:
            self.scalar_allocatable.put(name, row, 0)
        for name, amount in resources.scalars:
            self.scalar_allocatable.put(name, row, amount)
        self.resources[row] = resources
        self.allocatable[:, row] = (
            resources.milli_cpu,
            resources.memory,
            resources.ephemeral_storage,
        )
        self.pod_limit[row] = pods

    def _validate_usage(self) -> Iterable[str]:
        """Yield a sentence for every difference from a recount over nodes and pods."""
        for row, pods in enumerate(self.pods):
            if pods and not self.names[row]:
                yield f"row {row} holds {len(pods)} pods but belongs to no node name"
        expected = self._recounted()
        for at, name in enumerate(("cpu", "memory", "ephemeral-storage")):
            if not np.array_equal(expected.requested[at], self.requested[at]):
                yield f"requested {name} differs from the sum over pods"
        for kind in ("scalar_requested", "scalar_allocatable"):
            recounted: dict[tuple[str, int], int] = getattr(expected, kind).nonzero()
            found: dict[tuple[str, int], int] = getattr(self, kind).nonzero()
            for resource, at in sorted({key for key, _ in recounted.items() ^ found.items()}):
                yield f"{kind} of {resource} on row {at} differs from its node and pods"
        if not np.array_equal(expected.pod_count, self.pod_count):
            yield "pod_count differs from the number of pods"
        if not np.array_equal(expected.non_zero_requested, self.non_zero_requested):
            yield "non_zero_requested differs from the sum over pods"

    def _recounted(self) -> NodeColumns:
        expected = NodeColumns(self.capacity)
        for row, pods in enumerate(self.pods):
            for pod in pods.values():
                signature = pod.signature
                expected.pod_count[row] += 1
                expected.non_zero_requested[:, row] += np.array(signature.non_zero, dtype=np.int64)
                assigned = signature.assigned
                expected.requested[:, row] += (
                    assigned.milli_cpu,
                    assigned.memory,
                    assigned.ephemeral_storage,
                )
                for name, amount in assigned.scalars:
                    expected.scalar_requested.add(name, row, amount)
            for name, amount in self.resources[row].scalars:
                expected.scalar_allocatable.put(name, row, amount)
        return expected
