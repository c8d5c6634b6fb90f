"""The check of a group against quotas: some of its pods need quota at the same time. Pure.

A group is held by one of its pods, the leader, whose record names the others (`Together`). Of each
limit the group needs at least what the choice of enough pods does that needs least of it. If that
fits, and the pods differ, the choices themselves are checked, up to `MAX_CHOICES`. What pods of the
group are charged already counts as theirs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from plugins.resource_quota.accounts import Account, Amounts, Role
from plugins.resource_quota.checks import Extra, check
from plugins.resource_quota.messages import Violation
from plugins.resource_quota.records import PodRecord

MAX_CHOICES: Final = 64
"""Choices of pods that are checked; a group with more of them, or with more pods than this, passes
if the least of each limit fits. A choice is how many pods of each kind, and a kind is what a pod
needs."""


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
    return _check(record, extra)[0]


def check_group(record: PodRecord) -> list[Violation]:
    """Return the limits under which a group does not fit, for messages.

    `requested` is the sum of what its pods need, and `used` what others take.
    """
    violations, chosen = _check(record, None)
    members, need = list(members_of(record)), 0 if record.together is None else record.together.need
    found = []
    for each in violations:
        account, index = each.account, each.index
        requested = sorted(_amounts(member, account)[index] for member in chosen or members)[:need]
        charges = (account.charges.get(member.uid) for member in members)
        own = sum(charge.amounts[index] for charge in charges if charge is not None)
        used = max(each.used - own, 0)
        found.append(replace(each, requested=sum(requested), used=used))
    return found


def _check(record: PodRecord, extra: Extra | None) -> tuple[list[Violation], list[PodRecord]]:
    """Return the violated limits, and the chosen pods if those of one choice were violated."""
    if record.together is None:
        return check(record, extra), []
    violations = check(record, extra, wanted=wanted(record))
    if violations:
        return violations, []
    refused: tuple[list[Violation], list[PodRecord]] = [], []
    for number, chosen in enumerate(_choices(record)):
        if number == MAX_CHOICES:
            return [], []
        amounts = _sum_of(chosen, pending=record.deferred)
        violations = check(record, extra, wanted=amounts)
        if not violations:
            return [], []
        if not number:
            refused = violations, chosen
    return refused


def _choices(record: PodRecord) -> Iterator[list[PodRecord]]:
    """Yield the choices of enough pods of a group, the first ones of each kind; none of one kind.

    In the first choice are the pods that come first in the group.
    """
    assert record.together is not None
    kinds: dict[tuple[tuple[Account, Amounts], ...], list[PodRecord]] = {}
    for each in members_of(record):
        lacking = [
            (account, _lacking(each, account, pending=record.deferred))
            for account, _ in each.request.shares
        ]
        kinds.setdefault(tuple(lacking), []).append(each)
    if len(kinds) > 1 and sum(map(len, kinds.values())) <= MAX_CHOICES:
        yield from _chosen(list(kinds.values()), record.together.need)


def _chosen(kinds: Sequence[Sequence[PodRecord]], need: int) -> Iterator[list[PodRecord]]:
    if not need:
        yield []
    elif kinds:
        others = sum(map(len, kinds[1:]))
        for count in range(min(len(kinds[0]), need), max(need - others, 0) - 1, -1):
            for rest in _chosen(kinds[1:], need - count):
                yield [*kinds[0][:count], *rest]


def _sum_of(chosen: Sequence[PodRecord], *, pending: bool) -> Mapping[Account, Amounts]:
    """Return what must be free for all of these pods."""
    sums: dict[Account, Amounts] = {}
    for each in chosen:
        for account, _ in each.request.shares:
            more = _lacking(each, account, pending=pending)
            before = sums.get(account, (0,) * len(more))
            sums[account] = tuple(map(sum, zip(before, more, strict=True)))
    return sums


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
