"""The objects of a world by kind, and the changes that the scheduler has not been shown yet.

What watches do in a cluster happens here without HTTP: every change is one delta, delivered in
order to the service's event handlers. Pods share signatures as they do in the service.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Any, Final

import msgspec

from scheduler.api.pod import Pod
from scheduler.api.signal import Signal
from scheduler.api.signatures.interner import PodSignatures
from scheduler.client.deltas import Delta, DeltaType
from scheduler.client.kinds import BUILT_IN, Kinds
from scheduler.client.resources import Resource
from scheduler.client.store import Store
from scheduler.offline.pod_store import PodStore

# A member of an enumeration is found by a slow search of its class.
_ADDED: Final = DeltaType.ADDED
_DELETED: Final = DeltaType.DELETED
_MODIFIED: Final = DeltaType.MODIFIED

Handlers = Mapping[str, Callable[[Sequence[Delta[Any]]], None]]
"""The receivers of the changes of each resource, by plural."""


class Tables:
    """The newest state of every object."""

    def __init__(self) -> None:
        self.signatures = PodSignatures()
        self._version = self._uids = 0
        self._undelivered: list[tuple[str, Delta[Any]]] = []
        #: What was there before the first change of each object since `record`, by plural and key,
        #: in the order of the changes; None for an object that was not there.
        self._before: dict[tuple[str, str], Any | None] | None = None
        #: Pods with claims of devices that came, changed or ended, by UID; see `device_claims`.
        self.claimants: dict[str, Pod] = {}
        #: Called when the first change waits for `deliver`.
        self.on_change = Signal[[]]()
        self.stores: dict[str, Store[Any]] = {
            resource.plural: Store(resource) for resource in BUILT_IN.values()
        }
        #: Also in `stores`.
        self.pods = PodStore()
        self.stores["pods"] = self.pods
        self.kinds = Kinds()

    def know(self, resource: Resource[Any]) -> None:
        """Have objects of a custom resource as well; call it before there are any."""
        self.stores[resource.plural] = Store(resource)
        self.kinds = Kinds(each.resource for each in self.stores.values())

    def get(self, plural: str, name: str, namespace: str = "") -> Any | None:
        """Return one object, or None."""
        store = self.stores.get(plural)
        return None if store is None else store.get(name, namespace)

    def put(self, plural: str, item: Any, *, keep: bool = False) -> None:
        """Add or replace an object.

        A pod is a new one, or a copy of the stored one (`structs.replace`), whose signature it has
        then. With `keep` the signature of a replaced pod is not released: it will be put back.
        Raises QuantityError if its resources cannot be read; nothing has changed then.
        """
        store = self.stores[plural]
        key = store.resource.key(item)
        old = store.by_key(key)
        if plural == "pods" and item.interned is None:
            self.signatures.intern(item)
            if old is not None and not keep:
                self.signatures.release(old)
        if self._before is not None:
            self._before.setdefault((plural, key), old)
        self._version += 1
        item.metadata = msgspec.structs.replace(item.metadata, resource_version=str(self._version))
        store.put(key, item)
        if old is None:
            self._note(plural, Delta(_ADDED, item))
        elif old.metadata.uid != item.metadata.uid:
            self._note(plural, Delta(_DELETED, old, old))
            self._note(plural, Delta(_ADDED, item))
        else:
            self._note(plural, Delta(_MODIFIED, item, old))

    def remove(self, plural: str, item: Any, *, keep: bool = False) -> None:
        """Remove an object that is stored; `keep` as for `put`."""
        store = self.stores[plural]
        key = store.resource.key(item)
        if self._before is not None:
            self._before.setdefault((plural, key), item)
        store.remove(key)
        self._note(plural, Delta(_DELETED, item, item))
        if plural == "pods" and not keep:
            self.signatures.release(item)

    def record(self) -> None:
        """Remember what is changed from now on, so that `put_back` can take it back."""
        self._before = {}

    def put_back(self) -> None:
        """Let every object be again as it was at `record`; what was changed last comes first."""
        before, self._before = self._before or {}, None
        for (plural, key), old in reversed(before.items()):
            now = self.stores[plural].by_key(key)
            if old is not None and now is not old:
                # Its signature may have been released with it.
                same = copy(old)
                if plural == "pods":
                    same.interned = None
                self.put(plural, same)
            elif old is None and now is not None:
                self.remove(plural, now)

    def deliver(self, handlers: Handlers) -> None:
        """Hand every change to its handler, in order; consecutive ones of a kind as one batch."""
        while self._undelivered:
            changes, self._undelivered = self._undelivered, []
            if len(changes) == 1:
                plural, delta = changes[0]
                handlers[plural]([delta])
                continue
            batch: list[Delta[Any]] = []
            current = ""
            for plural, delta in changes:
                if plural != current and batch:
                    handlers[current](batch)
                    batch = []
                current = plural
                batch.append(delta)
            handlers[current](batch)

    def new_uid(self) -> str:
        """Return a UID; the same ones in the same order in every run."""
        self._uids += 1
        return f"offline-{self._uids:08}"

    def continue_uids(self, other: Tables) -> None:
        """Go on after the last UID of others, whose objects are here as well."""
        self._uids = other._uids

    def _note(self, plural: str, delta: Delta[Any]) -> None:
        item = delta.object
        if plural == "pods" and (
            item.spec.resource_claims or item.status.extended_resource_claim_status
        ):
            self.claimants[item.metadata.uid] = item
        first = not self._undelivered
        self._undelivered.append((plural, delta))
        if first:
            self.on_change()


def bound(pod: Pod) -> bool:
    """Whether the pod has a node."""
    return bool(pod.spec.node_name)
