"""Optional interfaces of plugins whose state must be saved in a bundle (docs/bundles.md).

They are for state that cannot be derived from API objects; other plugins need neither of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class StateInBundle(Protocol):
    """A plugin with state of its own, such as reservations."""

    def bundle_state(self) -> Iterator[Any]:
        """Yield the state in JSON-serializable pieces; it does not change during the iteration."""
        ...

    def restore_bundle_state(self, pieces: Iterable[Any]) -> None:
        """Restore the state that `bundle_state` yielded, in a scheduler with the same objects.

        Raises:
            ValueError: a piece is malformed.
        """
        ...


@runtime_checkable
class MemoryInBundle(Protocol):
    """A plugin that keeps records of pods in `QueuedPodInfo.plugin_memory`."""

    #: The dataclass or struct of these records; its fields must be JSON-serializable.
    memory_type: type[Any]
