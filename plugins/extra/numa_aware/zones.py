"""ZoneColumns: the resources of the NUMA zones of all nodes, as arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from plugins.extra.numa_aware.demand import Amounts, ZoneRequest
from plugins.extra.numa_aware.topology import Topology, is_native
from scheduler.framework import MAX_NODE_SCORE, BoolColumn, Int64Column, Rows

MAX_RESOURCES: Final = 64
"""Resources in the zones of all nodes; each is a column."""


class ZoneColumns:
    """Arrays over resources, nodes (rows) and zones; -1: the zone has no such resource."""

    def __init__(self) -> None:
        #: Index of each resource in the arrays.
        self._resources: dict[str, int] = {}
        #: (resources, rows, zones)
        self._available = self._allocatable = np.full((0, 0, 1), -1, dtype=np.int64)
        #: (resources, rows): taken from every zone of the node.
        self._reserved = np.zeros((0, 0), dtype=np.int64)
        #: (rows,): the scope of the node, 0 for none, and whether its zones are invalid.
        self.scope = np.zeros(0, dtype=np.int8)
        self.invalid = np.zeros(0, dtype=np.bool_)

    def fit(self, rows: int) -> None:
        """Make room for as many rows."""
        if rows > len(self.scope):
            self._resize(rows, self._available.shape[2])

    def fill(self, row: int, topology: Topology, reserved: Iterable[Amounts]) -> None:
        """Replace a row."""
        names = {name for zone in topology.zones for name in zone}
        invalid = topology.invalid or len(names | self._resources.keys()) > MAX_RESOURCES
        if not invalid:
            for name in sorted(names - self._resources.keys()):
                self._resources[name] = len(self._resources)
            zones = max(self._available.shape[2], len(topology.zones))
            if self._available.shape[::2] != (len(self._resources), zones):
                self._resize(len(self.scope), zones)
        self.scope[row], self.invalid[row] = topology.scope, invalid
        self._available[:, row] = self._allocatable[:, row] = -1
        self._reserved[:, row] = 0
        if invalid:
            return
        for number, zone in enumerate(topology.zones):
            for name, room in zone.items():
                index = self._resources[name]
                self._available[index, row, number] = room.available
                self._allocatable[index, row, number] = room.allocatable
        for amounts in reserved:
            for name, taken in amounts.items():
                if name in self._resources:
                    self._reserved[self._resources[name], row] += taken

    def _resize(self, rows: int, zones: int) -> None:
        before = self._available.shape
        available = np.full((len(self._resources), rows, zones), -1, dtype=np.int64)
        allocatable = available.copy()
        inside = tuple(slice(length) for length in before)
        available[inside], allocatable[inside] = self._available, self._allocatable
        self._available, self._allocatable = available, allocatable
        reserved = np.zeros((len(self._resources), rows), dtype=np.int64)
        reserved[inside[:2]] = self._reserved
        self._reserved = reserved
        more = rows - len(self.scope)
        self.scope = np.pad(self.scope, (0, more))
        self.invalid = np.pad(self.invalid, (0, more))

    def place(
        self, rows: Rows, requests: Sequence[ZoneRequest], *, reserved: bool = True
    ) -> tuple[BoolColumn, Int64Column]:
        """Place the requests one after the other, each in the lowest zone that has enough.

        Returns for each row whether all have found a zone, and how many percent of what they want
        from there the zones have left then, on average.
        """
        left = self._available[:, rows]
        if reserved:
            taken = self._reserved[:, rows, np.newaxis]
            left = np.where(left < 0, left, np.maximum(left - taken, 0))
        placed = np.ones(len(rows), dtype=np.bool_)
        shares = np.zeros(len(rows), dtype=np.int64)
        numbers = np.arange(len(rows))
        for request in requests:
            fits = self._fitting(left, request.amounts)
            placed &= fits.any(axis=1)
            zone = fits.argmax(axis=1)
            share, known = np.zeros(len(rows), dtype=np.int64), 0
            for name, wanted in request.amounts.items():
                index = self._resources.get(name)
                if index is None:
                    continue
                known += 1
                there = left[index, numbers, zone]
                after = np.where(there < 0, there, np.maximum(there - wanted, 0))
                whole = np.maximum(self._allocatable[index, rows, zone], 1)
                share += (np.clip(after / whole, 0, 1) * MAX_NODE_SCORE).astype(np.int64)
                if request.stays:
                    left[index, numbers, zone] = after
            shares += share // max(known, 1)
        return placed, shares // max(len(requests), 1)

    def _fitting(self, left: NDArray[np.int64], amounts: Amounts) -> NDArray[np.bool_]:
        """Return (rows, zones): whether the zone has enough of everything."""
        fits = np.ones(left.shape[1:], dtype=np.bool_)
        for name, wanted in amounts.items():
            index = self._resources.get(name)
            if index is None:
                fits &= not is_native(name)
                continue
            enough = left[index] >= wanted
            if not is_native(name):
                # No zone of the node has it: it belongs to the node.
                enough |= (left[index] < 0).all(axis=1)[:, np.newaxis]
            fits &= enough
        return fits
