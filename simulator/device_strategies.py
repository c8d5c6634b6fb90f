"""Claims, classes and slices of devices on their way in: the rules that a scheduler relies on.

The full validation of `resource.k8s.io` is the real API server's; expressions are not compiled
here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from simulator.errors import FieldCause, forbidden_field, invalid_value, required_field
from simulator.objects import JsonObject, dig
from simulator.resources import Resource
from simulator.strategies import Strategy, Surroundings

CLAIMS: Final = "resourceclaims.resource.k8s.io"

MAX_CONSUMERS: Final = 256
MAX_DEVICES: Final = 128
MAX_REQUESTS: Final = 32
"""Limits of `resource.k8s.io/v1`."""

_IMMUTABLE: Final = "field is immutable"
_SELECTIONS: Final = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")


class ClaimStrategy(Strategy):
    """ResourceClaims: the spec never changes, and neither does an allocation while it is set."""

    def validate_create(self, obj: JsonObject, around: Surroundings) -> list[FieldCause]:
        """Check metadata and requests."""
        return super().validate_create(obj, around) + _request_causes(obj.get("spec"), "spec")

    def validate_update(
        self, obj: JsonObject, old: JsonObject, around: Surroundings
    ) -> list[FieldCause]:
        """Check that the spec is the same."""
        causes = super().validate_update(obj, old, around)
        if obj.get("spec") != old.get("spec"):
            causes.append(invalid_value("spec", "{}", _IMMUTABLE))
        return causes

    def validate_status(self, obj: JsonObject, around: Surroundings) -> list[FieldCause]:
        """Check the consumers, and that an allocation is not replaced by another."""
        meta, status = obj["metadata"], obj.get("status") or {}
        found = around.store.get(CLAIMS, meta.get("namespace", ""), meta["name"])
        old = {} if found is None else found.obj.get("status") or {}
        causes = []
        reserved = status.get("reservedFor") or []
        if len(reserved) > MAX_CONSUMERS:
            why = f"must have at most {MAX_CONSUMERS} items"
            causes.append(invalid_value("status.reservedFor", str(len(reserved)), why))
        if len({each.get("uid") for each in reserved}) < len(reserved):
            causes.append(invalid_value("status.reservedFor", "[]", "the UID must be unique"))
        if reserved and not status.get("allocation"):
            why = "may not be specified when `allocated` is not set"
            causes.append(forbidden_field("status.reservedFor", why))
        before, after = old.get("allocation"), status.get("allocation")
        if before and after and before != after:
            causes.append(invalid_value("status.allocation", "{}", _IMMUTABLE))
        if meta.get("deletionTimestamp") and after and not before:
            why = "new allocation may not be set when the claim is being deleted"
            causes.append(forbidden_field("status.allocation", why))
        return causes


class ClaimTemplateStrategy(Strategy):
    """ResourceClaimTemplates: the spec never changes."""

    def validate_create(self, obj: JsonObject, around: Surroundings) -> list[FieldCause]:
        """Check metadata and requests."""
        inner = dig(obj, "spec", "spec")
        return super().validate_create(obj, around) + _request_causes(inner, "spec.spec")

    def validate_update(
        self, obj: JsonObject, old: JsonObject, around: Surroundings
    ) -> list[FieldCause]:
        """Check that the spec is the same."""
        causes = super().validate_update(obj, old, around)
        if obj.get("spec") != old.get("spec"):
            causes.append(invalid_value("spec", "{}", _IMMUTABLE))
        return causes


class SliceStrategy(Strategy):
    """ResourceSlices: one way to select nodes, and a pool that never becomes another."""

    def validate_create(self, obj: JsonObject, around: Surroundings) -> list[FieldCause]:
        """Check metadata, node selection and devices."""
        return super().validate_create(obj, around) + _slice_causes(obj.get("spec") or {})

    def validate_update(
        self, obj: JsonObject, old: JsonObject, around: Surroundings
    ) -> list[FieldCause]:
        """Check as on create, and that driver, pool and node are the same."""
        causes = super().validate_update(obj, old, around)
        for path in (("driver",), ("pool", "name"), ("nodeName",)):
            if dig(obj, "spec", *path) != dig(old, "spec", *path):
                causes.append(invalid_value(".".join(("spec", *path)), '""', _IMMUTABLE))
        return causes + _slice_causes(obj.get("spec") or {})


def _slice_causes(spec: JsonObject) -> list[FieldCause]:
    causes = [
        required_field(f"spec.{name}")
        for name, value in (
            ("driver", spec.get("driver")),
            ("pool.name", dig(spec, "pool", "name")),
        )
        if not value
    ]
    if sum(bool(spec.get(name)) for name in _SELECTIONS) != 1:
        why = f"exactly one of {', '.join(f'`{name}`' for name in _SELECTIONS)} is required"
        causes.append(invalid_value("spec", "{}", why))
    devices = spec.get("devices") or []
    if len(devices) > MAX_DEVICES:
        why = f"must have at most {MAX_DEVICES} items"
        causes.append(invalid_value("spec.devices", str(len(devices)), why))
    return causes


def _requests(spec: Any) -> Iterator[JsonObject]:
    """Yield what a request asks for, each alternative by itself."""
    for request in dig(spec or {}, "devices", "requests") or []:
        if request.get("exactly"):
            yield request["exactly"]
        yield from request.get("firstAvailable") or []


def _request_causes(spec: Any, path: str) -> list[FieldCause]:
    requests = dig(spec or {}, "devices", "requests") or []
    where = f"{path}.devices.requests"
    causes = []
    if len(requests) > MAX_REQUESTS:
        why = f"must have at most {MAX_REQUESTS} items"
        causes.append(invalid_value(where, str(len(requests)), why))
    for index, request in enumerate(requests):
        if bool(request.get("exactly")) == bool(request.get("firstAvailable")):
            why = "exactly one of `exactly` or `firstAvailable` is required"
            causes.append(invalid_value(f"{where}[{index}]", "{}", why))
    causes += [
        required_field(f"{where}.deviceClassName")
        for each in _requests(spec)
        if not each.get("deviceClassName")
    ]
    return causes


class DeviceClassStrategy(Strategy):
    """DeviceClasses may be empty: such a class has all devices."""

    def prepare_create(self, obj: JsonObject, resource: Resource, around: Surroundings) -> None:
        """Fill in the spec."""
        obj.setdefault("spec", {})
