"""The numeric columns of the node table and their growth by doubling."""

from __future__ import annotations

import numpy as np

from scheduler.framework.nodes import BoolColumn, Int32Column, Int64Column

FIRST_SCALAR = 3
_FIRST_CAPACITY = 64
_FIRST_RESOURCES = 4


class NumericColumns:
    """Plain arrays, one entry per row. A reference held across growth is a stale array."""

    __slots__ = (
        "allocatable",
        "capacity",
        "non_zero_requested",
        "pod_count",
        "pod_limit",
        "requested",
        "resource_indexes",
        "resource_names",
        "taint_set",
        "unschedulable",
        "valid",
    )

    def __init__(self, capacity: int = _FIRST_CAPACITY) -> None:
        self.capacity = capacity
        self.valid: BoolColumn = np.zeros(capacity, dtype=np.bool_)
        self.unschedulable: BoolColumn = np.zeros(capacity, dtype=np.bool_)
        self.taint_set: Int32Column = np.zeros(capacity, dtype=np.int32)
        self.pod_count: Int64Column = np.zeros(capacity, dtype=np.int64)
        self.pod_limit: Int64Column = np.zeros(capacity, dtype=np.int64)
        self.non_zero_requested: Int64Column = np.zeros((2, capacity), dtype=np.int64)
        self.allocatable: Int64Column = np.zeros((_FIRST_RESOURCES, capacity), dtype=np.int64)
        self.requested: Int64Column = np.zeros((_FIRST_RESOURCES, capacity), dtype=np.int64)
        #: Index of every scalar resource seen; cpu, memory and ephemeral-storage are 0, 1, 2.
        self.resource_indexes: dict[str, int] = {"cpu": 0, "memory": 1, "ephemeral-storage": 2}
        self.resource_names: list[str] = ["cpu", "memory", "ephemeral-storage"]

    def grow_rows(self, capacity: int) -> None:
        """Make room for at least `capacity` rows."""
        while self.capacity < capacity:
            self.capacity *= 2
        for name in ("valid", "unschedulable", "taint_set", "pod_count", "pod_limit"):
            setattr(self, name, _extended(getattr(self, name), self.capacity))
        for name in ("non_zero_requested", "allocatable", "requested"):
            setattr(self, name, _extended(getattr(self, name), self.capacity))

    def resource(self, name: str) -> int:
        """The index of a resource, adding its column on first sight."""
        found = self.resource_indexes.get(name)
        if found is not None:
            return found
        index = len(self.resource_names)
        self.resource_indexes[name] = index
        self.resource_names.append(name)
        if index >= len(self.allocatable):
            for column in ("allocatable", "requested"):
                block = getattr(self, column)
                grown = np.zeros((2 * len(block), self.capacity), dtype=np.int64)
                grown[: len(block)] = block
                setattr(self, column, grown)
        return index

    def clear_row(self, row: int) -> None:
        """Reset what a node brings; usage stays, it belongs to pods."""
        self.valid[row] = False
        self.unschedulable[row] = False
        self.taint_set[row] = 0
        self.pod_limit[row] = 0
        self.allocatable[:, row] = 0

    @property
    def nbytes(self) -> int:
        """Bytes held by the arrays."""
        return sum(
            getattr(self, name).nbytes
            for name in self.__slots__
            if isinstance(getattr(self, name), np.ndarray)
        )


def _extended(array: np.ndarray, capacity: int) -> np.ndarray:
    """A copy with `capacity` entries on the last axis, zero-filled."""
    grown = np.zeros((*array.shape[:-1], capacity), dtype=array.dtype)
    grown[..., : array.shape[-1]] = array
    return grown
