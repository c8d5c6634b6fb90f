"""Extended resources that devices serve, as far as NodeResourcesFit has to know of them.

A node with none of such a resource can still run the pod: DynamicResources then allocates devices
of the class (gate DRAExtendedResource). Upstream: `fit.go: shouldDelegateResourceToDRA`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from plugins.dynamic_resources.budget import Check, ExpensiveSelectorsError, SearchBudget
from plugins.dynamic_resources.cluster_devices import ClusterDevices, DeviceChanges
from plugins.dynamic_resources.devices import DeviceView
from plugins.dynamic_resources.errors import AllocationError
from plugins.dynamic_resources.extended_resources import IMPLICIT_PREFIX, classes_by_resource
from plugins.dynamic_resources.features import Features
from plugins.dynamic_resources.permissions import CLASSES
from plugins.dynamic_resources.selectors import SelectorError
from scheduler.api.devices import DeviceClass
from scheduler.api.node import Node
from scheduler.api.requests import is_extended_resource_name
from scheduler.framework import Columns, Handle, Int64Column, NodeTableView, Rows, plugin_names

_COLUMNS: Final = Columns.LABELS | Columns.EXISTENCE
_NONE: Final[Mapping[str, DeviceClass]] = {}


class ServedResources:
    """The class of each resource, computed when a class has changed."""

    def __init__(self, handle: Handle) -> None:
        self.enabled = handle.feature_gates.get("DRAExtendedResource", True)
        self._listers = handle.listers
        self._table = handle.table
        self._version = 0
        self._classes = _NONE

    def resources(self) -> Mapping[str, DeviceClass]:
        """Return the class by the name of the resource; the same object until one changes."""
        version = self._table.version(CLASSES)
        if version != self._version and self.enabled:
            self._version = version
            classes = list(self._listers[CLASSES].list())
            self._classes = classes_by_resource(classes) if classes else _NONE
        return self._classes


class _KeptAmounts:
    """Devices of a resource by row, and how many are taken; -1: unknown."""

    def __init__(self) -> None:
        self.capacity = self.used = np.zeros(0, dtype=np.int64)
        #: Sequences of the two change logs up to which they hold.
        self._nodes = self._devices = -1

    def refresh(self, table: NodeTableView, changes: DeviceChanges) -> None:
        """Forget what may have changed."""
        rows = table.changed_rows(self._nodes, _COLUMNS) if self._nodes >= 0 else None
        names = changes.since(self._devices) if self._devices >= 0 else None
        self._nodes, self._devices = table.sequence, changes.sequence
        if rows is None or names is None or len(self.capacity) != table.capacity:
            self.capacity = np.full(table.capacity, -1, dtype=np.int64)
            self.used = np.zeros(table.capacity, dtype=np.int64)
            return
        self.capacity[rows] = -1
        for name in names:
            row = table.row_of(name)
            if row is not None:
                self.capacity[row] = -1


def _stopped_clock() -> float:
    """Return a time: expensive selectors are counted, not timed."""
    return 0.0


class ServedAmounts:
    """The devices of a node that stand for an extended resource, for the score.

    Upstream: `resource_allocation.go: calculateDRAExtendedResourceAllocatableRequest`. A failing
    expression counts as no device, as there.
    """

    def __init__(self, handle: Handle) -> None:
        features = Features.of_gates(handle.feature_gates)
        self._devices = handle.shared(
            plugin_names.DYNAMIC_RESOURCES, lambda: ClusterDevices(handle, features)
        )
        #: By resource; the strategy names a few.
        self._kept: dict[str, _KeptAmounts] = {}

    @staticmethod
    def may_serve(name: str) -> bool:
        """Whether devices may stand for a resource of this name."""
        return name.startswith(IMPLICIT_PREFIX) or is_extended_resource_name(name)

    def amounts(self, name: str, node: Node) -> tuple[int, int] | None:
        """Return how many devices a node has and how many are taken; None: no class serves it."""
        try:
            return self._amounts(name, node, SearchBudget(_stopped_clock, 0.0))
        except ExpensiveSelectorsError:
            return 0, 0

    def _amounts(self, name: str, node: Node, check: Check) -> tuple[int, int] | None:
        device_class = self._devices.by_resource.get(name)
        if device_class is None:
            return None
        capacity = used = 0
        taken = self._devices.allocated.state()
        try:
            for pool in self._devices.pools_of(node):
                for device in pool.devices if pool.is_usable else ():
                    if self._matches(device_class, device, node, check):
                        capacity += 1
                        used += device.id in taken.exclusive or device.id in taken.shared
        except (AllocationError, SelectorError):
            return 0, 0
        return capacity, used

    def columns(
        self, name: str, table: NodeTableView, rows: Rows
    ) -> tuple[Int64Column, Int64Column] | None:
        """Return `amounts` of many nodes; what did not change since the last call is kept.

        Nodes for which the selectors of the class are too expensive have no devices for now.
        """
        if name not in self._devices.by_resource:
            return None
        kept = self._kept.setdefault(name, _KeptAmounts())
        kept.refresh(table, self._devices.changes)
        unknown = rows[kept.capacity[rows] < 0]
        check = SearchBudget(_stopped_clock, 0.0)
        try:
            for row in unknown.tolist():
                found = self._amounts(name, table.node_info(row).node, check)
                kept.capacity[row], kept.used[row] = found or (0, 0)
        except ExpensiveSelectorsError:
            # The next call continues.
            return np.maximum(kept.capacity[rows], 0), kept.used[rows]
        return kept.capacity[rows], kept.used[rows]

    def _matches(
        self, device_class: DeviceClass, device: DeviceView, node: Node, check: Check
    ) -> bool:
        matches = self._devices.selectors.matches
        return all(
            matches(each.cel.expression, device, check)
            for each in device_class.spec.selectors
            if each.cel is not None
        ) and (not device.slice.per_device or device.nodes.matches(node))
