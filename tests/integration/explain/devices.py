"""A node with devices of a class, on an embedded cluster."""

from __future__ import annotations

from simulator.objects import JsonObject
from tests.integration.explain.conftest import Site

GROUP = "resource.k8s.io/v1"
DRIVER = "gpu.example.com"


OF_DRIVER = f'device.driver == "{DRIVER}"'


def device_class(name: str = "gpu", expression: str = OF_DRIVER) -> JsonObject:
    """Return a class of the devices that an expression selects, by default all of the driver."""
    selector = {"cel": {"expression": expression}}
    return _object("DeviceClass", name, {"selectors": [selector]})


def device_slice(node: str, count: int, **device: object) -> JsonObject:
    """Return a slice with the devices of a node."""
    spec = {
        "driver": DRIVER,
        "nodeName": node,
        "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": f"d{number}", **device} for number in range(count)],
    }
    return _object("ResourceSlice", node, spec)


def claim(name: str, count: int = 1) -> JsonObject:
    """Return a claim for devices of class gpu."""
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}
    found = _object(
        "ResourceClaim", name, {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
    )
    found["metadata"]["namespace"] = "default"
    return found


def uses(claim: str) -> list[JsonObject]:
    """Return `spec.resourceClaims` of a pod."""
    return [{"name": "gpu", "resourceClaimName": claim}]


def status_of(site: Site, claim: str) -> JsonObject:
    """Return the stored status of a claim."""
    found: JsonObject = site.cluster.get(GROUP, "ResourceClaim", claim).get("status") or {}
    return found


def _object(kind: str, name: str, spec: JsonObject) -> JsonObject:
    return {"apiVersion": GROUP, "kind": kind, "metadata": {"name": name}, "spec": spec}
