"""Changes of one resource, applied to its store and delivered to the reflector's handler.

Invariant: applying the delivered deltas in order gives exactly the store. A name that came back
with another UID yields DELETED and ADDED. An object whose resourceVersion is known already yields
nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic

import structlog

from scheduler.api.meta import Named
from scheduler.client.deltas import Delta, DeltaType, Handler
from scheduler.client.metrics import ClientMetrics
from scheduler.client.resources import KubernetesObject, Resource, T
from scheduler.client.store import KeepRaw, Store

_log = structlog.get_logger(__name__)


class StoreWriter(Generic[T]):
    """Collects the deltas of a batch; `deliver` hands them to the handler."""

    def __init__(
        self,
        resource: Resource[T],
        handler: Handler[T],
        metrics: ClientMetrics,
        on_decode: Callable[[T], T] | None,
        keep_raw: KeepRaw[T] | None,
    ) -> None:
        self.store: Store[T] = Store(resource)
        #: Deltas delivered and objects skipped since the start.
        self.events = self.malformed = 0
        self._resource = resource
        self._handler = handler
        self._metrics = metrics
        self._on_decode = on_decode
        self._keep_raw = keep_raw
        self._batch: list[Delta[T]] = []

    def upsert(self, key: str, item: T, raw: Callable[[], bytes]) -> None:
        """Add or replace an object; `raw` returns its JSON, called only if the store keeps it."""
        old = self.store.by_key(key)
        if old is not None and _same(old, item):
            return
        stored = self._transformed(item)
        if stored is None:
            return
        keep = self._keep_raw is not None and self._keep_raw(stored)
        self.store.put(key, stored, raw() if keep else None)
        if old is None:
            self._batch.append(Delta(DeltaType.ADDED, stored))
        elif old.metadata.uid != stored.metadata.uid:
            self._batch.append(Delta(DeltaType.DELETED, old, old))
            self._batch.append(Delta(DeltaType.ADDED, stored))
        else:
            self._batch.append(Delta(DeltaType.MODIFIED, stored, old))

    def delete(self, key: str, item: T | None = None) -> None:
        """Remove an object; `item` is its last state, None where that is unknown."""
        old = self.store.remove(key)
        if old is None:
            return
        same = item is not None and old.metadata.uid == item.metadata.uid
        last = self._transformed(item) if item is not None and same else None
        self._batch.append(Delta(DeltaType.DELETED, old if last is None else last, old))

    def skip(self, named: Named, error: str) -> None:
        """Log and count an object that cannot be used."""
        self.malformed += 1
        self._metrics.malformed(self._resource.plural)
        _log.error(
            "malformed object skipped",
            resource=self._resource.plural,
            object=self.key_of(named),
            error=error,
        )

    def key_of(self, named: Named) -> str:
        """Return the key of an object of which only the metadata could be read."""
        metadata = named.metadata
        return self._resource.key_of(metadata.namespace, metadata.name or "?")

    def deliver(self) -> None:
        """Call the handler with the batch collected so far, unless it is empty."""
        if self._batch:
            batch, self._batch = self._batch, []
            self.events += len(batch)
            self._metrics.watch_events(self._resource.plural, len(batch))
            self._handler(batch)

    def _transformed(self, item: T) -> T | None:
        if self._on_decode is None:
            return item
        try:
            return self._on_decode(item)
        # The boundary between one odd object and everything else: a value that parses as JSON may
        # still make no sense (a quantity, a selector), and must cost this object only.
        except Exception as error:  # noqa: BLE001
            self.skip(Named(metadata=item.metadata), f"{type(error).__name__}: {error}")
            return None


def _same(old: KubernetesObject, new: KubernetesObject) -> bool:
    """Whether nothing changed; aggregated APIs may give their objects no resourceVersion."""
    version = new.metadata.resource_version
    return old.metadata.resource_version == version and (bool(version) or old == new)
