"""The check of a group against quotas: some of its pods need quota at the same time. Pure.

A group is held by one of its pods, the leader, whose record names the others (`Together`). Of each
limit the group needs at least what the choice of enough pods does that needs least of it. If that
fits, and the pods differ, the choices themselves are checked, up to `MAX_CHOICES`. What pods of the
group are charged already counts as theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from plugins.resource_quota.accounts import Account, Amounts, Role
from plugins.resource_quota.checks import Extra, check
from plugins.resource_quota.messages import Violation
from plugins.resource_quota.records import PodRecord, Room

MAX_CHOICES: Final = 64
"""Choices of pods that are checked; a group with more of them, or with more kinds of pods, passes
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


def room_for(record: PodRecord) -> Room:
    """Return what is free of the limits that a pod is subject to."""
    found = []
    for account, _ in record.request.shares:
        kept = account.starvation_reservation
        others = None if kept is None or record.uid in kept.members else kept.amounts
        room = []
        for index, limit in enumerate(account.limits):
            used = max(account.taken(index, pending=record.deferred), limit.observed or 0)
            room.append(limit.hard - used - (0 if others is None else others[index]))
        found.append((account, tuple(room)))
    return tuple(found)


def has_more_room(record: PodRecord) -> bool:
    """Whether more is free than when a held pod was tried in vain; True if that is not known."""
    if record.together is None or record.together.room is None:
        return True
    before = dict(record.together.room)
    for account, room in room_for(record):
        had = before.pop(account, None)
        if had is None or any(now > then for now, then in zip(room, had, strict=True)):
            return True
    return bool(before)


def _check(record: PodRecord, extra: Extra | None) -> tuple[list[Violation], list[PodRecord]]:
    """Return the violated limits, and the chosen pods if those of one choice were violated."""
    if record.together is None:
        return check(record, extra), []
    violations = check(record, extra, wanted=wanted(record))
    if violations:
        return violations, []
    kinds = _kinds(record)
    if not 1 < len(kinds) <= MAX_CHOICES:
        return [], []
    refused: tuple[list[Violation], list[PodRecord]] = [], []
    sizes = [len(pods) for pods in kinds.values()]
    for number, counts in enumerate(_choices(sizes, record.together.need)):
        if number == MAX_CHOICES:
            return [], []
        violations = check(record, extra, wanted=_sums(kinds, counts))
        if not violations:
            return [], []
        if not number:
            each_kind = zip(kinds.values(), counts, strict=True)
            refused = violations, [each for pods, count in each_kind for each in pods[:count]]
    return refused


def _kinds(record: PodRecord) -> Mapping[Room, list[PodRecord]]:
    """Return the pods of a group by what each lacks, in the order of the group."""
    kinds: dict[Room, list[PodRecord]] = {}
    for each in members_of(record):
        lacking = [
            (account, _lacking(each, account, pending=record.deferred))
            for account, _ in each.request.shares
        ]
        kinds.setdefault(tuple(lacking), []).append(each)
    return kinds


def _choices(sizes: Sequence[int], need: int) -> Iterator[list[int]]:
    """Yield how many of each kind make `need`; first those with as many as can be of the first."""
    if not sizes:
        yield []
        return
    others = sum(sizes[1:])
    for count in range(min(sizes[0], need), max(need - others, 0) - 1, -1):
        for rest in _choices(sizes[1:], need - count):
            yield [count, *rest]


def _sums(kinds: Iterable[Room], counts: Sequence[int]) -> Mapping[Account, Amounts]:
    """Return what must be free for so many pods of each kind."""
    sums: dict[Account, Amounts] = {}
    for lacking, count in zip(kinds, counts, strict=True):
        for account, amounts in lacking if count else ():
            before = sums.get(account, (0,) * len(amounts))
            more = zip(before, amounts, strict=True)
            sums[account] = tuple([had + count * amount for had, amount in more])
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
