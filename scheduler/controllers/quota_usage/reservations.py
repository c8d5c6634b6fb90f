"""Reservations that several active schedulers share: `reservation: Api` (design 2.9).

Before a bind the pod's amounts are written into the annotation of each quota that covers it, under
the quota's resourceVersion; a conflict means that somebody else wrote, so it is read and checked
again. Entries of others are taken as booked. So of two schedulers that want the last unit one gets
it, whatever their watches have seen.

An entry is removed some time after its pod was seen bound, so that others have seen it as well, or
at once when the pod surely is not bound. Entries of schedulers that died expire.

Costs two small writes per pod and quota. Invariant: nothing is bound without an entry that was
written when the sum fitted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from random import Random
from typing import Final

import structlog

from plugins.resource_quota.accounts import Account, Amounts
from plugins.resource_quota.enforcement import QuotaEnforcement
from plugins.resource_quota.keys import InvalidKeyError
from plugins.resource_quota.messages import Violation
from scheduler.api.pod import Pod
from scheduler.api.policy import ResourceQuota
from scheduler.api.quantity import Quantity, QuantityError, parse
from scheduler.client.backoff import Backoff
from scheduler.client.clock import Clock
from scheduler.client.dispatcher import Dispatcher, DispatcherClosedError, Lane
from scheduler.client.errors import ApiError, RequestError, describe
from scheduler.client.request_sender import MERGE_PATCH
from scheduler.client.resources import RESOURCE_QUOTAS
from scheduler.client.rest import ApiClient
from scheduler.controllers.quota_usage.inflight import (
    ANNOTATION,
    EXPIRY_SECONDS,
    InFlightReservation,
    entry,
    read,
    text,
)
from scheduler.controllers.quota_usage.publication import Key
from scheduler.framework import Subscriptions

_log = structlog.get_logger(__name__)

MAX_ATTEMPTS: Final = 6
"""The first and five more."""
ENTRY_GRACE: Final = 2.0
"""How long an entry outlives the sight of the binding: the watches of others may be behind."""
TICK_SECONDS: Final = 1.0
_CONFLICT: Final = 409


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
        self._client = client
        self._dispatcher = dispatcher
        self._enforcement = enforcement
        self._random = random
        self._clock: Clock = client.clock
        self._holder = f"{random.getrandbits(64):016x}"
        #: Ours, by quota and UID; and from when on they are to be removed.
        self._ours: dict[Key, dict[str, InFlightReservation]] = {}
        self._over: dict[Key, dict[str, float]] = {}
        #: Quotas as they were seen last, with entries of others.
        self._seen: dict[Key, ResourceQuota] = {}
        self._locks: dict[Key, asyncio.Lock] = {}
        enforcement.claim = self.claim
        enforcement.on_given_up = self._given_up
        subscriptions.on_object("resourcequotas", self._quota)
        subscriptions.on_object("pods", self._pod)

    # -- booking ---------------------------------------------------------------------------------

    async def claim(self, pod: Pod) -> Sequence[Violation]:
        """Book a pod that is reserved here. Violations mean that others have booked the rest.

        Raises:
            RequestError: it could not be written.
        """
        for account in list(self._enforcement.ledger.accounts_of(pod)):
            found = await self._claim_in(account, pod)
            if found:
                return found
        return ()

    async def _claim_in(self, account: Account, pod: Pod) -> Sequence[Violation]:
        key = account.namespace, account.name
        async with self._locks.setdefault(key, asyncio.Lock()):
            # The pod may have been given up before, and its old entry still be there.
            self._over.get(key, {}).pop(pod.uid, None)
            backoff = Backoff(self._random, initial=0.005, cap=0.2)
            while True:
                quota = await self._client.get(RESOURCE_QUOTAS, account.name, account.namespace)
                others = self._note(quota)
                found = self._enforcement.ledger.violations_with(
                    pod, account, self._unknown(account, others)
                )
                if found:
                    return found
                now = self._clock.now()
                mine = self._ours.setdefault(key, {})
                fresh = entry(_amounts(account, pod.uid), self._holder, now)
                kept = self._kept(key)
                try:
                    await self._write(quota, {**others, **kept, pod.uid: fresh})
                except RequestError as error:
                    conflict = isinstance(error, ApiError) and error.status == _CONFLICT
                    delay = backoff.next()
                    if not conflict or backoff.attempts >= MAX_ATTEMPTS:
                        # It may have been written: it is removed when that is due.
                        mine[pod.uid] = fresh
                        raise
                    await self._clock.sleep(delay)
                else:
                    mine.update(kept)
                    mine[pod.uid] = fresh
                    return ()

    def _kept(self, key: Key) -> dict[str, InFlightReservation]:
        """Our entries of a quota that are not over; their times are renewed."""
        over, now = self._over.get(key, {}), self._clock.now()
        return {
            uid: entry(each.amounts, self._holder, now)
            for uid, each in self._ours.get(key, {}).items()
            if uid not in over
        } | {
            uid: self._ours[key][uid]
            for uid, due in over.items()
            if due > self._clock.monotonic() and uid in self._ours.get(key, {})
        }

    async def _write(
        self, quota: ResourceQuota, entries: Mapping[str, InFlightReservation]
    ) -> None:
        meta = quota.metadata
        body = {
            "metadata": {
                "uid": meta.uid,
                "resourceVersion": meta.resource_version,
                "annotations": {ANNOTATION: text(entries)},
            }
        }
        await self._dispatcher.call(
            Lane.BIND,
            lambda: self._client.patch(
                RESOURCE_QUOTAS, meta.name, meta.namespace, body=body, patch_type=MERGE_PATCH
            ),
        )

    # -- what others have booked -----------------------------------------------------------------

    def _note(self, quota: ResourceQuota) -> dict[str, InFlightReservation]:
        """Take over the entries of others."""
        key = quota.metadata.namespace, quota.metadata.name
        entries = read(quota.metadata.annotations, self._clock.now())
        others = {uid: each for uid, each in entries.items() if each.holder != self._holder}
        if others:
            self._seen[key] = quota
        else:
            self._seen.pop(key, None)
        self._enforcement.ledger.set_foreign(key, frozenset(others))
        return others

    def _unknown(self, account: Account, others: Mapping[str, InFlightReservation]) -> list[int]:
        """What others have booked for pods that have not reached us."""
        sums = [0] * len(account.limits)
        for uid, each in others.items():
            if self._enforcement.ledger.pod(uid) is None:
                for index, limit in enumerate(account.limits):
                    raw = each.amounts.get(limit.key, "0")
                    try:
                        sums[index] += (
                            parse(raw).nano
                            if limit.deferred is None
                            else limit.deferred.amount(raw)
                        )
                    except (QuantityError, InvalidKeyError):
                        continue
        return sums

    def _quota(self, old: ResourceQuota | None, new: ResourceQuota | None) -> None:
        if new is not None:
            self._note(new)
        elif old is not None:
            key = old.metadata.namespace, old.metadata.name
            for kept in (self._seen, self._ours, self._over, self._locks):
                kept.pop(key, None)
            self._enforcement.ledger.set_foreign(key, frozenset())

    # -- ending ----------------------------------------------------------------------------------

    def _pod(self, old: Pod | None, new: Pod | None) -> None:
        if new is None:
            if old is not None:
                self._end(old, ENTRY_GRACE)
        elif new.spec.node_name:
            self._end(new, ENTRY_GRACE)

    def _given_up(self, pod: Pod) -> None:
        self._end(pod, 0.0)

    def _end(self, pod: Pod, delay: float) -> None:
        due = self._clock.monotonic() + delay
        for key, mine in self._ours.items():
            if pod.uid in mine and key[0] == pod.metadata.namespace:
                over = self._over.setdefault(key, {})
                over[pod.uid] = min(over.get(pod.uid, due), due)

    async def run(self) -> None:
        """Remove entries that are over, and look after those of others that expire."""
        while True:
            await self._clock.sleep(TICK_SECONDS)
            for quota in list(self._seen.values()):
                self._note(quota)
            for key in list(self._ours):
                try:
                    await self.sweep(key)
                except (RequestError, DispatcherClosedError) as error:
                    if isinstance(error, RequestError):
                        _log.info(
                            "entries of a quota are removed later",
                            quota="/".join(key),
                            **describe(error),
                        )
                except Exception:  # noqa: BLE001 - one quota's trouble must not end the others'
                    _log.exception("entries of a quota were not removed", quota="/".join(key))

    async def sweep(self, key: Key) -> None:
        """Remove our entries of one quota that are over, and renew the others before they expire.

        A bind may take long: volumes are provisioned, or its outcome is unknown.
        """
        now = self._clock.monotonic()
        async with self._locks.setdefault(key, asyncio.Lock()):
            gone = [uid for uid, due in self._over.get(key, {}).items() if due <= now]
            old = any(
                each.expired(self._clock.now() + EXPIRY_SECONDS / 2)
                for uid, each in self._ours.get(key, {}).items()
                if uid not in gone
            )
            if not gone and not old:
                return
            try:
                quota = await self._client.get(RESOURCE_QUOTAS, key[1], key[0])
            except ApiError as error:
                if error.status != 404:
                    raise
            else:
                kept = self._kept(key)
                await self._write(quota, {**self._note(quota), **kept})
                self._ours.setdefault(key, {}).update(kept)
            for uid in gone:
                self._ours.get(key, {}).pop(uid, None)
                self._over.get(key, {}).pop(uid, None)
            if not self._over.get(key):
                self._over.pop(key, None)
            if not self._ours.get(key):
                self._ours.pop(key, None)


def _amounts(account: Account, uid: str) -> dict[str, str]:
    held = account.charges.get(uid)
    amounts: Amounts = () if held is None else held.amounts
    return {
        limit.key: Quantity(nano).canonical() if limit.deferred is None
        else limit.deferred.published(nano)
        for limit, nano in zip(account.limits, amounts, strict=False)
        if nano
    }  # fmt: skip
