"""The check of one pod against the quotas that cover it. Pure; changes nothing."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence

from plugins.resource_quota.accounts import Account, Amounts, QuotaReservation, Role
from plugins.resource_quota.messages import Violation
from plugins.resource_quota.records import PodRecord, QuotaRequest

Extra = Mapping[Account, Sequence[int]]
"""More that is to be taken as used, by account and limit, in billionths."""


def add_request(extra: MutableMapping[Account, list[int]], request: QuotaRequest) -> None:
    """Add what a pod requests to sums by account and limit."""
    add_amounts(extra, dict(request.shares))


def add_amounts(extra: MutableMapping[Account, list[int]], more: Extra) -> None:
    """Add amounts to sums by account and limit."""
    for account, amounts in more.items():
        sums = extra.setdefault(account, [0] * len(amounts))
        for index, amount in enumerate(amounts):
            sums[index] += amount


def check(
    record: PodRecord,
    extra: Extra | None = None,
    *,
    as_reserved: bool = False,
    wanted: Mapping[Account, Amounts] | None = None,
) -> list[Violation]:
    """Return the limits that a pod does not fit under; its own charge never counts against it.

    `as_reserved`: check it as if it still had the reservation that its nomination kept. `wanted`:
    check that as much is free, instead of what the pod requests (`together`).
    """
    found: list[Violation] = []
    deferred = record.request.deferred
    for account, amounts in record.request.shares if wanted is None else wanted.items():
        own = account.charges.get(record.uid) if wanted is None else None
        kept = account.starvation_reservation
        # A reserved pod had its share before the pending pods that came since, and those wait for
        # it: counting them would be a deadlock.
        reserved = as_reserved or (own is not None and own.role is Role.RESERVED)
        pending = deferred and not reserved
        more = None if extra is None else extra.get(account)
        for index, requested in enumerate(amounts):
            limit = account.limits[index]
            if not requested or (not deferred and limit.native):
                continue
            used = account.taken(index, pending=pending)
            if own is not None and (pending or own.role is not Role.PENDING):
                used -= own.amounts[index]
            if limit.native:
                if limit.observed is None:
                    found.append(Violation(account, index, requested, used, unknown=True))
                    continue
                # status.used includes admissions that have not reached the ledger, the ledger
                # bindings that have not reached the status.
                used = max(used, limit.observed)
            total = used + requested + (more[index] if more else 0)
            if total > limit.hard:
                # Messages give the number of `status.used`, whatever kind of pod is rejected.
                shown = account.taken(index, pending=True) - (own.amounts[index] if own else 0)
                found.append(Violation(account, index, requested, max(used, shown)))
            elif (
                kept is not None
                and total + kept.amounts[index] > limit.hard
                and _yields_to(record, kept, index)
            ):
                found.append(Violation(account, index, requested, used, reserved_for=kept.key))
    return found


def _yields_to(record: PodRecord, kept: QuotaReservation, index: int) -> bool:
    """Whether a pod must leave a limit to the pod that the account is kept for."""
    if index not in kept.short or record.uid in kept.members:
        return False
    if not record.deferred or record.role is Role.RESERVED:
        return False
    # A pod that is not held came later than all that are, except for its priority.
    if record.order is None:
        return -record.pod.priority >= kept.order[0]
    return record.order > kept.order
