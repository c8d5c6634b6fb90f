"""StarvationGuard: reserves quota for a pod that small pods would starve (`fairness: HoldAfter`).

The first pod in queue order that only quota has held for `holdAfter` gets a reservation in the
quotas that it exceeds; deferred pods behind it must leave it the amounts that it needs. The leader
of a held group gets a reservation for the whole group, which all pods of the group may use.

Invariant: there is at most one reservation per quota. It ends when the pod reserves, is deleted, is
rejected by nodes, or becomes larger than a limit, or after `maxHold`; then the quota is open to all
for `holdAfter`. Pods larger than a limit never get a reservation, and pods that were never gated
need not yield.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping

from plugins.resource_quota.accounts import Account, QuotaReservation
from plugins.resource_quota.callbacks import LedgerCallbacks
from plugins.resource_quota.records import Namespace, Order, PodRecord
from plugins.resource_quota.releases import Releases
from plugins.resource_quota.together import check_wanted, members_of, wanted


class StarvationGuard:
    """Part of the ledger, which owns the records and accounts changed here."""

    def __init__(
        self,
        hold_after: float | None,
        max_hold: float,
        callbacks: LedgerCallbacks,
        releases: Releases,
    ) -> None:
        """Create a guard; times are in seconds, and `hold_after` of None disables it."""
        self._hold_after = hold_after
        self._max_hold = max_hold
        self._callbacks = callbacks
        self._releases = releases
        #: (wall clock second, namespace) at which a reservation may begin or end.
        self._times: list[tuple[float, str]] = []

    def next_due(self) -> float | None:
        """Return the wall clock second at which `run_due` may have something to do."""
        return self._times[0][0] if self._times else None

    def start(self, record: PodRecord, now: float) -> None:
        """Record that from now on, if not before, only quota keeps a pod from a node."""
        starving = record.namespace.starving
        if self._hold_after is not None and record.deferred and record.uid not in starving:
            starving[record.uid] = now
            self._schedule(now + self._hold_after, record.namespace)

    def end(self, record: PodRecord) -> None:
        """Record that quota is not the only obstacle of a pod any more; end its reservation."""
        namespace = record.namespace
        if namespace.starving.pop(record.uid, None) is None:
            return
        ended = {
            account for account in namespace.accounts.values() if account.is_kept_for(record.uid)
        }
        for account in ended:
            account.starvation_reservation = None
        if ended:
            self._releases.free(namespace, ended)
            self.reconsider(namespace)

    def reconsider(self, namespace: Namespace) -> None:
        """Search soon for pods that get a reservation, since an account is new or vacant."""
        if namespace.starving:
            self._schedule(0.0, namespace)

    def run_due(self, namespaces: Mapping[str, Namespace], now: float) -> None:
        """End reservations that are over, and make new ones."""
        due: dict[str, None] = {}
        while self._times and self._times[0][0] <= now:
            due[heapq.heappop(self._times)[1]] = None
        for name in due:
            namespace = namespaces.get(name)
            if namespace is not None and self._hold_after is not None:
                self._expire(namespace, now, self._hold_after)
                self._reserve(namespace, now, self._hold_after)

    def _schedule(self, when: float, namespace: Namespace) -> None:
        heapq.heappush(self._times, (when, namespace.name))
        self._callbacks.on_timer()

    def _expire(self, namespace: Namespace, now: float, cooldown: float) -> None:
        for account in namespace.accounts.values():
            kept = account.starvation_reservation
            if kept is not None and kept.until <= now:
                account.starvation_reservation = None
                account.cooldown_until = now + cooldown
                self._schedule(account.cooldown_until, namespace)
                self._releases.free(namespace, {account})

    def _reserve(self, namespace: Namespace, now: float, hold_after: float) -> None:
        vacant = {
            account
            for account in namespace.accounts.values()
            if account.starvation_reservation is None and account.cooldown_until <= now
        }
        if not vacant:
            return
        starved = [
            (record.order, uid)
            for uid, since in namespace.starving.items()
            if since + hold_after <= now
            for record in (namespace.pods[uid],)
            if record.order is not None
        ]
        for order, uid in sorted(starved):
            if not vacant:
                return
            vacant -= self._reserve_for(namespace.pods[uid], order, vacant, now)

    def _reserve_for(
        self, record: PodRecord, order: Order, vacant: set[Account], now: float
    ) -> set[Account]:
        """Reserve vacant accounts for a pod; return those that are reserved."""
        violations = check_wanted(record)
        kept: set[Account] = set()
        if any(each.never for each in violations):
            return kept
        members = frozenset(each.uid for each in members_of(record))
        for account, amounts in wanted(record).items():
            short = frozenset(
                each.index
                for each in violations
                if each.account is account and not each.reserved_for
            )
            if account in vacant and short:
                until = now + self._max_hold
                account.starvation_reservation = QuotaReservation(
                    record.uid, members, record.pod.key, order, amounts, short, until
                )
                kept.add(account)
                self._schedule(until, record.namespace)
        return kept
