"""Small worlds of devices and claims, in the form of their JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from plugins.dynamic_resources.allocator import Allocator
from plugins.dynamic_resources.devices import SliceView
from plugins.dynamic_resources.features import Features
from plugins.dynamic_resources.pools import SliceIndex
from plugins.dynamic_resources.search import Allocated
from plugins.dynamic_resources.selectors import Selectors
from scheduler.api.devices import AllocationResult, DeviceClass, ResourceClaim, ResourceSlice
from scheduler.api.node import Node

T = TypeVar("T")

DRIVER = "gpu.example.com"


def decoded(raw: Any, kind: type[T]) -> T:
    """Return the record of an object."""
    return msgspec.json.decode(msgspec.json.encode(raw), type=kind)


def node(name: str = "n1", **labels: str) -> Node:
    """Return a node."""
    return decoded({"metadata": {"name": name, "labels": labels}}, Node)


def slice_of(devices: Sequence[dict[str, Any]], name: str = "s", **spec: Any) -> SliceView:
    """Return a slice, by default the only one of its pool, on node n1."""
    raw = {
        "driver": DRIVER,
        "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
        "nodeName": "n1",
        "devices": devices,
        **spec,
    }
    return SliceView(decoded({"metadata": {"name": name}, "spec": raw}, ResourceSlice))


def class_of(name: str = "gpu", *expressions: str) -> DeviceClass:
    """Return a class with these selectors."""
    selectors = [{"cel": {"expression": each}} for each in expressions]
    return decoded({"metadata": {"name": name}, "spec": {"selectors": selectors}}, DeviceClass)


def request(name: str = "r", count: int = 1, **exactly: Any) -> dict[str, Any]:
    """Return a request for devices of class gpu."""
    raw = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count, **exactly}
    return {"name": name, "exactly": raw}


def claim(*requests: dict[str, Any], name: str = "c", **devices: Any) -> ResourceClaim:
    """Return a claim."""
    raw = {
        "metadata": {"namespace": "default", "name": name},
        "spec": {"devices": {"requests": requests, **devices}},
    }
    return decoded(raw, ResourceClaim)


def allocator(
    slices: Sequence[SliceView],
    *classes: DeviceClass,
    allocated: Allocated | None = None,
    features: Features | None = None,
    selectors: Selectors | None = None,
    exhaustive: bool = False,
) -> Allocator:
    """Return an allocator; without classes there is one that every device matches."""
    return Allocator(
        features or Features(),
        allocated or Allocated(),
        {each.metadata.name: each for each in classes or (class_of(),)},
        SliceIndex(slices),
        selectors or Selectors(),
        lambda: "<uid>",
        exhaustive=exhaustive,
    )


def names(found: list[AllocationResult] | None) -> list[list[str]] | None:
    """Return the names of the devices of each claim."""
    if found is None:
        return None
    return [[each.device for each in result.devices.results] for result in found]
