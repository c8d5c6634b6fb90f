"""Inverted indexes of the node table: images and host ports.

Time and memory are proportional to the entries, not to the nodes.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from scheduler.api.node import ContainerImage
from scheduler.api.pod import Pod
from scheduler.api.signatures.signature import PodSignature
from scheduler.cache.counting import add_count, remove_member
from scheduler.framework.nodes import BoolColumn, ImageState, PotentialVictims, Rows


class ImageIndex:
    """Size and rows by image name (upstream: `cache.go: addNodeImageStates`).

    The size is that of the first node that reported the name; within one node, of its first image
    with the name. The only node with a name may revise the size.
    """

    def __init__(self) -> None:
        self.states: dict[str, ImageState] = {}

    def set(self, row: int, old: Iterable[ContainerImage], new: Iterable[ContainerImage]) -> None:
        """Replace the images of a row."""
        for name in {name for image in old for name in image.names}:
            state = self.states[name]
            state.rows.discard(row)
            if not state.rows:
                del self.states[name]
        for image in new:
            for name in image.names:
                if name not in self.states:
                    self.states[name] = ImageState(image.size_bytes, set())
                self.states[name].rows.add(row)

    def revise(self, row: int, images: Iterable[ContainerImage]) -> bool:
        """Update sizes from a row whose image list is unchanged; return whether one changed."""
        revised = False
        first: dict[str, int] = {}
        for image in images:
            for name in image.names:
                size = first.setdefault(name, image.size_bytes)
                state = self.states[name]
                if size != state.size and len(state.rows) == 1:
                    self.states[name] = ImageState(size, state.rows)
                    revised = True
        return revised


class PortIndex:
    """Host ports in use: `holders` by (protocol, port) and `by_row` share their inner counts.

    `by_band` groups them by priority and schedulerName of the pods, for preemption.
    """

    def __init__(self) -> None:
        self.holders: dict[tuple[str, int], dict[int, dict[str, int]]] = {}
        self.by_row: dict[int, dict[tuple[str, int], dict[str, int]]] = {}
        #: (protocol, port) to (ip, priority, schedulerName) to row to number of pods.
        self.by_band: dict[tuple[str, int], dict[tuple[str, int, str], dict[int, int]]] = {}

    def account(self, row: int, signature: PodSignature, sign: int) -> None:
        """Add (`sign` 1) or remove (-1) the host ports of a pod of `signature`."""
        spec = signature.spec
        priority, scheduler_name = spec.priority or 0, spec.scheduler_name
        for ip, protocol, port in signature.host_ports:
            key = (protocol, port)
            band = (ip, priority, scheduler_name)
            pods = self.by_band.setdefault(key, {}).setdefault(band, {})
            if not add_count(pods, row, sign) and not pods:
                remove_member(self.by_band, key, band)
            counts = self.holders.setdefault(key, {}).setdefault(row, {})
            self.by_row.setdefault(row, {})[key] = counts
            if not add_count(counts, ip, sign) and not counts:
                remove_member(self.holders, key, row)
                remove_member(self.by_row, row, key)

    def remaining(
        self, protocol: str, port: int, victims: PotentialVictims, capacity: int
    ) -> dict[str, BoolColumn]:
        """Return `TableWithoutVictims.remaining_ports`: (capacity,) per address."""
        kept: dict[str, BoolColumn] = {}
        freed: list[tuple[str, Rows]] = []
        for (ip, priority, scheduler_name), pods in self.by_band.get((protocol, port), {}).items():
            rows: Rows = np.fromiter(pods, dtype=np.intp, count=len(pods))
            if victims.includes(priority, scheduler_name):
                freed.append((ip, rows))
                continue
            column = kept.get(ip)
            if column is None:
                column = kept[ip] = np.zeros(capacity, dtype=np.bool_)
            column[rows] = True
        for ip, rows in freed:
            if ip in kept:
                kept[ip][rows] = False
        return kept

    def validate(self, placed: Iterable[tuple[int, Pod]]) -> Iterable[str]:
        """Yield a sentence for every difference from a recount over (row, pod)."""
        expected = PortIndex()
        for row, pod in placed:
            expected.account(row, pod.signature, 1)
        if (expected.holders, expected.by_row) != (self.holders, self.by_row):
            yield "host ports differ from those of the pods placed"
        if expected.by_band != self.by_band:
            yield "host ports by priority differ from those of the pods placed"
