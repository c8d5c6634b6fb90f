"""Objects as they will be after our writes (upstream `passive_assume_cache.go`).

Invariant: an assumed object replaces only the version that was watched when it was assumed. As soon
as the watch delivers another version or the deletion, the assumption is dropped; completed writes
need no notification. Assumptions outlast trials, in which objects may be deleted and come back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from scheduler.api.storage import PersistentVolume, PersistentVolumeClaim
from scheduler.framework import Handle

T = TypeVar("T", PersistentVolume, PersistentVolumeClaim)


class AssumeCache(Generic[T]):
    """A lister's objects, some replaced by one plugin's assumed versions."""

    def __init__(self, handle: Handle, plural: str) -> None:
        self._handle = handle
        self.plural = plural
        #: (namespace, name) to (watched object when assumed, assumed object).
        self._assumed: dict[tuple[str, str], tuple[T, T]] = {}
        #: Changes whenever the result of `get` may change.
        self.version = 0
        handle.subscriptions.on_object(plural, self._changed, in_trials=True)
        handle.subscriptions.on_trial(self._begin_trial)

    def __len__(self) -> int:
        return len(self._assumed)

    def get(self, name: str, namespace: str = "") -> T | None:
        """Return the assumed or else the watched object, None if there is none."""
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
        """Return the object as last watched."""
        found: T | None = self._handle.listers[self.plural].get(name, namespace)
        return found

    def assumed(self) -> Iterator[T]:
        """Yield the assumed objects that are still valid."""
        for (namespace, name), (_, assumed) in list(self._assumed.items()):
            if self.get(name, namespace) is assumed:
                yield assumed

    def assume(self, assumed: T) -> bool:
        """Replace the watched object; return False if its version differs or it does not exist."""
        metadata = assumed.metadata
        watched = self.watched(metadata.name, metadata.namespace)
        if watched is None or _version(watched) != _version(assumed):
            return False
        self._assumed[metadata.namespace, metadata.name] = (watched, assumed)
        self.version += 1
        return True

    def restore(self, assumed: T) -> None:
        """Drop an assumption unless a later one has replaced it."""
        key = assumed.metadata.namespace, assumed.metadata.name
        entry = self._assumed.get(key)
        if entry is not None and entry[1] is assumed:
            del self._assumed[key]
            self.version += 1

    def _begin_trial(self) -> Callable[[], None]:
        assumed = dict(self._assumed)

        def restore() -> None:
            self._assumed = assumed
            self.version += 1

        return restore

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
