"""StarvationGuard: quota is kept for the pod that small ones would starve (`holdAfter`).

The first pod in queue order that only a quota has held for `holdAfter` becomes the holder of the
quotas it does not fit into; deferred pods behind it leave it what it needs of the limits it lacks.

Invariant: one holder per quota. Its turn ends when it is booked, gone, turned down by the nodes or
too large, or after `maxHold`; then the quota rests for `holdAfter`. Pods larger than a limit never
have a turn, and pods that were never gated are not concerned.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence

from plugins.resource_quota.accounts import Account, QuotaReservation, Role
from plugins.resource_quota.messages import Violation
from plugins.resource_quota.pod_records import Namespace, PodRecord


class StarvationGuard:
    """Who has a turn. Part of the ledger, which owns the records and accounts changed here."""

    def __init__(
        self,
        hold_after: float | None,
        max_hold: float,
        *,
        check: Callable[[PodRecord], Sequence[Violation]],
        free: Callable[[Namespace, set[Account]], None],
        on_timer: Callable[[], None],
    ) -> None:
        """Seconds of `holdAfter` (None: nobody ever has a turn) and `maxHold`."""
        self._hold_after = hold_after
        self._max_hold = max_hold
        self._check = check
        self._free = free
        self._on_timer = on_timer
        #: (time, namespace) at which a turn may begin or end.
        self._times: list[tuple[float, str]] = []

    def next_due(self) -> float | None:
        """Wall clock second at which `run_due` may have something to do."""
        return self._times[0][0] if self._times else None

    def wait(self, space: Namespace, record: PodRecord, now: float) -> None:
        """A pod is held by quota: from now on, if it was not already."""
        if self._hold_after is None or not record.deferred or record.starved_since is not None:
            return
        record.starved_since = now
        space.starving[record.uid] = now
        self._look(now + self._hold_after, space)

    def satisfied(self, space: Namespace, record: PodRecord) -> None:
        """Quota alone keeps the pod from a node no longer: what was kept for it is free."""
        if record.starved_since is None:
            return
        record.starved_since = None
        space.starving.pop(record.uid, None)
        ended = {
            account
            for account in space.accounts.values()
            if account.starvation_reservation is not None
            and account.starvation_reservation.uid == record.uid
        }
        for account in ended:
            account.starvation_reservation = None
        if ended:
            self._free(space, ended)
            if space.starving:
                self._look(0.0, space)

    def reconsider(self, space: Namespace) -> None:
        """A quota is new: somebody may have been waiting for it long enough."""
        if space.starving:
            self._look(0.0, space)

    def run_due(self, namespaces: Mapping[str, Namespace], now: float) -> None:
        """End turns that are over and begin new ones."""
        due: dict[str, None] = {}
        while self._times and self._times[0][0] <= now:
            due[heapq.heappop(self._times)[1]] = None
        for name in due:
            space = namespaces.get(name)
            if space is not None and self._hold_after is not None:
                self._end(space, now, self._hold_after)
                self._begin(space, now, self._hold_after)

    def _look(self, when: float, space: Namespace) -> None:
        heapq.heappush(self._times, (when, space.name))
        self._on_timer()

    def _end(self, space: Namespace, now: float, rest: float) -> None:
        for account in space.accounts.values():
            if (
                account.starvation_reservation is not None
                and account.starvation_reservation.until <= now
            ):
                account.starvation_reservation = None
                account.cooldown_until = now + rest
                self._look(account.cooldown_until, space)
                self._free(space, {account})

    def _begin(self, space: Namespace, now: float, hold_after: float) -> None:
        vacant = {
            account
            for account in space.accounts.values()
            if account.starvation_reservation is None and account.cooldown_until <= now
        }
        if not vacant:
            return
        waiting = [
            (record.order, uid)
            for uid, since in space.starving.items()
            if since + hold_after <= now
            for record in (space.pods[uid],)
            if record.order is not None
        ]
        for order, uid in sorted(waiting):
            if not vacant:
                return
            vacant -= self._reserve_for(space, space.pods[uid], order, vacant, now)

    def _reserve_for(
        self,
        space: Namespace,
        record: PodRecord,
        order: tuple[int, int],
        vacant: set[Account],
        now: float,
    ) -> set[Account]:
        violations = self._check(record)
        given: set[Account] = set()
        if any(each.never for each in violations):
            return given
        for account, amounts in record.request.shares:
            short = frozenset(
                each.index
                for each in violations
                if each.account is account and not each.reserved_for
            )
            if account in vacant and short:
                until = now + self._max_hold
                key = record.pod.key
                account.starvation_reservation = QuotaReservation(
                    record.uid, key, order, amounts, short, until
                )
                given.add(account)
                self._look(until, space)
        return given


def yields_to(record: PodRecord, account: Account, index: int) -> bool:
    """Whether a pod leaves what the account's holder, if any, needs of a limit to it."""
    starvation_reservation = account.starvation_reservation
    if (
        starvation_reservation is None
        or index not in starvation_reservation.short
        or starvation_reservation.uid == record.uid
    ):
        return False
    if not record.deferred or record.role is Role.RESERVED:
        return False
    # A pod that is not held came later than all that are, but for its priority.
    return (
        -record.pod.priority >= starvation_reservation.order[0]
        if record.order is None
        else (record.order > starvation_reservation.order)
    )
