"""The full recount that the ledger's incremental sums must equal, in sentences; changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from plugins.resource_quota.accounts import Account
from plugins.resource_quota.pod_records import Namespace, PodRecord, role_in
from plugins.resource_quota.wait_queues import QuotaRequest


def sums_drift(namespaces: Mapping[str, Namespace]) -> list[str]:
    """Accounts whose sums or pods are not what the pods of the namespace say."""
    found: list[str] = []
    for space in namespaces.values():
        for account in space.accounts.values():
            found += account_drift(space, account)
    return found


def account_drift(space: Namespace, account: Account) -> list[str]:
    """As `sums_drift`, for one account of a namespace."""
    return [*account.recount(), *_wrong_entries(space, account)]


def misplaced_pods(
    namespaces: Mapping[str, Namespace],
    pods: Mapping[str, PodRecord],
    request: Callable[[Namespace, PodRecord], QuotaRequest],
) -> list[str]:
    """Pods that are not where their record says, or whose record is out of date."""
    found: list[str] = []
    for uid, record in pods.items():
        space = namespaces[record.pod.metadata.namespace]
        if space.pods.get(uid) is not record:
            found.append(f"pod {uid} is not in its namespace")
        if record.released_at is not None and space.released.get(uid) is not record:
            found.append(f"pod {uid} was released and is not among the released")
        if record.request != request(space, record):
            found.append(f"pod {uid} has an old demand")
    found += [
        f"pod {held.uid} is held and should not be"
        for space in namespaces.values()
        for held in space.wait_queues
        if pods.get(held.uid) is not held or held.order is None
    ]
    found += [
        f"quota {account.namespace}/{account.name} is kept for "
        f"{account.starvation_reservation.key}, which is gone"
        for space in namespaces.values()
        for account in space.accounts.values()
        if account.starvation_reservation is not None
        and account.starvation_reservation.uid not in space.starving
    ]
    return found


def _wrong_entries(space: Namespace, account: Account) -> Iterator[str]:
    expected = {
        uid: (role, dict(record.request.shares)[account])
        for uid, record in space.pods.items()
        if account in dict(record.request.shares) and (role := role_in(record, account)) is not None
    }
    actual = {uid: (entry.role, entry.amounts) for uid, entry in account.charges.items()}
    for uid in sorted(expected.keys() | actual.keys()):
        if expected.get(uid) != actual.get(uid):
            yield (
                f"quota {account.namespace}/{account.name}: pod {uid} stands as "
                f"{actual.get(uid)}, should be {expected.get(uid)}"
            )
