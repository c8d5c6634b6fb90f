"""Interfaces of plugins with state that no object shows, for bundles (docs/bundles.md).

Both are optional. A plugin without them is replayed from the objects alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class StateInBundle(Protocol):
    """A plugin with state of its own, such as reservations."""

    def bundle_state(self) -> Iterator[Any]:
        """Yield the state in pieces that JSON can express; nothing changes meanwhile."""
        ...

    def restore_bundle_state(self, pieces: Iterable[Any]) -> None:
        """Take over what `bundle_state` yielded, in a scheduler that knows the same objects.

        Raises:
            ValueError: a piece is malformed.
        """
        ...


@runtime_checkable
class MemoryInBundle(Protocol):
    """A plugin that keeps records of pods in `QueuedPodInfo.plugin_memory`."""

    #: The dataclass or struct of these records, whose fields JSON can express.
    memory_type: type[Any]
