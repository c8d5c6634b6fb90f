"""The check of one pod against the quotas that cover it. Pure; changes nothing."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import replace

from plugins.resource_quota.accounts import Account, QuotaReservation, Role
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


def beside(record: PodRecord) -> dict[Account, list[int]]:
    """Return what other pods of the group need for which a pod was held, by account and limit.

    Of each limit as little as any choice of as many pods may need; so whatever exceeds it is too
    much for each choice. Quota that pods of the group have reserved counts as theirs.
    """
    together, shares = record.request.together, record.request.shares
    if together is None:
        return {}
    pods = record.namespace.pods
    others = [pods[uid] for uid in together.uids if uid != record.uid and uid in pods]
    found: dict[Account, list[int]] = {}
    for account, own in shares:
        amounts = [dict(each.request.shares).get(account) for each in (*others, record)]
        sums = [
            sum(sorted(0 if each is None else each[index] for each in amounts)[: together.need])
            - own[index]
            for index in range(len(own))
        ]
        for other in others:
            charge = account.charges.get(other.uid)
            if charge is not None and charge.role is Role.RESERVED:
                sums = [each - mine for each, mine in zip(sums, charge.amounts, strict=True)]
        found[account] = sums
    return found


def check_together(record: PodRecord) -> list[Violation]:
    """Return the limits under which the pods of a group do not fit.

    `requested` is the sum of what they need, and `used` what others take.
    """
    more, together = beside(record), record.request.together
    uids = () if together is None else together.uids
    found = []
    for each in check(record, more):
        charges = (each.account.charges.get(uid) for uid in uids if uid != record.uid)
        own = sum(
            charge.amounts[each.index]
            for charge in charges
            if charge is not None and charge.role is Role.PENDING
        )
        requested = each.requested + more[each.account][each.index]
        found.append(replace(each, requested=requested, used=max(each.used - own, 0)))
    return found


def check(
    record: PodRecord, extra: Extra | None = None, *, as_reserved: bool = False
) -> list[Violation]:
    """Return the limits that a pod does not fit under; its own charge never counts against it.

    `as_reserved`: check it as if it still had the reservation that its nomination kept.
    """
    found: list[Violation] = []
    deferred = record.request.deferred
    for account, amounts in record.request.shares:
        own, kept = account.charges.get(record.uid), account.starvation_reservation
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
            wanted = used + requested + (more[index] if more else 0)
            if wanted > limit.hard:
                # Messages give the number of `status.used`, whatever kind of pod is rejected.
                shown = account.taken(index, pending=True) - (own.amounts[index] if own else 0)
                found.append(Violation(account, index, requested, max(used, shown)))
            elif (
                kept is not None
                and wanted + kept.amounts[index] > limit.hard
                and _yields_to(record, kept, index)
            ):
                found.append(Violation(account, index, requested, used, reserved_for=kept.key))
    return found


def _yields_to(record: PodRecord, kept: QuotaReservation, index: int) -> bool:
    """Whether a pod must leave a limit to the pod that the account is kept for."""
    if index not in kept.short or kept.uid == record.uid:
        return False
    if not record.deferred or record.role is Role.RESERVED:
        return False
    # A pod that is not held came later than all that are, except for its priority.
    if record.order is None:
        return -record.pod.priority >= kept.order[0]
    return record.order > kept.order
