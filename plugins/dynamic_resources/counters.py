"""Counters that the devices of a pool share (partitionable devices).

Upstream: `allocator_incubating.go: checkAvailableCounters`. As there, both tables are keyed by the
name of the pool alone, so two drivers with pools of one name share them.
"""

from __future__ import annotations

from collections.abc import Callable

from plugins.dynamic_resources.devices import Counters, DeviceID, DeviceView
from plugins.dynamic_resources.pools import Pool

Totals = dict[str, dict[str, int]]
"""Amounts in nano-units, by counter set and counter."""


class CounterTable:
    """Counters that are available and that one search consumes, by pool."""

    def __init__(self, is_allocated: Callable[[DeviceID], bool]) -> None:
        self._is_allocated = is_allocated
        self._available: dict[str, Totals] = {}
        self._consumed: dict[str, Totals] = {}
        #: Pools whose counters are overcommitted by allocated devices.
        self._exhausted: set[str] = set()

    def take(self, pool: Pool, device: DeviceView) -> bool:
        """Consume the counters of a device; return False, without effect, if too little is left.

        All counters of the pool must then be within bounds, even those of other counter sets. The
        latter change only with other devices, so checking them once at the start is enough.
        """
        available = self._available.get(pool.name)
        if available is None:
            available = self._available[pool.name] = remaining_counters(pool, self._is_allocated)
            if any(amount < 0 for each in available.values() for amount in each.values()):
                self._exhausted.add(pool.name)
        if pool.name in self._exhausted:
            return False
        consumed = self._consumed.setdefault(pool.name, {})
        _add(consumed, device.consumption, 1)
        for name, amounts in device.consumption.items():
            used, left = consumed[name], available.get(name, {})
            for counter in amounts:
                if counter in left and used[counter] > left[counter]:
                    _add(consumed, device.consumption, -1)
                    return False
        return True

    def give_back(self, pool: Pool, device: DeviceView) -> None:
        """Give back the counters of a device that was taken."""
        if device.consumption:
            _add(self._consumed[pool.name], device.consumption, -1)


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
