"""Releases: which held pods may try again when quota is freed, and when.

Quota is freed in the middle of a scheduling cycle, where it is only recorded (`free`); `release`
releases pods between cycles. In queue order it releases as many as fit together with pods released
earlier whose attempts have not happened yet. A pod that does not use the quota makes room for
others: at once if its attempt has failed, otherwise after `RELEASE_WINDOW`. In the latter case more
pods are released than fit together, twice as many each time, until one of them uses the quota.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from typing import Final

from plugins.resource_quota.accounts import Account
from plugins.resource_quota.callbacks import LedgerCallbacks
from plugins.resource_quota.checks import add_amounts
from plugins.resource_quota.records import Namespace, PodRecord, QuotaRequest
from plugins.resource_quota.together import check_wanted, has_more_room, wanted

RELEASE_WINDOW: Final = 0.25
"""Seconds that released pods have to use the quota, before more pods are released."""
FIRST_OVERRELEASE: Final = 16
"""Number of pods released in addition to those that fit; doubled until one uses the quota."""


class Releases:
    """Part of the ledger, which owns the namespaces and records changed here."""

    def __init__(self, namespaces: Mapping[str, Namespace], callbacks: LedgerCallbacks) -> None:
        self._namespaces = namespaces
        self._callbacks = callbacks
        #: Names of namespaces in which quota was freed.
        self._due: set[str] = set()
        #: (wall clock second, namespace) at which a release window ends.
        self._windows: list[tuple[float, str]] = []

    def next_due(self) -> float | None:
        """Return the wall clock second at which work is due; 0: now, None: never."""
        if self._due:
            return 0.0
        return self._windows[0][0] if self._windows else None

    def free(self, namespace: Namespace, accounts: set[Account]) -> None:
        """Record that accounts have free quota; the next release admits only pods that fit."""
        if len(namespace.wait_queues):
            namespace.overrelease = 0
            self._note(namespace, accounts)

    def consume(self, record: PodRecord) -> None:
        """Record that a pod, if it was released, uses the quota for which it was released."""
        if record.namespace.released.pop(record.uid, None) is not None:
            record.namespace.overrelease = 0

    def give_back(self, record: PodRecord) -> None:
        """Record that a pod, if it was released, does not use the quota."""
        namespace = record.namespace
        if namespace.released.pop(record.uid, None) is None:
            return
        accounts = set(wanted(record))
        if len(namespace.wait_queues) and accounts:
            self._note(namespace, accounts)

    def close_windows(self, now: float) -> None:
        """End windows that are over: their released pods count as not using the quota."""
        while self._windows and self._windows[0][0] <= now:
            namespace = self._namespaces.get(heapq.heappop(self._windows)[1])
            if namespace is None:
                continue
            namespace.window_open = False
            for uid, since in list(namespace.released.items()):
                if since + RELEASE_WINDOW <= now:
                    del namespace.released[uid]
            if len(namespace.wait_queues):
                namespace.overrelease = namespace.overrelease * 2 or FIRST_OVERRELEASE
                self._note(namespace, set(namespace.accounts.values()))

    def release(self, now: float) -> Iterator[list[PodRecord]]:
        """Release the pods that may fit now; yield those of each namespace in queue order."""
        due, self._due = self._due, set()
        for name in sorted(due):
            namespace = self._namespaces.get(name)
            released = [] if namespace is None else self._release(namespace, now)
            if released:
                yield released

    def _note(self, namespace: Namespace, accounts: set[Account]) -> None:
        namespace.freed |= accounts
        if namespace.name not in self._due:
            self._due.add(namespace.name)
            self._callbacks.on_timer()

    def _release(self, namespace: Namespace, now: float) -> list[PodRecord]:
        """Release in queue order the pods that fit together, and `overrelease` that fit alone."""
        freed, namespace.freed = namespace.freed, set()
        extra: dict[Account, list[int]] = {}
        for uid in namespace.released:
            add_amounts(extra, wanted(namespace.pods[uid]))
        overrelease, more = namespace.overrelease, False

        def concerned(request: QuotaRequest) -> bool:
            if request.together is not None or not request.shares:
                return True
            return any(account in freed for account, _ in request.shares)

        def admit(record: PodRecord) -> bool:
            nonlocal overrelease, more
            if not has_more_room(record):
                return False
            if check_wanted(record, extra):
                if check_wanted(record):
                    return False
                more = True
                if not overrelease:
                    return False
                overrelease -= 1
            add_amounts(extra, wanted(record))
            return True

        released = namespace.wait_queues.release(concerned, admit)
        for record in released:
            record.order = None
            namespace.released[record.uid] = now
        if (more or (released and len(namespace.wait_queues))) and not namespace.window_open:
            namespace.window_open = True
            heapq.heappush(self._windows, (now + RELEASE_WINDOW, namespace.name))
            self._callbacks.on_timer()
        return released
