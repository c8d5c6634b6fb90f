"""AssumeCache: objects as they will be once our writes have landed.

Invariant: an assumed object hides the one that was watched when it was assumed, and no other: as
soon as a newer one arrives, or the object is deleted, the watch is right again, and the assumption
is forgotten. Nothing has to be told when a write lands.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from scheduler.api.storage import PersistentVolume, PersistentVolumeClaim
from scheduler.framework import Handle

T = TypeVar("T", PersistentVolume, PersistentVolumeClaim)


class AssumeCache(Generic[T]):
    """A lister's objects, with what one plugin has assumed about some of them."""

    def __init__(self, handle: Handle, plural: str) -> None:
        self._handle = handle
        self._plural = plural
        #: (namespace, name) to (watched object when assumed, assumed object).
        self._assumed: dict[tuple[str, str], tuple[T, T]] = {}
        #: Another whenever `get` may answer something else than before.
        self.version = 0
        handle.subscriptions.on_object(plural, self._changed)

    def __len__(self) -> int:
        return len(self._assumed)

    def get(self, name: str, namespace: str = "") -> T | None:
        """The object as it is or will be, None when there is none."""
        watched = self.watched(name, namespace)
        entry = self._assumed.get((namespace, name))
        if entry is None:
            return watched
        if watched is None or _version(watched) != _version(entry[0]):
            del self._assumed[namespace, name]
            self.version += 1
            return watched
        return entry[1]

    def watched(self, name: str, namespace: str = "") -> T | None:
        """The object as last seen."""
        found: T | None = self._handle.listers[self._plural].get(name, namespace)
        return found

    def assumed(self) -> Iterator[T]:
        """All that was assumed and still holds."""
        for (namespace, name), (_, assumed) in list(self._assumed.items()):
            if self.get(name, namespace) is assumed:
                yield assumed

    def assume(self, assumed: T) -> bool:
        """Let `assumed` hide the watched object; False when there is a newer one, or none."""
        metadata = assumed.metadata
        watched = self.watched(metadata.name, metadata.namespace)
        if watched is None or _version(watched) != _version(assumed):
            return False
        self._assumed[metadata.namespace, metadata.name] = (watched, assumed)
        self.version += 1
        return True

    def restore(self, assumed: T) -> None:
        """Take an assumption back; nothing happens when another one has taken its place."""
        key = assumed.metadata.namespace, assumed.metadata.name
        entry = self._assumed.get(key)
        if entry is not None and entry[1] is assumed:
            del self._assumed[key]
            self.version += 1

    def _changed(self, old: T | None, new: T | None) -> None:
        item = old if new is None else new
        if item is None:
            return
        self.version += 1
        key = item.metadata.namespace, item.metadata.name
        entry = self._assumed.get(key)
        if entry is not None and (new is None or _version(new) != _version(entry[0])):
            del self._assumed[key]


def _version(item: PersistentVolume | PersistentVolumeClaim) -> tuple[str, str]:
    return item.metadata.uid, item.metadata.resource_version
