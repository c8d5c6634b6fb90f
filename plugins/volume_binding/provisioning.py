"""Possibility to provision a volume for a claim on a node: provisioner, topology, capacity.

Upstream: `binder.go: checkVolumeProvisions`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from plugins.volume_binding.claims import NO_PROVISIONER, claim_class, requested_storage
from plugins.volume_binding.reachability import PositionsByLabel
from scheduler.api.quantity import value
from scheduler.api.selectors import (
    IN,
    CompiledLabelSelector,
    Requirement,
    SelectorError,
    compile_label_selector,
)
from scheduler.api.storage import (
    CSIDriver,
    CSIStorageCapacity,
    PersistentVolumeClaim,
    StorageClass,
    TopologySelectorTerm,
)
from scheduler.framework import BoolColumn, Codes, Handle, NodeInfo, PluginError

CONFLICT, NO_SPACE = 2, 4
"""Bits of the plugin's codes: no volume to bind or provision; not enough storage."""


class Provision(NamedTuple):
    """A claim to provision on the chosen node."""

    claim: PersistentVolumeClaim
    #: The object that reports the space, None if the driver does not track capacity.
    capacity: CSIStorageCapacity | None


class Provisioning:
    """Checks provisioning for one node or for many."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def one(self, claim: PersistentVolumeClaim, node: NodeInfo) -> Provision | int:
        """Return the provision on a node, or the code of the obstacle."""
        found = self._class(claim)
        if not _provisions(found) or not _allows(found.allowed_topologies, node):
            return CONFLICT
        requested = self._accounted_bytes(claim, found)
        if requested is None:
            return Provision(claim, None)
        for capacity, selector in self._capacities(found, requested):
            if selector.matches(node.labels):
                return Provision(claim, capacity)
        return NO_SPACE

    def rows(self, claim: PersistentVolumeClaim, positions: PositionsByLabel) -> Codes:
        """Return a code per position: 0 if a volume could be provisioned."""
        found = self._class(claim)
        count = positions.count
        if not _provisions(found):
            return np.full(count, CONFLICT, dtype=np.int32)
        codes = np.zeros(count, dtype=np.int32)
        requested = self._accounted_bytes(claim, found)
        if requested is not None:
            reached: BoolColumn = np.zeros(count, dtype=np.bool_)
            for _, selector in self._capacities(found, requested):
                reached[positions.of(selector.requirements)] = True
            codes[~reached] = NO_SPACE
        if found.allowed_topologies:
            allowed: BoolColumn = np.zeros(count, dtype=np.bool_)
            for requirements in map(_requirements, found.allowed_topologies):
                if requirements:
                    allowed[positions.of(requirements)] = True
            codes[~allowed] = CONFLICT
        return codes

    def _class(self, claim: PersistentVolumeClaim) -> StorageClass:
        name = claim_class(claim)
        if not name:
            msg = f"no class for claim {claim.metadata.namespace}/{claim.metadata.name!r}"
            raise PluginError(msg)
        found: StorageClass | None = self._handle.listers["storageclasses"].get(name)
        if found is None:
            msg = f"failed to find storage class {name!r}"
            raise PluginError(msg)
        return found

    def _accounted_bytes(self, claim: PersistentVolumeClaim, found: StorageClass) -> int | None:
        """Return the bytes to find in capacity objects; None without capacity tracking."""
        requested = requested_storage(claim)
        if requested is None:
            return None
        driver: CSIDriver | None = self._handle.listers["csidrivers"].get(found.provisioner)
        return requested if driver is not None and driver.spec.storage_capacity else None

    def _capacities(
        self, found: StorageClass, requested: int
    ) -> Iterator[tuple[CSIStorageCapacity, CompiledLabelSelector]]:
        """Yield objects with at least `requested` bytes, and their node selectors."""
        name = found.metadata.name
        for each in self._handle.listers["csistoragecapacities"].list():
            if each.storage_class_name != name or each.node_topology is None:
                continue
            limit = capacity_limit(each)
            if limit is None or limit < requested:
                continue
            try:
                selector = compile_label_selector(each.node_topology)
            except SelectorError:
                # As upstream, an object that does not parse has no capacity.
                continue
            yield each, selector


def capacity_limit(capacity: CSIStorageCapacity) -> int | None:
    """Return the size of the largest possible volume in bytes, None if the driver reports none."""
    raw = capacity.maximum_volume_size
    if raw is None:
        raw = capacity.capacity
    return None if raw is None else value(raw)


def _provisions(found: StorageClass) -> bool:
    return found.provisioner not in ("", NO_PROVISIONER)


def _allows(terms: tuple[TopologySelectorTerm, ...], node: NodeInfo) -> bool:
    if not terms:
        return True
    labels = node.labels
    return any(
        term.match_label_expressions
        and all(labels.get(each.key) in each.values for each in term.match_label_expressions)
        for term in terms
    )


def _requirements(term: TopologySelectorTerm) -> tuple[Requirement, ...]:
    return tuple(Requirement(each.key, IN, each.values) for each in term.match_label_expressions)
