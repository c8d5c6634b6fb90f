"""The check of a group against quotas: some of its pods need quota at the same time. Pure.

A group is held by one of its pods, the leader, whose record names the others (`Together`). Of each
limit the group needs as little as any choice of enough pods does; so whatever exceeds a limit is
too much for each choice. What pods of the group are charged already counts as theirs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from plugins.resource_quota.accounts import Account, Amounts, Role
from plugins.resource_quota.checks import Extra, check
from plugins.resource_quota.messages import Violation
from plugins.resource_quota.records import PodRecord


def leader_of(members: Sequence[PodRecord], need: int) -> PodRecord:
    """Return the pod by which a group is held: the same one as before, if it still may be.

    If the group does not do without pods that were gated, it is held as one of them is: these wait
    for pods that were never gated.
    """
    deferred = len(members) - need < sum(each.deferred for each in members)
    fitting = [each for each in members if each.deferred is deferred]
    return next((each for each in fitting if each.together is not None), fitting[0])


def members_of(leader: PodRecord) -> Iterator[PodRecord]:
    """Yield the pods that are held with a pod, itself first; of others only those that are left."""
    yield leader
    if leader.together is not None:
        pods = leader.namespace.pods
        yield from (pods[uid] for uid in leader.together.uids if uid != leader.uid and uid in pods)


def wanted(record: PodRecord) -> dict[Account, Amounts]:
    """Return what must be free for a held pod, or for its group."""
    if record.together is None:
        return dict(record.request.shares)
    members, need = list(members_of(record)), record.together.need
    accounts = {account: None for each in members for account, _ in each.request.shares}
    return {
        account: _least(
            [_lacking(each, account, pending=record.deferred) for each in members], need
        )
        for account in accounts
    }


def check_wanted(record: PodRecord, extra: Extra | None = None) -> list[Violation]:
    """Return the limits under which a held pod, or its group, does not fit."""
    if record.together is None:
        return check(record, extra)
    return check(record, extra, wanted=wanted(record))


def check_group(record: PodRecord) -> list[Violation]:
    """Return the limits under which a group does not fit, for messages.

    `requested` is the sum of what its pods need, and `used` what others take.
    """
    members, need = list(members_of(record)), 0 if record.together is None else record.together.need
    found = []
    for each in check_wanted(record):
        account, index = each.account, each.index
        requested = sorted(_amounts(member, account)[index] for member in members)[:need]
        charges = (account.charges.get(member.uid) for member in members)
        own = sum(charge.amounts[index] for charge in charges if charge is not None)
        used = max(each.used - own, 0)
        found.append(replace(each, requested=sum(requested), used=used))
    return found


def _amounts(record: PodRecord, account: Account) -> Amounts:
    amounts = next((found for each, found in record.request.shares if each is account), None)
    return (0,) * len(account.limits) if amounts is None else amounts


def _lacking(record: PodRecord, account: Account, *, pending: bool) -> Amounts:
    """Return what must be free for a pod besides what it is charged.

    `pending`: what is charged since the creation of a pod counts, as it is not free for others.
    """
    amounts, charge = _amounts(record, account), account.charges.get(record.uid)
    if charge is None or (charge.role is Role.PENDING and not pending):
        return amounts
    return tuple([each - had for each, had in zip(amounts, charge.amounts, strict=True)])


def _least(amounts: Sequence[Amounts], need: int) -> Amounts:
    return tuple([sum(sorted(each)[:need]) for each in zip(*amounts, strict=True)])
