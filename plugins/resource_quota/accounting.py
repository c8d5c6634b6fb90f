"""Accounting: the charge of each pod to the account of each quota that covers it.

Part of the ledger, which owns the records and namespaces changed here. Sums are kept incrementally:
`reconcile` brings the accounts up to date with one record, and reports those that have changed.
"""

from __future__ import annotations

from plugins.resource_quota.accounts import Account, Limit, QuotaTerms, Role
from plugins.resource_quota.callbacks import LedgerCallbacks
from plugins.resource_quota.records import NOTHING, Namespace, PodRecord, QuotaRequest
from plugins.resource_quota.releases import Releases
from plugins.resource_quota.starvation_guard import StarvationGuard
from plugins.resource_quota.usage import Usage, UsageCache
from scheduler.api.policy import ResourceQuota


class Accounting:
    """The charges of all pods in the accounts of one ledger."""

    def __init__(
        self, callbacks: LedgerCallbacks, releases: Releases, guard: StarvationGuard
    ) -> None:
        self._callbacks = callbacks
        self._releases = releases
        self._guard = guard
        self._usage = UsageCache()
        #: Whether all pods and quotas are known; changes are reported only from then on.
        self.synced = False

    def set_quota(self, namespace: Namespace, quota: ResourceQuota, terms: QuotaTerms) -> None:
        """Record a new or changed quota."""
        name = quota.metadata.name
        old = namespace.accounts.get(name)
        fresh = Account(quota, terms.limits) if terms.limits else None
        if old is not None and fresh is not None and _only_numbers_differ(old, fresh):
            self._change_limits(namespace, old, terms.limits)
        else:
            self.replace(namespace, name, fresh)

    def request_of(self, record: PodRecord) -> QuotaRequest:
        """Return what the pod requests from each quota that covers it."""
        if not record.namespace.accounts:
            return NOTHING
        if record.usage is None:
            record.usage = self._usage.of(record.pod)
        shares = []
        for account in record.namespace.accounts.values():
            amounts = account.amounts(record.usage)
            if any(amounts) and account.covers(record.pod):
                shares.append((account, amounts))
        return QuotaRequest(record.deferred, tuple(shares), record.together)

    def reconcile(self, record: PodRecord) -> None:
        """Bring every account up to date with the record."""
        namespace, uid = record.namespace, record.uid
        old, new = record.request, self.request_of(record)
        record.request = new
        if new != old:
            covering = {account for account, _ in new.shares}
            for account, _ in old.shares:
                if account not in covering:
                    self._set_charge(record, account, None, ())
                    account.claim(uid, None)
        for account, amounts, role in record.charges():
            self._set_charge(record, account, role, amounts)
            if uid in account.claims:
                account.claim(uid, None if role is not None else amounts)
        if new == old:
            return
        for account, _ in old.shares:
            if account.is_kept_for(uid):
                account.starvation_reservation = None
        if record.order is not None:
            namespace.wait_queues.add(record)
            self._releases.free(namespace, {account for account, _ in (*old.shares, *new.shares)})

    def _set_charge(
        self, record: PodRecord, account: Account, role: Role | None, amounts: tuple[int, ...]
    ) -> None:
        changed, freed = account.set_charge(record.uid, role, amounts)
        if freed:
            self._releases.free(record.namespace, {account})
        if changed and self.synced:
            self.note_change(account)

    def set_devices(self, namespace: Namespace, usage: Usage) -> None:
        """Set the usage of device claims in a namespace."""
        namespace.devices = usage
        for account in namespace.accounts.values():
            changed, freed = account.set_devices(usage)
            if freed:
                self._releases.free(namespace, {account})
            if changed and self.synced:
                self.note_change(account)

    def note_change(self, account: Account) -> None:
        """Report that an account's sums or limits have changed."""
        over = account.over()
        if over and not account.overcommitted:
            self._callbacks.on_overcommitted(account)
        account.overcommitted = over
        self._callbacks.on_changed(account)

    def _change_limits(
        self, namespace: Namespace, account: Account, limits: tuple[Limit, ...]
    ) -> None:
        """Set new amounts; names and scopes are the same, so no pod's charge changes by them."""
        if account.limits == limits:
            return
        account.limits = limits
        account.freed = True
        for record in namespace.pods.values():
            if record.role is Role.PENDING:
                # The pod may now be larger than the quota, or no longer be.
                self.reconcile(record)
        kept = account.starvation_reservation
        if kept is not None and any(
            amount > limit.hard for amount, limit in zip(kept.amounts, limits, strict=True)
        ):
            account.starvation_reservation = None
        self._releases.free(namespace, {account})
        if self.synced:
            self.note_change(account)

    def replace(self, namespace: Namespace, name: str, fresh: Account | None) -> None:
        """Replace an account by `fresh`, or with None remove it."""
        old = namespace.accounts.pop(name, None)
        if fresh is not None:
            fresh.set_devices(namespace.devices)
            namespace.accounts[name] = fresh
            namespace.accounts = dict(sorted(namespace.accounts.items()))
        if old is None and fresh is None:
            return
        for record in namespace.pods.values():
            self.reconcile(record)
        if old is not None:
            self._callbacks.on_forgotten(old)
        self._releases.free(namespace, set(namespace.accounts.values()))
        self._guard.reconsider(namespace)
        if fresh is not None and self.synced:
            self._callbacks.on_changed(fresh)


def _only_numbers_differ(old: Account, new: Account) -> bool:
    return (
        old.uid == new.uid
        and old.scopes == new.scopes
        and [(each.key, each.name) for each in old.limits]
        == [(each.key, each.name) for each in new.limits]
    )
