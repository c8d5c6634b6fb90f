"""Constraints between the devices of a claim.

Upstream: `constraint.go`. The state of a constraint changes with each device that the search adds
or removes. Quirks of upstream affect which devices are found, so they are reproduced:
`DistinctAttribute` keeps only one value per request.
"""

from __future__ import annotations

from typing import Protocol

from plugins.dynamic_resources.devices import DeviceView, find_attribute
from scheduler.api.devices import DeviceAttribute, DeviceConstraint

Value = tuple[str, object]
"""The kind of an attribute and its value."""


class Constraint(Protocol):
    """A condition on the devices of some requests of a claim."""

    def add(self, request: str, alternative: str, device: DeviceView) -> bool:
        """Add a device; return False, without effect, if this would violate the constraint."""
        ...

    def remove(self, request: str, alternative: str) -> None:
        """Remove the device that was added last for a request."""
        ...


class MatchAttribute:
    """Requires all devices to have the same value of an attribute."""

    def __init__(self, requests: tuple[str, ...], name: str, *, lists: bool) -> None:
        self._requests = frozenset(requests)
        self._name = name
        self._lists = lists
        self._number = 0
        self._values: frozenset[Value] = frozenset()

    def add(self, request: str, alternative: str, device: DeviceView) -> bool:
        """See `Constraint`."""
        if not _covers(self._requests, request, alternative):
            return True
        attribute = find_attribute(device, self._name)
        if attribute is None:
            return False
        values = attribute_values(attribute, lists=self._lists)
        if self._number:
            # As upstream, `remove` does not undo this intersection.
            values &= self._values
            if not values:
                return False
        self._values = values
        self._number += 1
        return True

    def remove(self, request: str, alternative: str) -> None:
        """See `Constraint`."""
        if _covers(self._requests, request, alternative):
            self._number -= 1


class DistinctAttribute:
    """Requires different values of an attribute for any two requests."""

    def __init__(self, requests: tuple[str, ...], name: str, *, lists: bool) -> None:
        self._requests = frozenset(requests)
        self._name = name
        self._lists = lists
        self._values: dict[str, frozenset[Value]] = {}

    def add(self, request: str, alternative: str, device: DeviceView) -> bool:
        """See `Constraint`."""
        if not _covers(self._requests, request, alternative):
            return True
        attribute = find_attribute(device, self._name)
        if attribute is None:
            return False
        values = attribute_values(attribute, lists=self._lists)
        if any(values & each for each in self._values.values()):
            return False
        self._values[request] = values
        return True

    def remove(self, request: str, alternative: str) -> None:
        """See `Constraint`."""
        if _covers(self._requests, request, alternative):
            self._values.pop(request, None)


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


def _covers(requests: frozenset[str], request: str, alternative: str) -> bool:
    return (
        not requests
        or request in requests
        or bool(alternative and f"{request}/{alternative}" in requests)
    )
