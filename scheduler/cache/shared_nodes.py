"""SharedNodes: parts that many nodes have in common, and the amounts parsed from them.

The nodes of a pool state equal amounts, each in dicts of its own, which are a third of the memory
of a node.
"""

from __future__ import annotations

from typing import Final

from scheduler.api.meta import ResourceList
from scheduler.api.node import Node
from scheduler.api.requests import Resources, node_allocatable

MAX_POOLS: Final = 1024
"""Different amounts that are kept; then those of all nodes are kept anew."""
MAX_SHARED: Final = 32
"""Amounts of a node of which the parts are shared. A node may state thousands of resources."""


class SharedNodes:
    """Replaces parts of a node by the equal objects of others."""

    def __init__(self) -> None:
        self._allocatable: dict[tuple[object, ...], tuple[ResourceList, Resources, int]] = {}
        self._capacities: dict[tuple[object, ...], ResourceList] = {}

    def allocatable(self, node: Node) -> tuple[Resources, int]:
        """Return `node_allocatable`, once for nodes that state the same. Raises `QuantityError`."""
        stated = node.status.allocatable
        if len(stated) > MAX_SHARED:
            return node_allocatable(node)
        key = tuple(stated.items())
        known = self._allocatable.get(key)
        if known is None:
            known = stated, *node_allocatable(node)
            if len(self._allocatable) >= MAX_POOLS:
                self._allocatable.clear()
            self._allocatable[key] = known
        node.status.allocatable = known[0]
        return known[1], known[2]

    def share_capacity(self, node: Node) -> None:
        """Share the capacity, which no amount depends on."""
        stated = node.status.capacity
        if len(stated) > MAX_SHARED:
            return
        key = tuple(stated.items())
        known = self._capacities.get(key)
        if known is None:
            if len(self._capacities) >= MAX_POOLS:
                self._capacities.clear()
            known = self._capacities[key] = stated
        node.status.capacity = known
