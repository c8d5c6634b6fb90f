"""Native mode: the usage of a bound pod is written into `status.used` at once (rule Q10).

The API server charges a deferred pod only when the quota controller recounts, which may take
minutes, and a difference would be counted twice by then. So after each binding the quotas concerned
are read, and the greater of what they show and what the ledger has is written, under the
resourceVersion that was read. After repeated conflicts it is left to the controller; scheduling is
exact either way, because the plugin takes the greater of both as well.

`check` looks for a server that is not native: there `status.used` contains pods that are not
scheduled yet, which would be held for ever (KEP-5465, "What are other known failure modes?").
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from random import Random
from typing import Final

import structlog

from plugins.resource_quota.accounts import Account, nano_or_zero
from plugins.resource_quota.enforcement import QuotaEnforcement
from plugins.resource_quota.keys import human
from plugins.resource_quota.messages import quota_reference
from scheduler.api.pod import Pod
from scheduler.api.policy import ResourceQuota
from scheduler.client.clock import Clock
from scheduler.client.dispatcher import Dispatcher, DispatcherClosedError
from scheduler.client.errors import RequestError
from scheduler.client.rest import ApiClient
from scheduler.client.status_patch import concerns_another_pod
from scheduler.controllers.quota_usage.quota_patcher import Key, QuotaPatcher, log_failure
from scheduler.controllers.quota_usage.usage_writer import UsageWriterMetrics
from scheduler.framework import Events

_log = structlog.get_logger(__name__)

MAX_IN_FLIGHT: Final = 4
CHECK_SECONDS: Final = 10.0
"""Seconds between two checks; a server must fail two in a row to be reported."""
NOT_NATIVE: Final = "QuotaModeMismatch"
"""Reason of the event on a quota of a server that is not native."""


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
        self._patcher = QuotaPatcher(client, dispatcher, random)
        self._ledger = enforcement.ledger
        self._events = events
        self._metrics = metrics
        self._clock: Clock = client.clock
        #: Quotas to be written, in order.
        self._due: dict[Key, None] = {}
        self._wake = asyncio.Event()
        self._suspected: dict[Key, tuple[int, ...]] = {}
        self._reported: set[str] = set()
        enforcement.on_bound.subscribe(self._bound)

    async def run(self) -> None:
        """Write until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number in range(MAX_IN_FLIGHT):
                group.create_task(self._work(), name=f"native quota usage {number}")
            while True:
                await self._clock.sleep(CHECK_SECONDS)
                try:
                    self.check()
                except Exception:  # noqa: BLE001 - a failed check must not end the writes
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
            except Exception:  # noqa: BLE001 - one quota's error must not end the others' usage
                _log.exception("usage of a quota was not written", quota="/".join(key))

    def _bound(self, pod: Pod) -> None:
        for account in self._ledger.accounts_of(pod):
            if account.native:
                self._due[account.namespace, account.name] = None
        self._wake.set()

    async def _raise(self, key: Key) -> None:
        def plan(quota: ResourceQuota) -> Mapping[str, str]:
            account = self._ledger.account(*key)
            same = account is not None and account.uid == quota.metadata.uid
            return _higher(account, quota) if account is not None and same else {}

        try:
            if await self._patcher.raise_used(key, plan):
                self._metrics.written()
        except DispatcherClosedError:
            return
        except RequestError as error:
            if not concerns_another_pod(error):
                self._metrics.failed()
                log_failure("usage of a quota is left to the quota controller", key, error)

    # -- check of the server ---------------------------------------------------------------------

    def check(self) -> None:
        """Report each quota once that is overcharged by the same amounts in two checks in a row."""
        suspected: dict[Key, tuple[int, ...]] = {}
        for account in self._ledger.accounts():
            key = account.namespace, account.name
            found = self._overcharged(account)
            if not found:
                continue
            suspected[key] = found
            if self._suspected.get(key) == found and account.uid not in self._reported:
                self._reported.add(account.uid)
                self._report(account)
        self._suspected = suspected

    def _overcharged(self, account: Account) -> tuple[int, ...]:
        """Return amounts of the status that include what deferred pods without a node request."""
        waiting = self._ledger.uncharged(account)
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
        reference = quota_reference(account.namespace, account.name, account.uid)
        self._events.record(reference, "Warning", NOT_NATIVE, "Quota", note)


def _higher(account: Account, quota: ResourceQuota) -> Mapping[str, str]:
    """Return the built-in names of which the ledger has more than the object shows."""
    return {
        limit.key: human(limit.name, taken)
        for index, limit in enumerate(account.limits)
        if limit.native
        for taken in (account.taken(index, pending=True),)
        if taken > nano_or_zero(quota.status.used.get(limit.key, "0"))
    }
