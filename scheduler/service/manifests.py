"""Manifests: objects that no API server may have seen, decoded as one would have stored them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from scheduler.api.decoding import prune
from scheduler.api.stored import Existing, Fillings, as_stored, was_stored
from scheduler.client.resources import PODS, Resource
from scheduler.client.store import Store


class StoredObjects:
    """The objects of stores, as `as_stored` looks them up."""

    def __init__(
        self, stores: Mapping[str, Store[Any]], gates: Mapping[str, bool], *, complete: bool
    ) -> None:
        """Look up in `stores`.

        Args:
            stores: by plural.
            gates: of the API server, as far as they are known.
            complete: a resource without objects has none; else its objects may not be known.
        """
        self._stores, self._gates, self._complete = stores, gates, complete

    def get(self, plural: str, name: str, namespace: str = "") -> Any | None:
        """Return an object; None if there is none."""
        store = self._stores.get(plural)
        return None if store is None else store.get(name, namespace)

    def every(self, plural: str) -> Iterable[Any]:
        """Return all objects of a resource."""
        store = self._stores.get(plural)
        return () if store is None else store.list()

    def known(self, plural: str) -> bool:
        """Return whether the objects of a resource are known."""
        store = self._stores.get(plural)
        return store is not None and (self._complete or len(store) > 0)

    def enabled(self, gate: str) -> bool:
        """Return whether a gate is on."""
        return self._gates.get(gate, False)


class Manifests:
    """Decodes objects, and counts what it fills in."""

    def __init__(
        self,
        existing: Existing,
        scheduler_name: str = "",
        check: Callable[[Resource[Any], Any], None] = lambda _resource, _item: None,
    ) -> None:
        """Complete objects by those of `existing`.

        Args:
            existing: the objects that decide about others.
            scheduler_name: that of pods that name none; an API server's default if empty.
            check: raises ValueError for an object that is refused as it was given.
        """
        self._existing, self._scheduler_name, self._check = existing, scheduler_name, check
        self.fillings = Fillings()

    def decode(self, resource: Resource[Any], data: bytes | msgspec.Raw) -> Any:
        """Decode the JSON of one object. Raises ValueError."""
        item = resource.decode(data)
        self._check(resource, item)
        return item if was_stored(item.metadata) else self._completed(resource, data)

    def complete(self, resource: Resource[Any], data: bytes | msgspec.Raw) -> Any:
        """Decode an object that may have been changed since it was stored. Raises ValueError."""
        resource.decode(data)
        return self._completed(resource, data)

    def _completed(self, resource: Resource[Any], data: bytes | msgspec.Raw) -> Any:
        """Complete an object that can be decoded: its fields are of the right types."""
        try:
            obj = msgspec.json.decode(data)
        except RecursionError:
            obj = msgspec.json.decode(prune(data))
        obj |= {"apiVersion": resource.api_version, "kind": resource.kind}
        if resource is PODS and self._scheduler_name:
            spec = obj.get("spec") or {}
            name = spec.get("schedulerName") or self._scheduler_name
            obj["spec"] = {**spec, "schedulerName": name}
        stored = as_stored(obj, self._existing)
        self.fillings.note(stored)
        return resource.decode(msgspec.json.encode(stored.obj))
