"""Listers over reflector stores, which plugins read through `Handle.listers`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from scheduler.api.pod import Pod
from scheduler.client.store import Store
from scheduler.framework import Lister

PodLister = Callable[[str, str], Pod | None]
"""`lister(namespace, name)` returns the newest known state of a pod."""


def pending_pod(newest: PodLister, pod: Pod) -> Pod | None:
    """Return the newest state of a pending pod; None if it is deleted, replaced or bound."""
    found = newest(pod.metadata.namespace, pod.metadata.name)
    if found is None or found.metadata.uid != pod.metadata.uid or found.spec.node_name:
        return None
    return found


class NoObjects:
    """The lister of a resource that is not watched."""

    def get(self, name: str, namespace: str = "") -> Any | None:
        """Return None."""
        return None

    def list(self, namespace: str | None = None) -> Iterable[Any]:
        """Return no objects."""
        return ()


_NOTHING = NoObjects()


class StoreListers:
    """Implements `framework.Listers`. Stores are added before anything reads."""

    def __init__(self) -> None:
        self._stores: dict[str, Store[Any]] = {}

    def add(self, plural: str, store: Store[Any]) -> None:
        """Serve `plural` from `store`."""
        self._stores[plural] = store

    @property
    def stores(self) -> Mapping[str, Store[Any]]:
        """The stores of all watched resources, by plural."""
        return self._stores

    def pod(self, namespace: str, name: str) -> Pod | None:
        """Return the newest known state of a pod."""
        found: Pod | None = self["pods"].get(name, namespace)
        return found

    def by_keys(self, plural: str) -> dict[str, Any]:
        """Return a copy of all known objects of a resource, by `namespace/name` or name."""
        store = self._stores.get(plural)
        return {} if store is None else store.by_keys()

    def __getitem__(self, plural: str) -> Lister:
        return self._stores.get(plural, _NOTHING)
