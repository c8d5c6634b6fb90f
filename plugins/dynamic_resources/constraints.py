"""Constraints between the devices of a claim (upstream: `constraint.go`).

The state of a constraint is a stack with one entry for each device that the search has taken, so
that removing the last device restores the state before it.
"""

from __future__ import annotations

from typing import Protocol

from plugins.dynamic_resources.devices import DeviceView, find_attribute
from scheduler.api.devices import DeviceAttribute, DeviceConstraint

Value = tuple[str, object]
"""The kind of an attribute and its value."""


class Constraint(Protocol):
    """A condition on the devices of some requests of a claim."""

    def covers(self, request: str, alternative: str) -> bool:
        """Whether the devices of a request must meet the condition."""
        ...

    def allows(self, device: DeviceView) -> bool:
        """Whether the condition still holds if a device is added."""
        ...

    def add(self, device: DeviceView) -> None:
        """Add a device that is allowed."""
        ...

    def remove(self) -> None:
        """Remove the device that was added last."""
        ...


class _AttributeConstraint:
    """A condition on the values of one attribute, which all devices must have."""

    def __init__(self, requests: tuple[str, ...], name: str, *, lists: bool) -> None:
        self._requests = frozenset(requests)
        self._name = name
        self._lists = lists
        self._stack: list[frozenset[Value]] = []

    def covers(self, request: str, alternative: str) -> bool:
        """See `Constraint`."""
        return (
            not self._requests
            or request in self._requests
            or bool(alternative and f"{request}/{alternative}" in self._requests)
        )

    def remove(self) -> None:
        """See `Constraint`."""
        self._stack.pop()

    def _values(self, device: DeviceView) -> frozenset[Value] | None:
        """Return the values of a device; None if it does not have the attribute."""
        attribute = find_attribute(device, self._name)
        return None if attribute is None else attribute_values(attribute, lists=self._lists)


class MatchAttribute(_AttributeConstraint):
    """Requires all devices to have the same value of an attribute.

    An entry of the stack has the values that the devices up to there have in common.
    """

    def allows(self, device: DeviceView) -> bool:
        """See `Constraint`."""
        values = self._values(device)
        return values is not None and (not self._stack or not values.isdisjoint(self._stack[-1]))

    def add(self, device: DeviceView) -> None:
        """See `Constraint`."""
        values = self._values(device) or frozenset()
        self._stack.append(values & self._stack[-1] if self._stack else values)


class DistinctAttribute(_AttributeConstraint):
    """Requires different values of an attribute for any two devices.

    v1.36.2 keeps the last value of each request only, and forgets it when the search goes back.
    """

    def allows(self, device: DeviceView) -> bool:
        """See `Constraint`."""
        values = self._values(device)
        return values is not None and all(values.isdisjoint(each) for each in self._stack)

    def add(self, device: DeviceView) -> None:
        """See `Constraint`."""
        self._stack.append(self._values(device) or frozenset())


def attribute_values(attribute: DeviceAttribute, *, lists: bool) -> frozenset[Value]:
    """Return the value of an attribute, or with `lists` all values of a list attribute."""
    single: tuple[tuple[str, object], ...] = (
        ("string", attribute.string),
        ("int", attribute.integer),
        ("bool", attribute.boolean),
        ("version", attribute.version),
    )
    for kind, value in single:
        if value is not None:
            return frozenset({(kind, value)})
    if not lists:
        return frozenset()
    several: tuple[tuple[str, tuple[object, ...] | None], ...] = (
        ("string", attribute.strings),
        ("int", attribute.ints),
        ("bool", attribute.bools),
        ("version", attribute.versions),
    )
    for kind, values in several:
        if values is not None:
            return frozenset((kind, each) for each in values)
    return frozenset()


def constraint_of(spec: DeviceConstraint, *, lists: bool) -> Constraint | None:
    """Return the constraint; None if its kind is unknown."""
    if spec.match_attribute is not None:
        return MatchAttribute(spec.requests, spec.match_attribute, lists=lists)
    if spec.distinct_attribute is not None:
        return DistinctAttribute(spec.requests, spec.distinct_attribute, lists=lists)
    return None
