"""The objects of the CRD NodeResourceTopology, of one node each, and what they say in numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from scheduler.api import Named, QuantityError, parse_quantity

TOPOLOGIES: Final = "topology.node.k8s.io/v1alpha2/noderesourcetopologies"

MAX_ZONES: Final = 16
"""NUMA zones of a node; the kubelet supports 8 unless it is told otherwise."""

CONTAINER, POD = 1, 2
"""Scopes of the Topology Manager."""
POLICIES: Final = {
    "SingleNUMANodeContainerLevel": CONTAINER,
    "SingleNUMANodePodLevel": POD,
}
"""Values of the deprecated field `topologyPolicies` that matter here."""


class ZoneResource(msgspec.Struct, frozen=True):
    """`zones[].resources[]`."""

    name: str = ""
    allocatable: str | int = 0
    available: str | int = 0


class Zone(msgspec.Struct, frozen=True):
    """`zones[]`; a zone of the type Node is a NUMA node."""

    name: str = ""
    type: str = ""
    resources: tuple[ZoneResource, ...] = ()


class Attribute(msgspec.Struct, frozen=True):
    """`attributes[]`."""

    name: str = ""
    value: str = ""


class NodeResourceTopology(Named):
    """The part of a NodeResourceTopology that is read."""

    topology_policies: tuple[str, ...] = ()
    attributes: tuple[Attribute, ...] = ()
    zones: tuple[Zone, ...] = ()


class Room(NamedTuple):
    """One resource of one zone."""

    available: int
    allocatable: int


class Topology(NamedTuple):
    """A node's object, in numbers."""

    #: CONTAINER or POD; 0: the node accepts every pod.
    scope: int = 0
    #: By the number of the zone, which is the order in which the kubelet prefers them.
    zones: tuple[Mapping[str, Room], ...] = ()
    invalid: bool = False


def topology_of(found: NodeResourceTopology | None) -> Topology:
    """Return what an object says; attributes win over the deprecated policies."""
    if found is None:
        return Topology()
    scope = POLICIES.get(next(iter(found.topology_policies), ""), 0)
    attributes = {each.name: each.value for each in found.attributes}
    policy = attributes.get("topologyManagerPolicy")
    if policy is not None:
        scope = 0 if policy != "single-numa-node" else scope or CONTAINER
    if scope and "topologyManagerScope" in attributes:
        scope = POD if attributes["topologyManagerScope"] == "pod" else CONTAINER
    if not scope:
        return Topology()
    zones = [each for each in found.zones if each.type == "Node"]
    try:
        zones.sort(key=lambda each: int(each.name.rpartition("-")[2]))
        rooms = tuple({each.name: _room(each) for each in zone.resources} for zone in zones)
    except (QuantityError, ValueError):
        return Topology(scope, invalid=True)
    return Topology(scope, rooms, invalid=not 0 < len(rooms) <= MAX_ZONES)


def _room(found: ZoneResource) -> Room:
    return Room(
        max(amount(found.name, found.available), 0), max(amount(found.name, found.allocatable), 0)
    )


def amount(resource: str, raw: str | float) -> int:
    """Return millicores of CPU, whole units of everything else. Raises QuantityError."""
    quantity = parse_quantity(raw)
    return quantity.milli_value() if resource == "cpu" else quantity.value()


def is_native(resource: str) -> bool:
    """Whether every zone must have it: devices and storage need not belong to a zone."""
    return resource in ("cpu", "memory") or resource.startswith("hugepages-")


def never_more(before: Topology, now: Topology) -> bool:
    """Whether the node accepts no pod now that it rejected before."""
    if (before.scope, before.invalid) != (now.scope, now.invalid):
        return False
    if len(before.zones) != len(now.zones):
        return False
    return all(
        old.keys() == new.keys() and all(new[name].available <= old[name].available for name in new)
        for old, new in zip(before.zones, now.zones, strict=True)
    )
