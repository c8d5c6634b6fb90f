"""Manifests: objects that no API server may have seen, decoded as one would have stored them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import copy
from typing import Any, Final

import msgspec

from scheduler.api.decoding import prune
from scheduler.api.meta import Named
from scheduler.api.pod import Pod, PodSpec, PodStatus
from scheduler.api.stored import (
    DECIDING,
    Existing,
    Fillings,
    Stored,
    as_stored,
    is_completed,
    was_stored,
)
from scheduler.client.resources import NODES, PODS, Resource
from scheduler.client.store import Store

MAX_SPECS: Final = 4096
"""Specs of pods that are remembered."""
MAX_BYTES: Final = 16 << 10
"""Of one of them."""
_CREATED: Final = b'"creationTimestamp"'
"""In every object that was stored."""
_LABEL_KEYS: Final = b"abelKeys"
"""In a spec of which labels decide."""


class _Parts(Named):
    """A pod whose spec is not decoded."""

    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: PodStatus = msgspec.field(default_factory=PodStatus)


_NO_STATUS: Final = PodStatus()
_decode_parts: Final = msgspec.json.Decoder(_Parts).decode


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

    def version(self) -> int:
        """Return how often objects that decide about others have changed."""
        found = 0
        for each in DECIDING:
            store = self._stores.get(each)
            if store is not None:
                found += store.changes
        return found


class Manifests:
    """Decodes objects, and counts what it fills in."""

    def __init__(
        self,
        existing: Existing,
        scheduler_name: str = "",
        check: Callable[[Resource[Any], Any, bytes], None] = lambda *_: None,
    ) -> None:
        """Complete objects by those of `existing`.

        Args:
            existing: the objects that decide about others.
            scheduler_name: that of pods that name none; an API server's default if empty.
            check: raises ValueError for an object, of this JSON, that is refused as it was given.
        """
        self._existing, self._scheduler_name, self._check = existing, scheduler_name, check
        self.fillings = Fillings()
        #: Specs of pods, and what was made of them.
        self._specs: dict[tuple[int, str, bytes, bytes], tuple[PodSpec, Stored]] = {}

    def decode(self, resource: Resource[Any], data: bytes | msgspec.Raw) -> Any:
        """Decode the JSON of one object. Raises ValueError."""
        data = bytes(data)
        if resource is PODS and _CREATED not in data:
            item = self._pod(data)
            if item is not None:
                return item
        item = resource.decode(data)
        self._check(resource, item, data)
        if was_stored(item.metadata) or not is_completed(resource.api_version, resource.kind):
            return item
        if resource is NODES and item.status.allocatable:
            return item
        return self._completed(resource, data)

    def _pod(self, data: bytes) -> Pod | None:
        """Return a pod like others, which share what is made of their specs; None: decode it."""
        try:
            parts = _decode_parts(data)
        except (msgspec.DecodeError, RecursionError):
            return None
        metadata, spec = parts.metadata, bytes(parts.spec)
        if len(spec) > MAX_BYTES:
            return None
        labels = msgspec.json.encode(metadata.labels) if _LABEL_KEYS in spec else b""
        key = self._existing.version(), metadata.namespace, labels, spec
        known = self._specs.get(key)
        if known is None:
            item: Pod = PODS.decode(data)
            self._check(PODS, item, data)
            item, stored = self._stored(PODS, data)
            if len(self._specs) >= MAX_SPECS:
                self._specs.clear()
            known = self._specs[key] = item.spec, stored
        own, stored = known
        self.fillings.note(stored)
        # A copy, since interning replaces parts of a spec by equal ones.
        item = Pod(metadata=metadata, spec=copy(own), status=parts.status)
        if parts.status != _NO_STATUS:
            self._check(PODS, item, data)
        return item

    def complete(self, resource: Resource[Any], data: bytes | msgspec.Raw) -> Any:
        """Decode an object that may have been changed since it was stored. Raises ValueError."""
        resource.decode(data)
        return self._completed(resource, data)

    def _completed(self, resource: Resource[Any], data: bytes | msgspec.Raw) -> Any:
        item, stored = self._stored(resource, data)
        self.fillings.note(stored)
        return item

    def _stored(self, resource: Resource[Any], data: bytes | msgspec.Raw) -> tuple[Any, Stored]:
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
        return resource.decode(msgspec.json.encode(stored.obj)), stored
