"""Slices and devices in the form that the allocator uses, derived once per version of a slice.

A `SliceView` belongs to one version of a slice; a new version gets a new view.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from scheduler.api.devices import (
    Counter,
    Device,
    DeviceAttribute,
    DeviceCapacity,
    ResourceSlice,
)
from scheduler.api.meta import RawQuantity
from scheduler.api.node import Node
from scheduler.api.node_selectors import CompiledNodeSelector, compile_node_selector
from scheduler.api.pod import NodeSelector
from scheduler.api.quantity import Quantity, QuantityError, parse
from scheduler.api.tolerations import SCHEDULING_EFFECTS

ZERO: Final = Quantity(0)

Counters = Mapping[str, Mapping[str, int]]
"""Amounts in nano-units, by counter set and counter."""


class DeviceID(NamedTuple):
    """The identity of a device in the cluster."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return "/".join(self)


class NodeSelection:
    """The nodes that can access a slice or device: one, all, or those that a selector matches."""

    __slots__ = ("_compiled", "all_nodes", "node_name", "selector")

    def __init__(
        self, node_name: str | None, selector: NodeSelector | None, all_nodes: bool | None
    ) -> None:
        self.node_name = node_name or ""
        self.all_nodes = all_nodes is True
        self.selector = selector
        self._compiled: CompiledNodeSelector | None = None

    def __bool__(self) -> bool:
        return bool(self.node_name) or self.all_nodes or self.selector is not None

    def matches(self, node: Node) -> bool:
        """Whether it includes a node; raises `SelectorError` if the selector is invalid."""
        if self.node_name:
            return self.node_name == node.metadata.name
        if self.all_nodes:
            return True
        if self.selector is None:
            return False
        if self._compiled is None:
            self._compiled = compile_node_selector(self.selector)
        for error in self._compiled.errors:
            raise error
        return self._compiled.matches(node.metadata.labels, node.metadata.name)


class SliceView:
    """One version of a slice."""

    __slots__ = (
        "__weakref__", "_by_name", "counters", "devices", "driver", "generation",
        "has_conditions", "is_ignored", "name", "nodes", "per_device", "pool", "slice_count",
        "source",
    )  # fmt: skip

    def __init__(self, source: ResourceSlice) -> None:
        spec = source.spec
        self.source = source
        self.name = source.metadata.name
        self.driver = spec.driver
        self.pool = spec.pool.name
        self.generation = spec.pool.generation
        #: The number of slices that the pool has in this generation.
        self.slice_count = spec.pool.resource_slice_count
        self.nodes = NodeSelection(spec.node_name, spec.node_selector, spec.all_nodes)
        #: Whether each device has a node selection of its own.
        self.per_device = spec.per_device_node_selection is True
        self.devices = tuple(
            DeviceView(self, position, each) for position, each in enumerate(spec.devices)
        )
        self.has_conditions = any(each.binding_conditions is not None for each in spec.devices)
        self._by_name: dict[str, DeviceView] | None = None
        #: Whether a device can be used only together with others of a group, which is not
        #: supported: the slice counts as missing.
        self.is_ignored = any(
            counters.compatibility_groups
            for each in spec.devices
            for counters in each.consumes_counters
        )
        #: Counter sets of the pool, with duplicates.
        self.counters = [(each.name, _amounts(each.counters)) for each in spec.shared_counters]

    def device(self, name: str) -> DeviceView | None:
        """Return the device with this name, or None."""
        if self._by_name is None:
            self._by_name = {each.spec.name: each for each in self.devices}
        return self._by_name.get(name)

    @property
    def is_local(self) -> bool:
        """Whether the slice concerns one node only; counters concern all nodes of the pool."""
        return bool(self.nodes.node_name) and not self.counters


class DeviceView:
    """One device of a version of a slice."""

    __slots__ = (
        "_capacity", "blocking_taints", "consumption", "id", "nodes", "position", "shareable",
        "slice", "spec",
    )  # fmt: skip

    def __init__(self, view: SliceView, position: int, spec: Device) -> None:
        self.slice = view
        #: Index in the slice.
        self.position = position
        self.spec = spec
        self.id = DeviceID(view.driver, view.pool, spec.name)
        #: Whether several claims may share the device, if the feature is on.
        self.shareable = spec.allow_multiple_allocations is True
        self.nodes = (
            NodeSelection(spec.node_name, spec.node_selector, spec.all_nodes)
            if view.per_device
            else view.nodes
        )
        self.blocking_taints = tuple(
            each for each in spec.taints if each.effect in SCHEDULING_EFFECTS
        )
        #: Amounts that the device consumes of the counters of its pool.
        self.consumption: Counters = {
            each.counter_set: _amounts(each.counters) for each in spec.consumes_counters
        }
        self._capacity: dict[str, Capacity] | None = None

    @property
    def capacity(self) -> Mapping[str, Capacity]:
        """The capacities by name, parsed on first use."""
        if self._capacity is None:
            self._capacity = {name: Capacity(each) for name, each in self.spec.capacity.items()}
        return self._capacity


class Capacity:
    """A capacity of a device, and the policy for requests of it."""

    __slots__ = ("default", "has_policy", "maximum", "minimum", "step", "valid_values", "value")

    def __init__(self, spec: DeviceCapacity) -> None:
        self.value = quantity(spec.value)
        policy = spec.request_policy
        self.has_policy = policy is not None
        limits = policy.valid_range if policy else None
        self.default = _optional(policy.default if policy else None)
        self.minimum = _optional(limits.min if limits else None)
        self.maximum = _optional(limits.max if limits else None)
        self.step = _optional(limits.step if limits else None)
        self.valid_values = [quantity(each) for each in policy.valid_values] if policy else []


def quantity(raw: RawQuantity) -> Quantity:
    """Parse a quantity; an invalid one, which the API server does not store, counts as 0."""
    try:
        return parse(raw)
    except QuantityError:
        return ZERO


def _optional(raw: RawQuantity | None) -> Quantity | None:
    return None if raw is None else quantity(raw)


def _amounts(counters: Mapping[str, Counter]) -> dict[str, int]:
    return {name: quantity(each.value).nano for name, each in counters.items()}


def find_attribute(view: DeviceView, name: str) -> DeviceAttribute | None:
    """Return the attribute with a qualified name, or None.

    Attributes in the driver's own domain may be stored without the domain.
    """
    found = view.spec.attributes.get(name)
    if found is None:
        domain, slash, identifier = name.partition("/")
        if slash and domain == view.slice.driver:
            found = view.spec.attributes.get(identifier)
    return found
