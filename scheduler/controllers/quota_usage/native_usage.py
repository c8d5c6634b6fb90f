"""Native mode: what a bound pod uses is written into `status.used` at once (KEP-5465 rule Q10).

The API server charges a deferred pod only when the controller recounts, which may take minutes, and
a delta would be counted twice by then. So after each binding the quotas concerned are read, and the
greater of what they show and what the ledger has is written, under the resourceVersion that was
read. After `MAX_ATTEMPTS` conflicts it is left to the controller; scheduling is exact either way,
for the plugin goes by the greater of both as well.

It also watches for a server that is not native: there `status.used` contains pods that nobody has
scheduled yet, and they would be held for ever (2.14, K1). That is an error of the installation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from random import Random
from typing import Final

import structlog

from plugins.resource_quota.accounts import Account, Limit
from plugins.resource_quota.enforcement import QuotaEnforcement
from plugins.resource_quota.keys import human
from scheduler.api.pod import Pod
from scheduler.api.policy import ResourceQuota
from scheduler.api.quantity import QuantityError, parse
from scheduler.api.storage import ObjectReference
from scheduler.client.backoff import Backoff
from scheduler.client.clock import Clock
from scheduler.client.dispatcher import Dispatcher, DispatcherClosedError, Lane
from scheduler.client.errors import ApiError, RequestError, describe
from scheduler.client.request_sender import MERGE_PATCH
from scheduler.client.resources import RESOURCE_QUOTAS
from scheduler.client.rest import ApiClient
from scheduler.client.status_patch import concerns_another_pod
from scheduler.controllers.quota_usage.publication import Key
from scheduler.controllers.quota_usage.usage_writer import UsageWriterMetrics
from scheduler.framework import Events

_log = structlog.get_logger(__name__)

MAX_ATTEMPTS: Final = 6
"""The first and five more, as the KEP has it."""
MAX_IN_FLIGHT: Final = 4
CHECK_SECONDS: Final = 10.0
"""Between two looks for a server that is not native; it must look so twice."""
NOT_NATIVE: Final = "QuotaModeMismatch"
"""Reason of the event about that."""
_CONFLICT: Final = 409


class NativeUsage:
    """Touched from one event loop. `run` in the leader."""

    def __init__(
        self,
        client: ApiClient,
        dispatcher: Dispatcher,
        enforcement: QuotaEnforcement,
        *,
        events: Events,
        metrics: UsageWriterMetrics,
        random: Random,
    ) -> None:
        self._client = client
        self._dispatcher = dispatcher
        self._enforcement = enforcement
        self._events = events
        self._metrics = metrics
        self._random = random
        self._clock: Clock = client.clock
        #: Quotas to be written, in order.
        self._due: dict[Key, None] = {}
        self._wake = asyncio.Event()
        self._suspected: dict[Key, tuple[int, ...]] = {}
        self._reported: set[str] = set()
        enforcement.on_bound = self._bound

    async def run(self) -> None:
        """Write until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number in range(MAX_IN_FLIGHT):
                group.create_task(self._work(), name=f"native quota usage {number}")
            while True:
                await self._clock.sleep(CHECK_SECONDS)
                try:
                    self.check()
                except Exception:  # noqa: BLE001 - a look at the installation must not end the writes
                    _log.exception("cannot tell whether the server is native")

    async def _work(self) -> None:
        while True:
            while not self._due:
                self._wake.clear()
                await self._wake.wait()
            key = next(iter(self._due))
            del self._due[key]
            try:
                await self._raise(key)
            except Exception:  # noqa: BLE001 - one quota's trouble must not end the others' usage
                _log.exception("usage of a quota was not written", quota="/".join(key))

    def _bound(self, pod: Pod) -> None:
        for account in self._enforcement.ledger.accounts_of(pod):
            if any(limit.native for limit in account.limits):
                self._due[account.namespace, account.name] = None
        self._wake.set()

    # -- writing ---------------------------------------------------------------------------------

    async def _raise(self, key: Key) -> None:
        backoff = Backoff(self._random, initial=0.01, cap=1.0)
        while True:
            try:
                await self._try(key)
                return
            except DispatcherClosedError:
                return
            except RequestError as error:
                if concerns_another_pod(error):
                    return
                conflict = isinstance(error, ApiError) and error.status == _CONFLICT
                delay = backoff.next()
                if not conflict or backoff.attempts >= MAX_ATTEMPTS:
                    self._metrics.failed()
                    _log.warning(
                        "usage of a quota is left to the quota controller",
                        quota="/".join(key),
                        **describe(error),
                    )
                    return
                await self._clock.sleep(delay)

    async def _try(self, key: Key) -> None:
        namespace, name = key
        found = await self._client.get(RESOURCE_QUOTAS, name, namespace)
        account = self._enforcement.ledger.account(namespace, name)
        if account is None or account.uid != found.metadata.uid:
            return
        higher = _higher(account, found)
        if not higher:
            return
        meta = {"uid": found.metadata.uid, "resourceVersion": found.metadata.resource_version}
        body = {"metadata": meta, "status": {"used": higher}}
        await self._dispatcher.call(
            Lane.STATUS,
            lambda: self._client.patch(
                RESOURCE_QUOTAS,
                name,
                namespace,
                body=body,
                patch_type=MERGE_PATCH,
                subresource="status",
            ),
        )
        self._metrics.written()

    # -- is the server native? -------------------------------------------------------------------

    def check(self) -> None:
        """Look at every quota; what looks the same wrong way twice is reported, once per quota."""
        suspected: dict[Key, tuple[int, ...]] = {}
        for account in self._enforcement.ledger.accounts():
            key = account.namespace, account.name
            found = self._too_much(account)
            if not found:
                continue
            suspected[key] = found
            if self._suspected.get(key) == found and account.uid not in self._reported:
                self._reported.add(account.uid)
                self._report(account)
        self._suspected = suspected

    def _too_much(self, account: Account) -> tuple[int, ...]:
        """What the status shows, if it is what is used *and* what deferred pods merely ask for."""
        waiting = self._enforcement.ledger.uncharged(account)
        return tuple(
            limit.observed
            for index, limit in enumerate(account.limits)
            if limit.native
            and limit.observed is not None
            and waiting[index]
            and limit.observed >= account.taken(index, pending=True) + waiting[index]
        )

    def _report(self, account: Account) -> None:
        note = (
            f"quota {account.name} charges pods that are not scheduled yet: quotaMode is Native, "
            "and the API server or the quota controller does not implement KEP-5465; such pods "
            "are held until that is put right (gate ResourceQuotaDeferredEnforcement there, or "
            "quotaMode: DeferredKeys here)"
        )
        _log.error(note, quota=f"{account.namespace}/{account.name}")
        reference = ObjectReference(
            api_version="v1",
            kind="ResourceQuota",
            namespace=account.namespace,
            name=account.name,
            uid=account.uid,
        )
        self._events.record(reference, "Warning", NOT_NATIVE, "Quota", note)


def _higher(account: Account, quota: ResourceQuota) -> Mapping[str, str]:
    """Built-in names of which the ledger has more than the object shows."""
    return {
        limit.key: human(limit.name, taken)
        for index, limit in enumerate(account.limits)
        if limit.native
        for taken in (account.taken(index, pending=True),)
        if taken > _shown(quota, limit)
    }


def _shown(quota: ResourceQuota, limit: Limit) -> int:
    try:
        return parse(quota.status.used.get(limit.key, "0")).nano
    except QuantityError:
        return 0
