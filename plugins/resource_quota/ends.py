"""Ends: when pods that are being deleted count no more, however long their objects stay."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from typing import Final

from plugins.resource_quota.callbacks import LedgerCallbacks
from plugins.resource_quota.deferral import counts_until
from plugins.resource_quota.records import PodRecord

EXPIRY_MARGIN: Final = 0.001
"""Seconds past a deadline that it takes for the deadline to be over."""


class Ends:
    """Part of the ledger, whose records it reads and marks as expired."""

    def __init__(self, pods: Mapping[str, PodRecord], callbacks: LedgerCallbacks) -> None:
        """`pods` by UID; the ledger changes them."""
        self._pods = pods
        self._callbacks = callbacks
        #: (wall clock second, UID); a pod whose end was moved is in it twice.
        self._ends: list[tuple[float, str]] = []

    def watch(self, record: PodRecord) -> None:
        """Note until when a pod counts."""
        until = counts_until(record.pod)
        if until != record.counts_until:
            record.counts_until, record.expired = until, False
            if until is not None:
                heapq.heappush(self._ends, (until + EXPIRY_MARGIN, record.uid))
                self._callbacks.on_timer()

    def next_due(self) -> float | None:
        """Return the wall clock second of the first end; None: no pod is being deleted."""
        while self._ends and self._awaited(*self._ends[0]) is None:
            heapq.heappop(self._ends)
        return self._ends[0][0] if self._ends else None

    def expire(self, now: float) -> Iterator[PodRecord]:
        """Mark the pods that count no more, and yield them."""
        while self._ends and self._ends[0][0] <= now:
            record = self._awaited(*heapq.heappop(self._ends))
            if record is not None:
                record.expired = True
                yield record

    def _awaited(self, due: float, uid: str) -> PodRecord | None:
        """Return the pod if it still counts until then."""
        record = self._pods.get(uid)
        if record is None or record.counts_until is None:
            return None
        return record if record.counts_until + EXPIRY_MARGIN == due else None
