"""The pools of devices that a node can access.

Upstream: `pools_incubating.go: GatherPools`. A pool is usable if all slices of its newest
generation are known and consistent.

Slices with counters apply to all nodes, so each node sees the counters of every pool. A pool
without devices for a node matters to that node only if the pool is unusable, which may cause an
error. This does not depend on the node, so it is computed once for all nodes, and the work per node
is linear in the slices with devices that the node may access.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from plugins.dynamic_resources.budget import Check
from plugins.dynamic_resources.devices import DeviceID, DeviceView, NodeSelection, SliceView
from plugins.dynamic_resources.errors import AllocationError
from plugins.dynamic_resources.features import Features
from scheduler.api.node import Node
from scheduler.api.selectors import SelectorError

PoolKey = tuple[str, str]
"""Driver and name of the pool."""
Reach = tuple[bool, ...]
"""For each node selector of slices whether it matches a node."""

MAX_SELECTORS: Final = 64
"""With more node selectors than this, nodes do not share results."""


@dataclass(slots=True, eq=False)
class Pool:
    """A pool with the devices that one node can access."""

    driver: str
    name: str
    #: Devices that the node may access, in the order of allocation.
    devices: list[DeviceView] = field(default_factory=list)
    #: Slices with the counters that the devices share.
    counter_slices: list[SliceView] = field(default_factory=list)
    #: Devices of other nodes, which may consume the same counters.
    other_devices: list[DeviceView] = field(default_factory=list)
    #: Whether the driver is still publishing it.
    is_incomplete: bool = False
    #: Why its slices are inconsistent; empty if they are consistent.
    invalid_reason: str = ""

    @property
    def key(self) -> PoolKey:
        """Its identity: pools of two drivers may have one name."""
        return self.driver, self.name

    @property
    def is_usable(self) -> bool:
        """Whether devices of the pool can be allocated."""
        return not self.is_incomplete and not self.invalid_reason


class SliceIndex:
    """All slices of the cluster, indexed for the allocator."""

    def __init__(self, slices: Iterable[SliceView] = ()) -> None:
        self._by_name: dict[str, SliceView] = {}
        self._local: dict[str, dict[str, SliceView]] = {}
        #: Slices with devices that may concern any node.
        self._shared: dict[str, SliceView] = {}
        #: Names of the slices with counters, by pool.
        self._counters: dict[PoolKey, set[str]] = {}
        self._pools: dict[PoolKey, dict[str, SliceView]] = {}
        #: By content of a node selector: the shared slices that have it, by name.
        self._selectors: dict[bytes, dict[str, NodeSelection]] = {}
        self._per_device: set[str] = set()
        for each in slices:
            self.set(each)

    def set(self, view: SliceView) -> None:
        """Add a slice, or replace the slice with the same name."""
        self.remove(view.name)
        if view.is_ignored:
            return
        self._by_name[view.name] = view
        self._home(view)[view.name] = view
        self._pools.setdefault((view.driver, view.pool), {})[view.name] = view
        if view.counters:
            self._counters.setdefault((view.driver, view.pool), set()).add(view.name)
        if not view.nodes.node_name:
            if view.per_device:
                self._per_device.add(view.name)
            if view.nodes.selector is not None:
                content = msgspec.json.encode(view.nodes.selector)
                self._selectors.setdefault(content, {})[view.name] = view.nodes

    def remove(self, name: str) -> None:
        """Remove a slice if it is present."""
        view = self._by_name.pop(name, None)
        if view is None:
            return
        self._home(view).pop(name)
        self._per_device.discard(name)
        if view.nodes.selector is not None:
            content = msgspec.json.encode(view.nodes.selector)
            if self._selectors.get(content, {}).pop(name, None) and not self._selectors[content]:
                del self._selectors[content]
        if not self._local.get(view.nodes.node_name, True):
            del self._local[view.nodes.node_name]
        key = (view.driver, view.pool)
        if view.counters:
            self._counters[key].discard(name)
            if not self._counters[key]:
                del self._counters[key]
        del self._pools[key][name]
        if not self._pools[key]:
            del self._pools[key]

    def __len__(self) -> int:
        return len(self._by_name)

    def for_node(self, name: str) -> Iterator[SliceView]:
        """Yield the slices with local devices of a node, and those that may concern any node."""
        yield from self._local.get(name, {}).values()
        yield from self._shared.values()

    def of_pool(self, key: PoolKey) -> Iterable[SliceView]:
        """Return all slices of a pool."""
        return self._pools.get(key, {}).values()

    def has_counters(self, key: PoolKey) -> bool:
        """Whether a pool has counters, which apply to all nodes with devices of it."""
        return key in self._counters

    def device(self, wanted: DeviceID) -> DeviceView | None:
        """Return a device of the newest generation of its pool; None if it does not exist."""
        views = self.of_pool((wanted.driver, wanted.pool))
        newest = max((each.generation for each in views), default=0)
        found = (each.device(wanted.device) for each in views if each.generation == newest)
        return next((each for each in found if each is not None), None)

    def nodes_of_pool(self, key: PoolKey) -> frozenset[str] | None:
        """Return the only nodes that can access devices of a pool; None if there may be others."""
        names = set()
        for view in self.of_pool(key):
            if view.counters:
                continue
            if not view.is_local:
                return None
            names.add(view.nodes.node_name)
        return frozenset(names)

    def reach(self, node: Node) -> Reach | None:
        """Return a key that is equal for nodes that share a result; None: not shareable."""
        if node.metadata.name in self._local or self._per_device:
            return None
        if len(self._selectors) > MAX_SELECTORS:
            return None
        try:
            return tuple(
                next(iter(each.values())).matches(node) for each in self._selectors.values()
            )
        except SelectorError:
            return None

    @property
    def all_local(self) -> bool:
        """Whether the devices of each slice concern a single node."""
        return not self._shared

    def _home(self, view: SliceView) -> dict[str, SliceView]:
        if view.nodes.node_name:
            return self._local.setdefault(view.nodes.node_name, {})
        return self._shared


def gather_pools(
    index: SliceIndex, node: Node, features: Features, check: Check | None = None
) -> list[Pool]:
    """Return the pools with devices for a node, in the order of allocation.

    `check` is called for each slice. Raises `AllocationError` for an invalid node selector.
    """
    relevant: dict[PoolKey, list[SliceView]] = {}
    for view in index.for_node(node.metadata.name):
        if check is not None:
            check()
        if _is_relevant(view, node, features):
            relevant.setdefault((view.driver, view.pool), []).append(view)
    pools: list[Pool] = []
    last = set()
    for key, views in relevant.items():
        if any(each.has_conditions for each in views):
            # Pools with binding conditions come last.
            last.add(key)
        pool = _build(index, key, views, check)
        if pool is not None:
            pools.append(pool)
    pools.sort(key=lambda each: ((each.driver, each.name) in last, each.driver, each.name))
    return pools


def _is_relevant(view: SliceView, node: Node, features: Features) -> bool:
    try:
        if (view.per_device or view.counters) and not features.partitionable_devices:
            return False
        if view.nodes:
            return view.nodes.matches(node)
        return view.per_device and any(each.nodes.matches(node) for each in view.devices)
    except SelectorError as error:
        raise AllocationError(
            "gather pool information: failed to perform node selection for slice "
            f"{view.name}: {error}"
        ) from None


def _build(
    index: SliceIndex, key: PoolKey, views: list[SliceView], check: Check | None
) -> Pool | None:
    """Return the pool made of the slices that apply to a node; None if these are obsolete."""
    pool = Pool(*key)
    newest = max(each.generation for each in views)
    kept = [each for each in views if each.generation == newest]
    kept.sort(key=lambda each: each.name)
    announced = kept[0].slice_count
    others: list[SliceView] = []
    if len(kept) != announced:
        everywhere = list(index.of_pool(key))
        if check is not None:
            check(len(everywhere))
        if any(each.generation > newest for each in everywhere):
            return None
        same = [each for each in everywhere if each.generation == newest]
        names = {each.name for each in kept}
        others = sorted(
            (each for each in same if each.name not in names), key=lambda each: each.name
        )
        if len(same) != announced:
            pool.is_incomplete = True
            return pool
    pool.counter_slices = [each for each in (*kept, *others) if each.counters]
    device_slices = [each for each in kept if not each.counters]
    pool.devices = [device for each in device_slices for device in each.devices]
    pool.other_devices = [device for each in others for device in each.devices]
    if check is not None:
        check(len(pool.devices) + len(pool.other_devices))
    pool.invalid_reason = _contradiction(pool)
    return pool


def _contradiction(pool: Pool) -> str:
    names: set[str] = set()
    for device in pool.devices:
        if device.spec.name in names:
            return f"duplicate device name {device.spec.name}"
        names.add(device.spec.name)
    counter_sets: dict[str, Mapping[str, int]] = {}
    for view in pool.counter_slices:
        for name, amounts in view.counters:
            if name in counter_sets:
                return f"duplicate counter set name {name}"
            counter_sets[name] = amounts
    for device in (*pool.devices, *pool.other_devices):
        for name, consumed in device.consumption.items():
            if name not in counter_sets:
                return f"counter set {name} not found"
            for counter in consumed:
                if counter not in counter_sets[name]:
                    return f"counter {counter} not found in counter set {name}"
    return ""
