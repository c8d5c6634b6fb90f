"""Amounts of configured resources of a pod, a node or a row.

A scalar resource (extended, hugepages, ...) that the pod does not request is not scored; CPU,
memory and ephemeral storage always are (`resource_allocation.go: score`, and `PreScore` of both
plugins).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from plugins.node_resources.arguments import ResourceSpec
from scheduler.api.requests import Resources
from scheduler.framework import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    Int64Column,
    NodeAmounts,
    Rows,
)

NATIVE: Final = {"cpu": CPU, "memory": MEMORY, "ephemeral-storage": EPHEMERAL_STORAGE}
"""Resources with a fixed index in the node table."""

MAX_SCORED: Final = 4096
"""Amounts of single nodes whose score is kept: those of a pool are used alike."""

_MAX_KNOWN: Final = 1024
"""Requests whose shares are kept, and how many scalar resources they may have: some pods have
thousands."""
_MAX_SCALARS: Final = 32


class Demand(NamedTuple):
    """A resource that must be free on the node."""

    name: str
    amount: int
    """Above 0."""
    bit: int
    """Bit of the filter code that reports a shortage."""
    is_served: bool = False
    """Whether devices of a class serve it on nodes that have none of it."""


class Share(NamedTuple):
    """A resource that takes part in scoring one pod."""

    name: str
    amount: int
    """Amount the pod requests."""
    weight: int


def shares(specs: Iterable[ResourceSpec], pod: Resources) -> list[Share]:
    """Return the configured resources that are scored for a pod with these requests."""
    taking_part = []
    for spec in specs:
        amount = amount_of(pod, spec.name)
        if amount or spec.name in NATIVE:
            taking_part.append(Share(spec.name, amount, spec.weight))
    return taking_part


class KeptShares:
    """`shares` of pods, kept for the other pods of their templates."""

    def __init__(self, specs: Iterable[ResourceSpec]) -> None:
        self._specs = tuple(specs)
        #: By identity of requests, which are kept so that no others get it.
        self._known: dict[int, tuple[Resources, list[Share]]] = {}

    def of(self, pod: Resources) -> list[Share]:
        """Return the configured resources that are scored for a pod with these requests."""
        known = self._known.get(id(pod))
        if known is not None:
            return known[1]
        found = shares(self._specs, pod)
        if len(pod.scalars) <= _MAX_SCALARS:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            self._known[id(pod)] = pod, found
        return found


def amount_of(resources: Resources, name: str) -> int:
    """Return the amount of one resource, 0 if absent."""
    match name:
        case "cpu":
            return resources.milli_cpu
        case "memory":
            return resources.memory
        case "ephemeral-storage":
            return resources.ephemeral_storage
    return resources.scalar(name)


def amounts_in(
    table: NodeAmounts, name: str, index: slice | Rows
) -> tuple[Int64Column, Int64Column]:
    """Return (allocatable, requested) of a resource on some rows. Do not write to them."""
    native = NATIVE.get(name)
    if native is None:
        return table.scalar_amounts(name, index)
    # In two steps: an index of a number and an array takes more than twice as long.
    return table.allocatable[native][index], table.requested[native][index]


def amounts_at(table: NodeAmounts, name: str, row: int) -> tuple[int, int]:
    """Return (allocatable, requested) of a resource on one row."""
    native = NATIVE.get(name)
    if native is None:
        return table.scalar_amounts_at(name, row)
    return table.allocatable.item(native, row), table.requested.item(native, row)
