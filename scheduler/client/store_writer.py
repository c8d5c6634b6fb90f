"""Changes of one resource, applied to its store and delivered to the reflector's handler.

Invariant: applying the delivered deltas in order gives exactly the store. A name that came back
with another UID yields DELETED and ADDED. An object whose resourceVersion is known already yields
nothing.

A batch changes the store when it is handled, which may be later than its delivery: while a
scheduling cycle is suspended, listers show what the cache and the queue know, no more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic

import structlog

from scheduler.api.meta import Named
from scheduler.client.deltas import Delta, DeltaType, Handler
from scheduler.client.metrics import ClientMetrics
from scheduler.client.resources import KubernetesObject, Resource, T
from scheduler.client.store import KeepRaw, Store

_log = structlog.get_logger(__name__)

_Change = tuple[str, T | None, bytes | None, tuple[Delta[T], ...]]
"""Key, object or None if it is deleted, its JSON if that is kept, and what the handler is told."""

Submit = Callable[..., None]
"""`submit(change, *arguments)` calls `change` now or later, in the order of submission."""


def at_once(change: Callable[..., object], *arguments: Any) -> None:
    """Call a change now."""
    change(*arguments)


class StoreWriter(Generic[T]):
    """Collects the deltas of a batch; `deliver` hands them to the handler."""

    def __init__(
        self,
        resource: Resource[T],
        handler: Handler[T],
        metrics: ClientMetrics,
        on_decode: Callable[[T], T] | None,
        keep_raw: KeepRaw[T] | None,
        submit: Submit = at_once,
    ) -> None:
        self.store: Store[T] = Store(resource)
        #: Deltas delivered and objects skipped since the start.
        self.events = self.malformed = 0
        self._resource = resource
        self._handler = handler
        self._metrics = metrics
        self._on_decode = on_decode
        self._keep_raw = keep_raw
        self._submit = submit
        self._batch: list[_Change[T]] = []
        #: What changes that are not in the store yet make of its objects, by key.
        self._ahead: dict[str, T | None] = {}
        # Delivered batches that are not in the store yet.
        self._waiting = 0

    def upsert(self, key: str, item: T, raw: Callable[[], bytes]) -> None:
        """Add or replace an object; `raw` returns its JSON, called only if the store keeps it."""
        old = self._newest(key)
        if old is not None and _same(old, item):
            return
        stored = self._transformed(item)
        if stored is None:
            return
        keep = self._keep_raw is not None and self._keep_raw(stored)
        deltas: tuple[Delta[T], ...]
        if old is None:
            deltas = (Delta(DeltaType.ADDED, stored),)
        elif old.metadata.uid != stored.metadata.uid:
            deltas = (Delta(DeltaType.DELETED, old, old), Delta(DeltaType.ADDED, stored))
        else:
            deltas = (Delta(DeltaType.MODIFIED, stored, old),)
        self._note(key, stored, raw() if keep else None, deltas)

    def delete(self, key: str, item: T | None = None) -> None:
        """Remove an object; `item` is its last state, None where that is unknown."""
        old = self._newest(key)
        if old is None:
            return
        same = item is not None and old.metadata.uid == item.metadata.uid
        last = self._transformed(item) if item is not None and same else None
        self._note(key, None, None, (Delta(DeltaType.DELETED, old if last is None else last, old),))

    def known_keys(self) -> tuple[str, ...]:
        """Return the keys of all objects, whether they are in the store yet or not."""
        gone = {key for key, item in self._ahead.items() if item is None}
        kept = [key for key in self.store.snapshot_keys() if key not in gone]
        in_store = self.store.by_key
        return (*kept, *(key for key in self._ahead if key not in gone and in_store(key) is None))

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
        """Have the batch collected so far applied and handled, unless it is empty."""
        if self._batch:
            batch, self._batch = self._batch, []
            self._waiting += 1
            self._submit(self._apply, batch)

    def _apply(self, batch: list[_Change[T]]) -> None:
        self._waiting -= 1
        if not self._waiting and not self._batch:
            self._ahead.clear()
        deltas: list[Delta[T]] = []
        for key, item, raw, made in batch:
            if item is None:
                self.store.remove(key)
            else:
                self.store.put(key, item, raw)
            deltas.extend(made)
        self.events += len(deltas)
        self._metrics.watch_events(self._resource.plural, len(deltas))
        self._handler(deltas)

    def _newest(self, key: str) -> T | None:
        return self._ahead[key] if key in self._ahead else self.store.by_key(key)

    def _note(
        self, key: str, item: T | None, raw: bytes | None, deltas: tuple[Delta[T], ...]
    ) -> None:
        self._ahead[key] = item
        self._batch.append((key, item, raw, deltas))

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
