"""Amounts of a device's capacities that a request consumes.

Upstream: `consumable_capacity.go`, gate DRAConsumableCapacity.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from plugins.dynamic_resources.devices import Capacity, DeviceView
from scheduler.api.quantity import NANO, Quantity

Amounts = dict[str, Quantity]
"""Amounts by capacity name."""

_MAX_INT64: Final = (1 << 63) - 1
_NOT_REPRESENTABLE: Final = (
    "capacity request cannot be represented in the device's range arithmetic"
)


class AmountError(ValueError):
    """An amount with which upstream's allocator ends the attempt instead of trying others."""


def consumption(
    device: DeviceView,
    requested: Mapping[str, Quantity],
    consumed: tuple[Mapping[str, Quantity], ...],
) -> Amounts | None:
    """Return what a request consumes of each capacity of a device; None if too little is left.

    `consumed` has the amounts that other claims and other requests consume already. Raises
    `AmountError` for an amount that is negative or too large to be rounded.
    """
    if not requested.keys() <= device.capacity.keys():
        return None
    amounts: Amounts = {}
    for name, capacity in device.capacity.items():
        try:
            amounts[name] = _amount(capacity, requested.get(name))
        except AmountError as error:
            raise AmountError(f'capacity "{name}": {error}') from None
        if amounts[name].nano < 0:
            raise AmountError(f'capacity "{name}": capacity value is negative')
    for name, capacity in device.capacity.items():
        amount = amounts[name]
        if _violates(capacity, amount):
            return None
        total = amount.nano + sum(each[name].nano for each in consumed if name in each)
        if total > capacity.value.nano:
            return None
    return amounts


def _amount(capacity: Capacity, asked: Quantity | None) -> Quantity:
    """Return the amount that a request of `asked` consumes under the capacity's policy."""
    if asked is None:
        return capacity.value if capacity.default is None else capacity.default
    if capacity.minimum is not None:
        return _stepped(capacity.minimum, capacity.step, asked)
    for each in capacity.valid_values:
        if each.nano >= asked.nano:
            return each
    return asked


def _stepped(minimum: Quantity, step: Quantity | None, asked: Quantity) -> Quantity:
    if asked.nano < minimum.nano:
        return minimum
    if step is None or step.value() <= 0:
        return asked
    if asked.nano > _MAX_INT64 * NANO:
        raise AmountError(f"{_NOT_REPRESENTABLE}: request {asked} exceeds MaxInt64")
    low, width = minimum.value(), step.value()
    steps = -(-(asked.value() - low) // width)
    rounded = low + width * steps
    if rounded > _MAX_INT64:
        raise AmountError(
            f"{_NOT_REPRESENTABLE}: rounding request {asked} up to the next step passes MaxInt64"
        )
    return Quantity(rounded * NANO, step.format)


def _violates(capacity: Capacity, amount: Quantity) -> bool:
    if not capacity.has_policy or amount == capacity.default:
        return False
    if capacity.minimum is not None:
        if capacity.maximum is not None and amount.nano > capacity.maximum.nano:
            return True
        step = capacity.step
        return bool(
            step is not None
            and step.value() > 0
            and (amount.value() - capacity.minimum.value()) % step.value()
        )
    return bool(capacity.valid_values) and amount not in capacity.valid_values
