"""Counters that the devices of a pool share (partitionable devices).

Upstream: `allocator_incubating.go: checkAvailableCounters`. A pool is identified by its driver and
its name; v1.36.2 uses the name alone (kubernetes#140434).
"""

from __future__ import annotations

from collections.abc import Callable

from plugins.dynamic_resources.devices import Counters, DeviceID, DeviceView
from plugins.dynamic_resources.pools import Pool, PoolKey

Totals = dict[str, dict[str, int]]
"""Amounts in nano-units, by counter set and counter."""


class CounterTable:
    """Counters that are available and that one search consumes, by pool."""

    def __init__(self, is_allocated: Callable[[DeviceID], bool]) -> None:
        self._is_allocated = is_allocated
        self._available: dict[PoolKey, Totals] = {}
        self._consumed: dict[PoolKey, Totals] = {}
        #: Pools whose counters are overcommitted by allocated devices.
        self._exhausted: set[PoolKey] = set()

    def suffice(self, pool: Pool, device: DeviceView) -> bool:
        """Whether enough is left of the counters that a device consumes.

        All counters of the pool must be within bounds, even those of other counter sets. The latter
        change only with other devices, so checking them once at the start is enough.
        """
        available = self._available.get(pool.key)
        if available is None:
            available = self._available[pool.key] = remaining_counters(pool, self._is_allocated)
            if any(amount < 0 for each in available.values() for amount in each.values()):
                self._exhausted.add(pool.key)
        if pool.key in self._exhausted:
            return False
        consumed = self._consumed.get(pool.key, {})
        return all(
            counter not in left or used.get(counter, 0) + amount <= left[counter]
            for name, amounts in device.consumption.items()
            for left, used in [(available.get(name, {}), consumed.get(name, {}))]
            for counter, amount in amounts.items()
        )

    def take(self, pool: Pool, device: DeviceView) -> None:
        """Consume the counters of a device."""
        _add(self._consumed.setdefault(pool.key, {}), device.consumption, 1)

    def give_back(self, pool: Pool, device: DeviceView) -> None:
        """Give back the counters of a device that was taken."""
        _add(self._consumed[pool.key], device.consumption, -1)


def remaining_counters(pool: Pool, is_allocated: Callable[[DeviceID], bool]) -> Totals:
    """Return the counters of a pool minus those of allocated devices; negative: overcommitted."""
    totals: Totals = {
        name: dict(amounts) for view in pool.counter_slices for name, amounts in view.counters
    }
    for device in (*pool.devices, *pool.other_devices):
        if device.consumption and is_allocated(device.id):
            _add(totals, device.consumption, -1)
    return totals


def _add(totals: Totals, amounts: Counters, factor: int) -> None:
    for name, counters in amounts.items():
        total = totals.setdefault(name, {})
        for counter, amount in counters.items():
            total[counter] = total.get(counter, 0) + factor * amount
