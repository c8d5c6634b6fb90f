"""Allocated devices: those of claims as stored at the API server, and of allocations in flight.

Upstream: `allocateddevices.go`, `dra_manager.go: GatherAllocatedState`. Upstream keeps the devices
of all claims as a set: if two claims hold the same device (after manual edits), the deletion of one
claim frees it. Here the holders of each device are counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from plugins.dynamic_resources.devices import ZERO, DeviceID, quantity
from plugins.dynamic_resources.features import Features
from plugins.dynamic_resources.pools import PoolKey
from plugins.dynamic_resources.search import Allocated
from scheduler.api.devices import (
    AllocationResult,
    DeviceRequestAllocationResult,
    ResourceClaim,
)
from scheduler.api.quantity import Quantity


class AllocatedDevices:
    """The devices of all claims, kept up to date by events of claims.

    It costs nothing in clusters without claims. `state` returns live objects instead of copies,
    since a cycle does not suspend while it uses them.
    """

    def __init__(
        self, features: Features, touched: Callable[[PoolKey], None] = lambda _: None
    ) -> None:
        """`touched` is called with the pool of each device whose holders change."""
        self._features = features
        self._touched = touched
        self._exclusive: Counter[DeviceID] = Counter()
        self._shared: Counter[DeviceID] = Counter()
        self._consumed: dict[DeviceID, dict[str, Quantity]] = {}
        self._by_claim: dict[str, AllocationResult] = {}
        self._in_flight: dict[str, AllocationResult] = {}

    def __len__(self) -> int:
        """Return the number of claims with devices, including allocations in flight."""
        return len(self._by_claim | self._in_flight)

    def claim_changed(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        """Handle an event of a claim; `new` is None if it was deleted."""
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._set(self._by_claim, old.metadata.uid, None, self._in_flight)
        if new is not None:
            uid, allocation = new.metadata.uid, new.status.allocation
            if self._by_claim.get(uid) != allocation:
                self._set(self._by_claim, uid, allocation, self._in_flight)

    def begin(self, uid: str, allocation: AllocationResult) -> None:
        """Add an allocation in flight: it was decided, but is not stored yet."""
        self._set(self._in_flight, uid, allocation, self._by_claim)

    def end(self, uid: str) -> None:
        """Remove an allocation in flight, which was stored or has failed."""
        self._set(self._in_flight, uid, None, self._by_claim)

    def is_in_flight(self, uid: str) -> bool:
        """Whether a claim has an allocation in flight."""
        return uid in self._in_flight

    @property
    def any_in_flight(self) -> bool:
        """Whether any allocation is in flight."""
        return bool(self._in_flight)

    def in_flight(self) -> Iterator[str]:
        """Yield the UIDs of claims with an allocation in flight."""
        yield from self._in_flight

    def stored(self) -> Mapping[str, AllocationResult]:
        """Return the stored allocations by claim UID; a live mapping."""
        return self._by_claim

    def held_by(self, allocation: AllocationResult) -> set[DeviceID]:
        """Return the devices that an allocation holds, exclusively or shared."""
        return {DeviceID(each.driver, each.pool, each.device) for each in _held(allocation)}

    def holders(self, device: DeviceID) -> int:
        """Return the number of allocations that hold a device."""
        return self._exclusive[device] + self._shared[device]

    def is_shared_only(self, device: DeviceID) -> bool:
        """Whether no allocation holds a device exclusively."""
        return device not in self._exclusive

    def is_allocated(self, device: DeviceID) -> bool:
        """Whether any allocation holds a device."""
        return device in self._exclusive or device in self._shared

    def consumed_of(self, device: DeviceID) -> Mapping[str, Quantity]:
        """Return the amounts that claims consume of the capacities of a shared device."""
        return self._consumed.get(device, {})

    def _is_shared(self, result: DeviceRequestAllocationResult) -> bool:
        return self._features.consumable_capacity and result.share_id is not None

    def validate(self) -> None:
        """Raise AssertionError if the counts differ from a recount over the claims."""
        again = AllocatedDevices(self._features)
        for uid, allocation in self._by_claim.items():
            again._set(again._by_claim, uid, allocation, again._in_flight)
        for uid, allocation in self._in_flight.items():
            again._set(again._in_flight, uid, allocation, again._by_claim)
        assert again._exclusive == self._exclusive
        assert again._shared == self._shared
        assert again._consumed == self._consumed

    def state(self) -> Allocated:
        """Return the allocated devices for a search; a live view."""
        return Allocated(self._exclusive.keys(), self._shared.keys(), self._consumed)

    def _set(
        self,
        kept: dict[str, AllocationResult],
        uid: str,
        allocation: AllocationResult | None,
        other: dict[str, AllocationResult],
    ) -> None:
        """Set the allocation of a claim in `kept`; one that is also in `other` counts once."""
        known = kept.pop(uid, None)
        if known is not None and other.get(uid) != known:
            self._count(known, -1)
        if allocation is not None:
            kept[uid] = allocation
            if other.get(uid) != allocation:
                self._count(allocation, 1)

    def _count(self, allocation: AllocationResult, change: int) -> None:
        pools = set()
        for each in _held(allocation):
            device = DeviceID(each.driver, each.pool, each.device)
            pools.add((each.driver, each.pool))
            if self._is_shared(each):
                _change(self._shared, device, change)
                self._consume(device, each, change)
            else:
                _change(self._exclusive, device, change)
        for pool in pools:
            self._touched(pool)

    def _consume(
        self, device: DeviceID, result: DeviceRequestAllocationResult, change: int
    ) -> None:
        totals = self._consumed.setdefault(device, {})
        for name, raw in result.consumed_capacity.items():
            amount = quantity(raw)
            total = totals.get(name, ZERO)
            totals[name] = total + amount if change > 0 else total - amount
        if not any(totals.values()):
            del self._consumed[device]


def _held(allocation: AllocationResult) -> Iterator[DeviceRequestAllocationResult]:
    """Yield the devices that an allocation holds; devices with admin access are not held."""
    results: Iterable[DeviceRequestAllocationResult] = allocation.devices.results
    return (each for each in results if not each.admin_access)


def _change(holders: Counter[DeviceID], device: DeviceID, change: int) -> None:
    holders[device] += change
    if holders[device] <= 0:
        del holders[device]
