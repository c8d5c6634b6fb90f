"""Inverted indexes of the node table: images and host ports.

Their cost follows the holders, not the nodes.
"""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.api.node import ContainerImage
from scheduler.framework.nodes import ImageState

HostPort = tuple[str, str, int]
"""(ip, protocol, port), defaults applied."""


class ImageIndex:
    """Image name to size and rows; the size is that of the first node that reported the name."""

    def __init__(self) -> None:
        self.states: dict[str, ImageState] = {}

    def set(self, row: int, old: Iterable[ContainerImage], new: Iterable[ContainerImage]) -> None:
        """Replace what a row reports."""
        wanted = {name: image.size_bytes for image in new for name in image.names}
        for name in {name for image in old for name in image.names} - wanted.keys():
            state = self.states[name]
            state.rows.discard(row)
            if not state.rows:
                del self.states[name]
        for name, size in wanted.items():
            state = self.states.get(name) or self.states.setdefault(name, ImageState(size, set()))
            state.rows.add(row)


class PortIndex:
    """Host ports in use, by (protocol, port) and by row; both views share the innermost counts."""

    def __init__(self) -> None:
        self.holders: dict[tuple[str, int], dict[int, dict[str, int]]] = {}
        self.by_row: dict[int, dict[tuple[str, int], dict[str, int]]] = {}

    def account(self, row: int, ports: Iterable[HostPort], sign: int) -> None:
        """Add (`sign` 1) or remove (-1) a pod's host ports."""
        for ip, protocol, port in ports:
            key = (protocol, port)
            counts = self.holders.setdefault(key, {}).setdefault(row, {})
            self.by_row.setdefault(row, {})[key] = counts
            counts[ip] = counts.get(ip, 0) + sign
            if not counts[ip]:
                del counts[ip]
            if not counts:
                self._forget(row, key)

    def _forget(self, row: int, key: tuple[str, int]) -> None:
        del self.holders[key][row]
        if not self.holders[key]:
            del self.holders[key]
        del self.by_row[row][key]
        if not self.by_row[row]:
            del self.by_row[row]
