"""Ends: the times at which terminating pods stop counting, even if their objects still exist."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from typing import Final

from plugins.resource_quota.callbacks import LedgerCallbacks
from plugins.resource_quota.deferral import counts_until
from plugins.resource_quota.records import PodRecord

EXPIRY_MARGIN: Final = 0.001
"""A deadline counts as over this many seconds after it."""


class Ends:
    """Part of the ledger, whose records it reads and marks as expired."""

    def __init__(self, pods: Mapping[str, PodRecord], callbacks: LedgerCallbacks) -> None:
        """`pods` by UID; the ledger changes them."""
        self._pods = pods
        self._callbacks = callbacks
        #: (wall clock second, UID); a pod whose end has moved has two entries.
        self._ends: list[tuple[float, str]] = []

    def watch(self, record: PodRecord) -> None:
        """Add the end of a pod, if it has one."""
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
        """Mark and yield the pods that no longer count."""
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
