"""The check of one pod against the quotas that cover it: pure functions."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence

from plugins.resource_quota.accounts import Account, Amounts, QuotaReservation, Role
from plugins.resource_quota.messages import Violation
from plugins.resource_quota.records import PodRecord, QuotaRequest

Extra = Mapping[Account, Sequence[int]]
"""Additional amounts that count as used, by account and limit, in billionths."""


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
    """Return the limits that a pod would exceed; its own charge does not count against it.

    With `as_reserved` the pod is checked as if it still had the reservation of its nomination. With
    `wanted` these amounts must be free, instead of the pod's request (see `together`).
    """
    found: list[Violation] = []
    deferred = record.request.deferred
    for account, amounts in record.request.shares if wanted is None else wanted.items():
        own = account.charges.get(record.uid) if wanted is None else None
        kept = account.starvation_reservation
        # A reserved pod got its share before later pending pods, which wait for it: counting them
        # would cause a deadlock.
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
                # status.used includes admissions that the ledger has not seen yet, and the ledger
                # includes bindings that the status does not show yet.
                used = max(used, limit.observed)
            total = used + requested + (more[index] if more else 0)
            if total > limit.hard:
                # Messages show the number of `status.used` for every kind of pod.
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
    """Whether a pod must leave a limit to the pod that has reserved it."""
    if index not in kept.short or record.uid in kept.members:
        return False
    if not record.deferred or record.role is Role.RESERVED:
        return False
    # A pod that is not held counts as later than all held pods of its priority.
    if record.order is None:
        return -record.pod.priority >= kept.order[0]
    return record.order > kept.order
