"""The check of a group against quotas: some of its pods need quota at the same time. Pure.

A held group is represented by one of its pods, the leader, whose record names the others
(`Together`). A lower bound for each limit is the need of the pods that need the least of it. If
this fits, and the pods differ, the choices of pods themselves are checked, up to `MAX_CHOICES`.
Existing charges of pods of the group count as available to the group.
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
"""Maximum number of choices to check. A choice is a number of pods of each kind; pods of one kind
have equal needs. A group with more choices, or with more kinds, passes if the lower bounds fit."""


def leader_of(members: Sequence[PodRecord], need: int) -> PodRecord:
    """Return the leader of a group; the present one, if it is still eligible.

    If the group needs pods that were gated, one of these leads: they must wait for pods that were
    never gated, and so must the group.
    """
    deferred = len(members) - need < sum(each.deferred for each in members)
    fitting = [each for each in members if each.deferred is deferred]
    return next((each for each in fitting if each.together is not None), fitting[0])


def members_of(leader: PodRecord) -> Iterator[PodRecord]:
    """Yield a leader, then the other pods of its group that still exist."""
    yield leader
    if leader.together is not None:
        pods = leader.namespace.pods
        yield from (pods[uid] for uid in leader.together.uids if uid != leader.uid and uid in pods)


def wanted(record: PodRecord) -> dict[Account, Amounts]:
    """Return the amounts that must be free for a held pod, or for its group."""
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
    """Return the limits that a held pod, or its group, would exceed."""
    return _check(record, extra)[0]


def check_group(record: PodRecord) -> list[Violation]:
    """Return the limits that a group would exceed, for messages.

    `requested` is the sum of the needs of its pods, and `used` the usage of other pods.
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
    """Return the free amounts of all limits that apply to a pod."""
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
    """Whether more is free than when a held pod's group last failed; True if unknown."""
    if record.together is None or record.together.room is None:
        return True
    before = dict(record.together.room)
    for account, room in room_for(record):
        had = before.pop(account, None)
        if had is None or any(now > then for now, then in zip(room, had, strict=True)):
            return True
    return bool(before)


def _check(record: PodRecord, extra: Extra | None) -> tuple[list[Violation], list[PodRecord]]:
    """Return the violated limits, and the chosen pods if a single choice was decisive."""
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
    """Return the pods of a group by the amounts that each lacks, in the order of the group."""
    kinds: dict[Room, list[PodRecord]] = {}
    for each in members_of(record):
        lacking = [
            (account, _lacking(each, account, pending=record.deferred))
            for account, _ in each.request.shares
        ]
        kinds.setdefault(tuple(lacking), []).append(each)
    return kinds


def _choices(sizes: Sequence[int], need: int) -> Iterator[list[int]]:
    """Yield all ways to choose `need` pods by number of each kind; most of the first kind first."""
    if not sizes:
        yield []
        return
    others = sum(sizes[1:])
    for count in range(min(sizes[0], need), max(need - others, 0) - 1, -1):
        for rest in _choices(sizes[1:], need - count):
            yield [count, *rest]


def _sums(kinds: Iterable[Room], counts: Sequence[int]) -> Mapping[Account, Amounts]:
    """Return the amounts that must be free for `counts` pods of each kind."""
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
    """Return the amounts that must be free for a pod in addition to its own charge.

    With `pending` a charge since the pod's creation counts as well.
    """
    amounts, charge = _amounts(record, account), account.charges.get(record.uid)
    if charge is None or (charge.role is Role.PENDING and not pending):
        return amounts
    return tuple([each - had for each, had in zip(amounts, charge.amounts, strict=True)])


def _least(amounts: Sequence[Amounts], need: int) -> Amounts:
    return tuple([sum(sorted(each)[:need]) for each in zip(*amounts, strict=True)])
