"""The full recount that the ledger's incremental sums must equal: pure functions.

Differences are returned as sentences. Rarely needed counts, for which no sums are kept, are here as
well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from plugins.resource_quota.accounts import Account
from plugins.resource_quota.records import Namespace, PodRecord, QuotaRequest


@dataclass(frozen=True, slots=True)
class LedgerStatistics:
    """Counts of a ledger at one moment."""

    pods: int
    quotas: int
    """Quotas with a limit that is enforced here."""
    held: int
    """Pods that a quota holds."""
    reserved: int
    """Pods between Reserve and the observed binding, and nominated ones."""


def uncharged(records: Iterable[PodRecord], account: Account) -> list[int]:
    """Return the requests of deferred pods without a charge from an account, by limit."""
    sums = [0] * len(account.limits)
    for record in records:
        if record.deferred and record.role is None and not record.ended:
            for other, amounts in record.request.shares:
                if other is account:
                    sums = [a + b for a, b in zip(sums, amounts, strict=True)]
    return sums


def account_drift(namespace: Namespace, account: Account) -> list[str]:
    """List the differences of an account's sums and charges from a recount over the pods."""
    return [*account.recount(), *_wrong_charges(namespace, account)]


def misplaced_pods(
    namespaces: Mapping[str, Namespace],
    pods: Mapping[str, PodRecord],
    request_of: Callable[[PodRecord], QuotaRequest],
) -> list[str]:
    """List pods that are in the wrong place, or whose record is out of date."""
    found: list[str] = []
    for uid, record in pods.items():
        namespace = record.namespace
        if namespace.pods.get(uid) is not record or namespaces.get(namespace.name) is not namespace:
            found.append(f"pod {uid} is not in its namespace")
        if uid in namespace.released and record.order is not None:
            found.append(f"pod {uid} is both held and released")
        if record.request != request_of(record):
            found.append(f"the request of pod {uid} is out of date")
    for namespace in namespaces.values():
        found += [
            f"pod {held.uid} is held and should not be"
            for held in namespace.wait_queues
            if pods.get(held.uid) is not held or held.order is None
        ]
        found += [
            f"pod {uid} is released or starving, and is not known"
            for uid in (*namespace.released, *namespace.starving)
            if uid not in namespace.pods
        ]
        for account in namespace.accounts.values():
            kept = account.starvation_reservation
            if kept is not None and kept.uid not in namespace.starving:
                found.append(
                    f"quota {account.namespace}/{account.name} is kept for {kept.key}, "
                    "which does not starve"
                )
    return found


def _wrong_charges(namespace: Namespace, account: Account) -> Iterator[str]:
    expected = {
        uid: (role, amounts)
        for uid, record in namespace.pods.items()
        for covering, amounts, role in record.charges()
        if covering is account and role is not None
    }
    actual = {uid: (charge.role, charge.amounts) for uid, charge in account.charges.items()}
    for uid in sorted(expected.keys() | actual.keys()):
        if expected.get(uid) != actual.get(uid):
            yield (
                f"quota {account.namespace}/{account.name}: pod {uid} is charged "
                f"{actual.get(uid)}, should be charged {expected.get(uid)}"
            )
