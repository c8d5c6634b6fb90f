"""The last known objects of one kind, for listers.

One reflector writes it; any code on the same event loop may read it. Objects are never changed in
place, so a reader may keep them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic

from scheduler.client.resources import Resource, T


class Store(Generic[T]):
    """Objects by key: `namespace/name`, or name. An index by namespace appears on first use."""

    def __init__(self, resource: Resource[T]) -> None:
        #: The resource of the objects.
        self.resource = resource
        self._items: dict[str, T] = {}
        self._namespaces: dict[str, dict[str, T]] | None = None
        self._raw: dict[str, bytes] = {}
        #: How often an object came, changed or went.
        self.changes = 0

    def __len__(self) -> int:
        return len(self._items)

    def get(self, name: str, namespace: str = "") -> T | None:
        """Return one object, or None."""
        return self._items.get(self.resource.key_of(namespace, name))

    def list(self, namespace: str | None = None) -> Iterable[T]:
        """Return all objects, or those of one namespace; a view, valid until the next change."""
        if namespace is None:
            return self._items.values()
        if self._namespaces is None:
            self._namespaces = {}
            for key, item in self._items.items():
                self._namespaces.setdefault(item.metadata.namespace, {})[key] = item
        return self._namespaces.get(namespace, {}).values()

    def raw(self, name: str, namespace: str = "") -> bytes | None:
        """Return the JSON of one object as the server sent it, if it is kept."""
        return self._raw.get(self.resource.key_of(namespace, name))

    def by_key(self, key: str) -> T | None:
        """Return one object by its key, or None."""
        return self._items.get(key)

    def by_keys(self) -> dict[str, T]:
        """Return a copy: all objects by their keys."""
        return dict(self._items)

    def snapshot_keys(self) -> tuple[str, ...]:
        """Return a copy of all keys."""
        return tuple(self._items)

    def put(self, key: str, item: T, raw: bytes | None = None) -> None:
        """Add or replace an object; without `raw` its older JSON is dropped."""
        self.changes += 1
        self._items[key] = item
        if raw is not None:
            self._raw[key] = raw
        elif self._raw:
            self._raw.pop(key, None)
        if self._namespaces is not None:
            self._namespaces.setdefault(item.metadata.namespace, {})[key] = item

    def remove(self, key: str) -> T | None:
        """Remove an object and return it; None if there was none."""
        self.changes += 1
        item = self._items.pop(key, None)
        self._raw.pop(key, None)
        if item is not None and self._namespaces is not None:
            namespace = item.metadata.namespace
            group = self._namespaces.get(namespace)
            if group is not None:
                group.pop(key, None)
                if not group:
                    del self._namespaces[namespace]
        return item


KeepRaw = Callable[[T], bool]
"""Returns whether the JSON of an object is kept."""
