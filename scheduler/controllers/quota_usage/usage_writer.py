"""UsageWriter: publishes the usage of deferred keys in `status.used`, from the ledger.

The thin part: `Publications` decides, one task per write carries it out as a merge patch of
deferred keys only. It runs in the leader. Scheduling never depends on it: failed writes are
repeated, counted and logged.

It never deletes a key (the quota controller drops keys without a limit), and writes no built-in
key.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Final, Protocol

import structlog

from plugins.resource_quota.accounts import Account
from plugins.resource_quota.enforcement import QuotaEnforcement
from plugins.resource_quota.keys import PREFIX
from scheduler.api.policy import ResourceQuota
from scheduler.api.quantity import NANO, QuantityError, parse
from scheduler.client.clock import Clock, woken
from scheduler.client.dispatcher import Dispatcher, DispatcherClosedError
from scheduler.client.errors import RequestError
from scheduler.client.rest import ApiClient
from scheduler.client.status_patch import concerns_another_pod
from scheduler.controllers.quota_usage.publication import (
    Publication,
    Publications,
)
from scheduler.controllers.quota_usage.quota_patcher import Key, QuotaPatcher, log_failure
from scheduler.framework import Subscriptions

_log = structlog.get_logger(__name__)

RESTART_SECONDS: Final = 30.0
"""Pause before a restart after an unexpected error."""


class UsageWriterMetrics(Protocol):
    """Metrics of the writer; `metrics.recorders.QuotaRecorder` implements it."""

    def written(self) -> None:
        """Count a quota whose usage was written."""
        ...

    def failed(self) -> None:
        """Count a failed write."""
        ...


@dataclass(frozen=True, slots=True)
class UsageWriterStatistics:
    """Quotas known, and counts since the start."""

    quotas: int
    written: int
    failed: int


class UsageWriter:
    """Touched from one event loop. `run` in the leader; it subscribes at once."""

    def __init__(
        self,
        client: ApiClient,
        dispatcher: Dispatcher,
        enforcement: QuotaEnforcement,
        subscriptions: Subscriptions,
        *,
        metrics: UsageWriterMetrics,
        random: Random,
    ) -> None:
        self._patcher = QuotaPatcher(client, dispatcher, random)
        self._ledger = enforcement.ledger
        self._metrics = metrics
        self._clock: Clock = client.clock
        self._publications = Publications(self._usage, random)
        self._wake = asyncio.Event()
        self._written = self._failed = 0
        enforcement.on_changed.subscribe(self._changed)
        subscriptions.on_object("resourcequotas", self._quota)

    def wake(self) -> None:
        """Plan again now."""
        self._wake.set()

    def statistics(self) -> UsageWriterStatistics:
        """Return counts."""
        return UsageWriterStatistics(len(self._publications), self._written, self._failed)

    async def run(self) -> None:
        """Publish until cancelled."""
        while True:
            self._publications.begin()
            try:
                async with asyncio.TaskGroup() as group:
                    await self._serve(group)
            except Exception:  # noqa: BLE001 - the scheduler continues without published usage
                _log.exception("the usage writer of quotas failed, starting again")
                await self._clock.sleep(RESTART_SECONDS)

    async def _serve(self, group: asyncio.TaskGroup) -> None:
        while True:
            writes, until = self._publications.plan(self._clock.monotonic())
            for write in writes:
                group.create_task(self._write(write), name=f"quota usage {'/'.join(write.key)}")
            await woken(self._wake, until - self._clock.monotonic())

    # -- subscriptions ---------------------------------------------------------------------------

    def _usage(self, key: Key) -> Publication | None:
        account = self._ledger.account(*key)
        used = {} if account is None else account.published()
        return None if account is None or not used else Publication(key, account.uid, used)

    def _changed(self, account: Account) -> None:
        self._publications.changed((account.namespace, account.name))
        self._wake.set()

    def _quota(self, old: ResourceQuota | None, new: ResourceQuota | None) -> None:
        if new is None:
            if old is not None:
                self._publications.forget((old.metadata.namespace, old.metadata.name))
            return
        meta = new.metadata
        self._publications.seen(
            (meta.namespace, meta.name),
            meta.uid,
            _number(meta.resource_version),
            _ours(new.status.used),
            self._clock.monotonic(),
        )
        self._wake.set()

    # -- writing ---------------------------------------------------------------------------------

    async def _write(self, write: Publication) -> None:
        try:
            stored = await self._patcher.patch_used(write.key, write.used, uid=write.uid)
        except DispatcherClosedError:
            self._publications.failed(write, self._clock.monotonic())
        except RequestError as error:
            self._refused(write, error)
        else:
            self._written += 1
            self._metrics.written()
            self._publications.written(write, _number(stored.metadata.resource_version))
        finally:
            self._wake.set()

    def _refused(self, write: Publication, error: RequestError) -> None:
        if concerns_another_pod(error):
            self._publications.not_found(write)
            return
        delay = self._publications.failed(write, self._clock.monotonic())
        self._failed += 1
        self._metrics.failed()
        log_failure(
            "usage of a quota was not published, scheduling is exact all the same",
            write.key,
            error,
            retry_in=round(delay, 3),
        )


def _number(version: str) -> int:
    return int(version) if version.isdecimal() else 0


def _ours(used: Mapping[str, str | int | float]) -> dict[str, int]:
    """Return deferred keys; unreadable amounts are left out, and so overwritten."""
    found: dict[str, int] = {}
    for key, raw in used.items():
        if key.startswith(PREFIX):
            try:
                found[key] = parse(raw).nano // NANO
            except QuantityError:
                continue
    return found
