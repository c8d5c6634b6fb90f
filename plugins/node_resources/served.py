"""Extended resources that devices serve, as far as NodeResourcesFit has to know of them.

A node with none of such a resource can still run the pod: DynamicResources then allocates devices
of the class (gate DRAExtendedResource). Upstream: `fit.go: shouldDelegateResourceToDRA`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from plugins.dynamic_resources.cluster_devices import ClusterDevices
from plugins.dynamic_resources.devices import DeviceView
from plugins.dynamic_resources.errors import AllocationError
from plugins.dynamic_resources.extended_resources import IMPLICIT_PREFIX, classes_by_resource
from plugins.dynamic_resources.features import Features
from plugins.dynamic_resources.permissions import CLASSES
from plugins.dynamic_resources.selectors import SelectorError
from scheduler.api.devices import DeviceClass
from scheduler.api.node import Node
from scheduler.api.requests import is_extended_resource_name
from scheduler.framework import Handle, plugin_names

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

    @staticmethod
    def may_serve(name: str) -> bool:
        """Whether devices may stand for a resource of this name."""
        return name.startswith(IMPLICIT_PREFIX) or is_extended_resource_name(name)

    def amounts(self, name: str, node: Node) -> tuple[int, int] | None:
        """Return how many devices a node has and how many are taken; None: no class serves it."""
        device_class = self._devices.by_resource.get(name)
        if device_class is None:
            return None
        capacity = used = 0
        taken = self._devices.allocated.state()
        try:
            for pool in self._devices.pools_of(node):
                for device in pool.devices if pool.is_usable else ():
                    if self._matches(device_class, device, node):
                        capacity += 1
                        used += device.id in taken.exclusive or device.id in taken.shared
        except (AllocationError, SelectorError):
            return 0, 0
        return capacity, used

    def _matches(self, device_class: DeviceClass, device: DeviceView, node: Node) -> bool:
        matches = self._devices.selectors.matches
        return all(
            matches(each.cel.expression, device)
            for each in device_class.spec.selectors
            if each.cel is not None
        ) and (not device.slice.per_device or device.nodes.matches(node))
