"""Devices of simulated nodes: the slices that the drivers on a node would publish. Pure.

A node asks for devices with an annotation that holds JSON: by driver, how many devices it has and
what each of them is like.

    kubestow.io/devices: '{"gpu.example.com": {"count": 8, "attributes": {"model": {"string":
      "a100"}}, "capacity": {"memory": {"value": "80Gi"}}}}'
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from simulator.objects import JsonObject, copy_tree, dig

DEVICES: Final = "kubestow.io/devices"
"""The annotation."""

MAX_DEVICES: Final = 10_000
"""Devices of one driver on one node."""

SLICE_DEVICES: Final = 64
"""What every slice may have, whatever its devices are like (`resource.k8s.io/v1`)."""

_PASSED_ON: Final = ("attributes", "capacity", "taints", "allowMultipleAllocations")


class DevicesError(ValueError):
    """An annotation that cannot be read; the text says why."""


def slices_of(node: JsonObject) -> list[JsonObject]:
    """Return the ResourceSlices of a node, owned by it; one pool a driver.

    Raises:
        DevicesError: the annotation is not as described above.
    """
    text = (dig(node, "metadata", "annotations") or {}).get(DEVICES)
    if not text:
        return []
    try:
        wanted = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DevicesError(f"{DEVICES}: {error}") from error
    if not isinstance(wanted, dict):
        raise DevicesError(f"{DEVICES}: must be a JSON object by the names of drivers")
    return [each for driver in sorted(wanted) for each in _of_driver(node, driver, wanted[driver])]


def _of_driver(node: JsonObject, driver: str, wanted: Any) -> Iterator[JsonObject]:
    count = wanted.get("count", 1) if isinstance(wanted, dict) else None
    if not isinstance(count, int) or not 0 <= count <= MAX_DEVICES:
        raise DevicesError(f"{DEVICES}: {driver}: count must be a number from 0 to {MAX_DEVICES}")
    meta = node["metadata"]
    like = {key: wanted[key] for key in _PASSED_ON if key in wanted}
    devices = [{"name": f"device-{number}", **copy_tree(like)} for number in range(count)]
    slices = max(1, -(-count // SLICE_DEVICES))
    pool = {"name": meta["name"], "generation": 1, "resourceSliceCount": slices}
    owner = {"apiVersion": "v1", "kind": "Node", "name": meta["name"], "uid": meta.get("uid", "")}
    for number in range(slices):
        own = devices[number * SLICE_DEVICES : (number + 1) * SLICE_DEVICES]
        yield {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {
                "name": f"{meta['name']}-{driver}-{number}",
                "ownerReferences": [{**owner, "controller": True}],
            },
            "spec": {"driver": driver, "nodeName": meta["name"], "pool": pool, "devices": own},
        }
