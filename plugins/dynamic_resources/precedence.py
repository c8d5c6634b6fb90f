"""The order of allocations, for conflicts between schedulers that allocate the same devices.

The API server accepts every allocation, even of one device to two claims, of more capacity than a
shared device has, or of more partitions than the counters of a pool allow. The watch shows all
allocations in the order of the writes to every scheduler, so the schedulers agree on which are
late, and deallocate these.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from plugins.dynamic_resources.allocated import AllocatedDevices
from plugins.dynamic_resources.counters import remaining_counters
from plugins.dynamic_resources.devices import DeviceView
from plugins.dynamic_resources.features import Features
from plugins.dynamic_resources.pools import Pool, PoolKey, SliceIndex
from scheduler.api.devices import AllocationResult, ResourceClaim

_UNKNOWN = 0
"""Order of allocations that existed when their claim was first seen."""


class Precedence:
    """The order of the allocations, from the events of claims."""

    def __init__(self, features: Features, allocated: AllocatedDevices, slices: SliceIndex) -> None:
        self._features = features
        self._allocated = allocated
        self._slices = slices
        #: By the UID of the claim.
        self._order: dict[str, int] = {}
        self._events = 0

    def event(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        """Handle an event of the watch."""
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._order.pop(old.metadata.uid, None)
        if new is None:
            return
        uid, version = new.metadata.uid, new.metadata.resource_version
        if new.status.allocation is None:
            self._order.pop(uid, None)
        elif uid not in self._order:
            self._events += 1
            order = int(version) if version.isdecimal() else self._events
            is_known = old is not None and old.metadata.uid == uid
            self._order[uid] = order if is_known else _UNKNOWN

    def is_late(self, uid: str) -> bool:
        """Whether earlier allocations leave no room for the allocation of a claim.

        If the order is unknown, all conflicting ones are late: it is safe to deallocate them all.
        """
        own, allocation = self._order.get(uid), self._allocated.stored().get(uid)
        if own is None or allocation is None or not self._is_crowded(allocation, self._allocated):
            return False
        pools = _pools_of(allocation)
        earlier = AllocatedDevices(self._features)
        for other, held in self._allocated.stored().items():
            is_earlier = other == uid or self._order.get(other, math.inf) <= own
            if is_earlier and not pools.isdisjoint(_pools_of(held)):
                earlier.begin(other, held)
        return self._is_crowded(allocation, earlier)

    def begin_trial(self) -> Callable[[], None]:
        """Return a function that restores the present order after a trial."""
        before = dict(self._order)

        def restore() -> None:
            self._order = before

        return restore

    # -- room ------------------------------------------------------------------------------------

    def _is_crowded(self, allocation: AllocationResult, allocated: AllocatedDevices) -> bool:
        """Whether a device of the allocation, or the counters of its pool, are overcommitted."""
        counted: set[PoolKey] = set()
        for each in allocated.held_by(allocation):
            if allocated.holders(each) > 1 and not allocated.is_shared_only(each):
                return True
            device = self._slices.device(each)
            if device is None:
                continue
            if _exceeds(device, allocated):
                return True
            if device.consumption:
                counted.add((each.driver, each.pool))
        return self._features.partitionable_devices and any(
            self._lacks_counters(each, allocated) for each in counted
        )

    def _lacks_counters(self, key: PoolKey, allocated: AllocatedDevices) -> bool:
        views = list(self._slices.of_pool(key))
        newest = max((each.generation for each in views), default=0)
        kept = [each for each in views if each.generation == newest]
        pool = Pool(*key)
        pool.counter_slices = [each for each in kept if each.counters]
        pool.devices = [device for each in kept for device in each.devices]
        remaining = remaining_counters(pool, allocated.is_allocated)
        return any(amount < 0 for each in remaining.values() for amount in each.values())


def _exceeds(device: DeviceView, allocated: AllocatedDevices) -> bool:
    capacity = device.capacity
    return any(
        name in capacity and amount.nano > capacity[name].value.nano
        for name, amount in allocated.consumed_of(device.id).items()
    )


def _pools_of(allocation: AllocationResult) -> set[PoolKey]:
    return {(each.driver, each.pool) for each in allocation.devices.results}
