"""The numeric columns of the node table and their growth by doubling."""

from __future__ import annotations

import numpy as np

from scheduler.cache.scalar_amounts import ScalarAmounts
from scheduler.framework.nodes import BoolColumn, Int32Column, Int64Column

NATIVE_RESOURCES = 3
"""CPU, memory, ephemeral storage: the rows of `allocatable` and `requested`."""

_FIRST_CAPACITY = 64


class NumericColumns:
    """Plain arrays, one entry per row. A reference held across growth is a stale array."""

    __slots__ = (
        "allocatable",
        "capacity",
        "non_zero_requested",
        "pod_count",
        "pod_limit",
        "requested",
        "scalar_allocatable",
        "scalar_requested",
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
        shape = (NATIVE_RESOURCES, capacity)
        self.allocatable: Int64Column = np.zeros(shape, dtype=np.int64)
        self.requested: Int64Column = np.zeros(shape, dtype=np.int64)
        self.scalar_allocatable = ScalarAmounts(capacity)
        self.scalar_requested = ScalarAmounts(capacity)

    def grow_rows(self, capacity: int) -> None:
        """Make room for at least `capacity` rows."""
        while self.capacity < capacity:
            self.capacity *= 2
        for name in ("valid", "unschedulable", "taint_set", "pod_count", "pod_limit"):
            setattr(self, name, _extended(getattr(self, name), self.capacity))
        for name in ("non_zero_requested", "allocatable", "requested"):
            setattr(self, name, _extended(getattr(self, name), self.capacity))
        self.scalar_allocatable.grow(self.capacity)
        self.scalar_requested.grow(self.capacity)

    def clear_row(self, row: int) -> None:
        """Reset what a node brings but for scalar resources; usage stays, it belongs to pods."""
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
            if isinstance(getattr(self, name), np.ndarray | ScalarAmounts)
        )


def _extended(array: np.ndarray, capacity: int) -> np.ndarray:
    """A copy with `capacity` entries on the last axis, zero-filled."""
    grown = np.zeros((*array.shape[:-1], capacity), dtype=array.dtype)
    grown[..., : array.shape[-1]] = array
    return grown
