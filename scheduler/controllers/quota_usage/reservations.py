"""Reservations that several active schedulers share: `reservation: Api`.

Before a bind the pod's amounts are written into the annotation of each quota that covers it, under
the quota's resourceVersion; after a conflict the quota is read and the pod checked again. What
other schedulers have written counts as reserved. So of two schedulers that want the last unit one
gets it, however far their watches are behind.

A reservation is removed some time after its pod was observed bound, so that other schedulers have
observed it as well, or at once when the pod is certainly not bound. Those of schedulers that died
expire.

Costs two small writes per pod and quota. Invariant: no pod is bound without a reservation that was
written when the sum fitted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from random import Random
from typing import Final

import structlog

from plugins.resource_quota.accounts import Account
from plugins.resource_quota.enforcement import QuotaEnforcement
from plugins.resource_quota.keys import InvalidKeyError
from plugins.resource_quota.messages import Violation
from scheduler.api.pod import Pod
from scheduler.api.policy import ResourceQuota
from scheduler.api.quantity import QuantityError
from scheduler.client.clock import Clock
from scheduler.client.dispatcher import Dispatcher, DispatcherClosedError
from scheduler.client.errors import ApiError, RequestError, describe
from scheduler.client.rest import ApiClient
from scheduler.controllers.quota_usage.inflight import (
    ANNOTATION,
    EXPIRY_SECONDS,
    InFlightReservation,
    read,
    reservation,
    text,
)
from scheduler.controllers.quota_usage.quota_patcher import Key, QuotaPatcher
from scheduler.framework import Subscriptions

_log = structlog.get_logger(__name__)

ENTRY_GRACE: Final = 2.0
"""Seconds that a reservation outlives the observed binding: other watches may be behind."""
TICK_SECONDS: Final = 1.0

Reservations = dict[str, InFlightReservation]
"""By UID of the pod."""


class SharedReservations:
    """Touched from one event loop. `run` in the leader of each scheduler."""

    def __init__(
        self,
        client: ApiClient,
        dispatcher: Dispatcher,
        enforcement: QuotaEnforcement,
        subscriptions: Subscriptions,
        *,
        random: Random,
    ) -> None:
        self._patcher = QuotaPatcher(client, dispatcher, random)
        self._ledger = enforcement.ledger
        self._clock: Clock = client.clock
        self._holder = f"{random.getrandbits(64):016x}"
        #: This scheduler's, by quota; and the monotonic second from which each is to be removed.
        self._ours: dict[Key, Reservations] = {}
        self._over: dict[Key, dict[str, float]] = {}
        #: The newest objects of quotas in which other schedulers have reservations.
        self._shared: dict[Key, ResourceQuota] = {}
        self._locks: dict[Key, asyncio.Lock] = {}
        enforcement.share_reservations(self.claim, lambda pod: self._end(pod, 0.0))
        subscriptions.on_object("resourcequotas", self._quota)
        subscriptions.on_object("pods", self._pod)

    # -- reserving -------------------------------------------------------------------------------

    async def claim(self, pod: Pod) -> Sequence[Violation]:
        """Write the reservations of a pod. Violations mean that other schedulers have the rest.

        Raises:
            RequestError: a reservation could not be written.
        """
        for account in list(self._ledger.accounts_of(pod)):
            found = await self._claim_in(account, pod)
            if found:
                return found
        return ()

    async def _claim_in(self, account: Account, pod: Pod) -> Sequence[Violation]:
        key = account.namespace, account.name
        violations: Sequence[Violation] = ()
        written: Reservations = {}

        def plan(quota: ResourceQuota) -> Mapping[str, str | None] | None:
            nonlocal violations, written
            others = self._note(quota)
            unknown = self._unknown(account, others)
            violations = self._ledger.violations_with(pod, account, unknown)
            if violations:
                return None
            made = reservation(_amounts(account, pod.uid), self._holder, self._clock.now())
            written = {**self._kept(key), pod.uid: made}
            return {ANNOTATION: text({**others, **written})}

        async with self._locks.setdefault(key, asyncio.Lock()):
            # The pod may have been given up before, and its old reservation still be there.
            self._over.get(key, {}).pop(pod.uid, None)
            ours = self._ours.setdefault(key, {})
            try:
                await self._patcher.annotate(key, plan)
            except RequestError:
                if pod.uid in written:
                    # It may have been written: it is removed when that is due.
                    ours[pod.uid] = written[pod.uid]
                raise
            if not violations:
                ours.update(written)
        return violations

    def _kept(self, key: Key) -> Reservations:
        """Return this scheduler's reservations in a quota; those not to be removed are renewed."""
        over, now = self._over.get(key, {}), self._clock.monotonic()
        return {
            uid: each if uid in over else reservation(each.amounts, self._holder, self._clock.now())
            for uid, each in self._ours.get(key, {}).items()
            if uid not in over or over[uid] > now
        }

    # -- reservations of other schedulers --------------------------------------------------------

    def _note(self, quota: ResourceQuota) -> Reservations:
        """Take over the reservations of other schedulers, and return them."""
        key = quota.metadata.namespace, quota.metadata.name
        found = read(quota.metadata.annotations, self._clock.now())
        others = {uid: each for uid, each in found.items() if each.holder != self._holder}
        if others:
            self._shared[key] = quota
        else:
            self._shared.pop(key, None)
        self._ledger.set_foreign(key, frozenset(others))
        return others

    def _unknown(self, account: Account, others: Reservations) -> list[int]:
        """Sum up, by limit, reservations for pods that the watch has not delivered yet."""
        sums = [0] * len(account.limits)
        for uid, each in others.items():
            if self._ledger.pod(uid) is not None:
                continue
            for index, limit in enumerate(account.limits):
                with suppress(QuantityError, InvalidKeyError):
                    sums[index] += limit.amount(each.amounts.get(limit.key, "0"))
        return sums

    def _quota(self, old: ResourceQuota | None, new: ResourceQuota | None) -> None:
        if new is not None:
            self._note(new)
        elif old is not None:
            key = old.metadata.namespace, old.metadata.name
            for kept in (self._shared, self._ours, self._over, self._locks):
                kept.pop(key, None)
            self._ledger.set_foreign(key, frozenset())

    # -- removing --------------------------------------------------------------------------------

    def _pod(self, old: Pod | None, new: Pod | None) -> None:
        if new is None:
            if old is not None:
                self._end(old, ENTRY_GRACE)
        elif new.spec.node_name:
            self._end(new, ENTRY_GRACE)

    def _end(self, pod: Pod, delay: float) -> None:
        due = self._clock.monotonic() + delay
        for key, ours in self._ours.items():
            if pod.uid in ours and key[0] == pod.metadata.namespace:
                over = self._over.setdefault(key, {})
                over[pod.uid] = min(over.get(pod.uid, due), due)

    async def run(self) -> None:
        """Remove reservations that are over, and note when those of other schedulers expire."""
        while True:
            await self._clock.sleep(TICK_SECONDS)
            for quota in list(self._shared.values()):
                self._note(quota)
            for key in list(self._ours):
                try:
                    await self.sweep(key)
                except DispatcherClosedError:
                    continue
                except RequestError as error:
                    _log.info(
                        "entries of a quota are removed later",
                        quota="/".join(key),
                        **describe(error),
                    )
                except Exception:  # noqa: BLE001 - one quota's error must not end the others'
                    _log.exception("entries of a quota were not removed", quota="/".join(key))

    async def sweep(self, key: Key) -> None:
        """Remove reservations in one quota that are over; renew the others before they expire.

        A bind may take long: volumes are provisioned, or its outcome is unknown.
        """
        kept: Reservations = {}

        def plan(quota: ResourceQuota) -> Mapping[str, str | None]:
            nonlocal kept
            kept = self._kept(key)
            return {ANNOTATION: text({**self._note(quota), **kept})}

        now = self._clock.monotonic()
        async with self._locks.setdefault(key, asyncio.Lock()):
            over = [uid for uid, due in self._over.get(key, {}).items() if due <= now]
            expiring = any(
                each.expired(self._clock.now() + EXPIRY_SECONDS / 2)
                for uid, each in self._ours.get(key, {}).items()
                if uid not in over
            )
            if not over and not expiring:
                return
            try:
                await self._patcher.annotate(key, plan)
            except ApiError as error:
                if error.status != HTTPStatus.NOT_FOUND:
                    raise
            else:
                self._ours.setdefault(key, {}).update(kept)
            for uid in over:
                self._ours.get(key, {}).pop(uid, None)
                self._over.get(key, {}).pop(uid, None)
            for found in (self._over, self._ours):
                if not found.get(key):
                    found.pop(key, None)


def _amounts(account: Account, uid: str) -> dict[str, str]:
    charge = account.charges.get(uid)
    if charge is None:
        return {}
    return {
        limit.key: limit.value(nano)
        for limit, nano in zip(account.limits, charge.amounts, strict=True)
        if nano
    }
