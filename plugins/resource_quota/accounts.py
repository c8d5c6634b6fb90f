"""One quota's account: the charge of each pod, by role and amounts, and the sums.

Invariant: a pod has at most one charge in an account, in any role, so nothing is counted twice; the
sums are updated by adding and subtracting the amounts of charges. `recount` computes them anew.

Amounts are tuples of billionths, one per limit of the account, in the order of `limits`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Final

from plugins.resource_quota.keys import (
    DeferredKey,
    InvalidKey,
    is_native_compute,
    read_limits,
)
from plugins.resource_quota.scopes import ScopeMatch, scope_match
from plugins.resource_quota.usage import Usage
from scheduler.api.meta import RawQuantity
from scheduler.api.policy import ResourceQuota
from scheduler.api.quantity import Quantity, QuantityError, parse

Amounts = tuple[int, ...]


class QuotaMode(StrEnum):
    """The set of names in a quota that are enforced when a pod is scheduled."""

    DEFERRED_KEYS = "DeferredKeys"
    NATIVE = "Native"
    BOTH = "Both"
    OFF = "Off"

    @property
    def deferred_keys(self) -> bool:
        """Whether `deferred.kubestow.io/` keys count."""
        return self in (QuotaMode.DEFERRED_KEYS, QuotaMode.BOTH)

    @property
    def native(self) -> bool:
        """Whether built-in compute names count."""
        return self in (QuotaMode.NATIVE, QuotaMode.BOTH)


class Role(IntEnum):
    """The reason why a pod is charged; the value is the index of the sums."""

    #: Bound to a node, by any scheduler.
    ASSIGNED = 0
    #: About to be bound, or nominated.
    RESERVED = 1
    #: Never gated and not scheduled: charged since its creation.
    PENDING = 2


TAKEN: Final = (Role.ASSIGNED, Role.RESERVED)
"""Roles whose amounts no other pod may use, not even a pod without gates."""


@dataclass(frozen=True, slots=True)
class Limit:
    """One enforced entry of `hard`."""

    key: str
    """The key in `hard`."""
    name: str
    """Upstream's quota name, e.g. `requests.cpu`, as used for usage of pods and in messages."""
    hard: int
    deferred: DeferredKey | None
    """None for a built-in name."""
    observed: int | None = None
    """`status.used` of a built-in name; None if it is not known (yet)."""

    @property
    def native(self) -> bool:
        """Whether this is a built-in name, enforced for deferred pods only."""
        return self.deferred is None

    def amount(self, raw: RawQuantity) -> int:
        """Return a value of the entry in billionths. Raises QuantityError, InvalidKeyError."""
        return parse(raw).nano if self.deferred is None else self.deferred.amount(raw)

    def value(self, nano: int) -> str:
        """Return an amount as a value of the entry."""
        return (
            Quantity(nano).canonical() if self.deferred is None else self.deferred.published(nano)
        )


@dataclass(frozen=True, slots=True)
class QuotaTerms:
    """Limits of a quota object."""

    limits: tuple[Limit, ...]
    invalid: tuple[InvalidKey, ...]
    #: Built-in compute names that only the API server enforces, which charges even gated pods.
    built_in: tuple[str, ...]


def read_terms(quota: ResourceQuota, mode: QuotaMode) -> QuotaTerms:
    """Read the enforced limits, sorted by name, and the errors of the object."""
    limits: list[Limit] = []
    invalid: tuple[InvalidKey, ...] = ()
    if mode.deferred_keys:
        found = read_limits(quota.spec.hard, quota.metadata.annotations)
        invalid = found.invalid
        limits += [Limit(key.key, key.name, hard, key) for key, hard in found.hard.items()]
    compute = sorted(name for name in quota.spec.hard if is_native_compute(name))
    if mode.native:
        status = quota.status
        for name in compute:
            hard, used = status.hard.get(name, quota.spec.hard[name]), status.used.get(name)
            observed = None if used is None else nano_or_zero(used)
            limits.append(Limit(name, name, nano_or_zero(hard), None, observed))
    limits.sort(key=lambda each: (each.name, each.key))
    return QuotaTerms(tuple(limits), invalid, () if mode.native else tuple(compute))


@dataclass(frozen=True, slots=True)
class QuotaReservation:
    """Quota reserved for one pod, or for the group that it leads, because small pods starved it."""

    uid: str
    members: frozenset[str]
    """UIDs of all pods that may use it."""
    key: str
    """`namespace/name`."""
    order: tuple[int, int]
    """The pod's position among held pods; only pods behind it yield."""
    amounts: Amounts
    short: frozenset[int]
    """Indices of the limits that the pod exceeds."""
    until: float
    """Wall clock second at which the reservation ends."""


@dataclass(frozen=True, slots=True)
class Charge:
    """Amounts that a pod takes from an account."""

    role: Role
    amounts: Amounts


class Account:
    """One quota. Compared by identity; owned by the ledger, which alone changes it."""

    def __init__(self, quota: ResourceQuota, limits: tuple[Limit, ...]) -> None:
        self.namespace = quota.metadata.namespace
        self.name = quota.metadata.name
        self.uid = quota.metadata.uid
        self.limits = limits
        #: The scopes in the object, to detect updates that change which pods the quota covers.
        self.scopes = quota.spec.scopes, quota.spec.scope_selector
        #: Whether the quota's scopes match a pod.
        self.covers: ScopeMatch = scope_match(quota.spec)
        self.charges: dict[str, Charge] = {}
        #: Amounts that deferred pods without a feasible node would use, oldest first, for labels
        #: only (claimPending); and their sums, by limit.
        self.claims: dict[str, Amounts] = {}
        self.claimed = [0] * len(limits)
        #: Usage of device claims, which count from their creation on, even while unused.
        self.devices: Amounts = (0,) * len(limits)
        #: Whether an amount was freed or a claim ended since `Claims.take_claimable` last looked.
        self.freed = True
        self.starvation_reservation: QuotaReservation | None = None
        #: No starvation reservation is made before this wall clock second.
        self.cooldown_until = 0.0
        #: Sums of the charges, by role, then by limit.
        self.sums: tuple[list[int], list[int], list[int]] = tuple(  # type: ignore[assignment]
            [0] * len(limits) for _ in Role
        )
        #: Whether more than a limit is taken; updated by the ledger.
        self.overcommitted = False

    @property
    def native(self) -> bool:
        """Whether a built-in name is enforced, which the API server charges as well."""
        return any(limit.native for limit in self.limits)

    def exceeds(self, amounts: Amounts) -> bool:
        """Whether amounts exceed a deferred limit even if nothing else is charged."""
        return any(
            amount > limit.hard and not limit.native
            for amount, limit in zip(amounts, self.limits, strict=True)
        )

    def is_kept_for(self, uid: str) -> bool:
        """Whether the starvation guard has reserved this quota for the pod."""
        kept = self.starvation_reservation
        return kept is not None and kept.uid == uid

    def amounts(self, usage: Usage) -> Amounts:
        """Return the amounts of a usage, by limit of this account."""
        return tuple([usage.get(limit.name, 0) for limit in self.limits])

    def set_charge(self, uid: str, role: Role | None, amounts: Amounts) -> tuple[bool, bool]:
        """Set a pod's charge, or with None remove it. Returns (changed, freed).

        `freed` means that the sum of all roles, or of those in `TAKEN`, became smaller.
        """
        old = self.charges.get(uid)
        if old is not None:
            if old.role is role and old.amounts == amounts:
                return False, False
            sums = self.sums[old.role]
            for index, amount in enumerate(old.amounts):
                sums[index] -= amount
        if role is None:
            if old is None:
                return False, False
            del self.charges[uid]
        else:
            self.charges[uid] = Charge(role, amounts)
            sums = self.sums[role]
            for index, amount in enumerate(amounts):
                sums[index] += amount
        freed = old is not None and _frees(old, role, amounts)
        self.freed = self.freed or freed
        return True, freed

    def set_devices(self, usage: Usage) -> tuple[bool, bool]:
        """Set the usage of device claims, to which the scopes of pods do not apply.

        Returns (changed, freed).
        """
        if self.scopes[0] or self.scopes[1] is not None:
            return False, False
        old, self.devices = self.devices, self.amounts(usage)
        freed = any(now < before for now, before in zip(self.devices, old, strict=True))
        self.freed = self.freed or freed
        return self.devices != old, freed

    def claim(self, uid: str, amounts: Amounts | None) -> None:
        """Set a pod's claim, or with None remove it; a changed claim keeps its position."""
        old = self.claims.pop(uid, None) if amounts is None else self.claims.get(uid)
        if amounts is not None:
            self.claims[uid] = amounts
        elif old is not None:
            self.freed = True
        for sign, each in ((-1, old), (1, amounts)):
            for index, amount in enumerate(each or ()):
                self.claimed[index] += sign * amount

    def overclaimed(self) -> Sequence[int]:
        """Return the indices of limits that all claims on top of the taken amounts exceed."""
        if not self.claims:
            return ()
        return [
            index
            for index, limit in enumerate(self.limits)
            if self.claimed[index]
            and max(self.taken(index, pending=True), limit.observed or 0) + self.claimed[index]
            > limit.hard
        ]

    def taken(self, index: int, *, pending: bool) -> int:
        """Return the assigned and reserved amount of a limit; with `pending`, all charges."""
        total = self.sums[Role.ASSIGNED][index] + self.sums[Role.RESERVED][index]
        total += self.devices[index]
        return total + self.sums[Role.PENDING][index] if pending else total

    def published(self) -> Mapping[str, str]:
        """Return the correct `status.used` of deferred keys; built-in names have another writer."""
        return {
            limit.deferred.key: limit.deferred.published(self.taken(index, pending=True))
            for index, limit in enumerate(self.limits)
            if limit.deferred is not None
        }

    def over(self) -> bool:
        """Whether the taken amounts exceed a limit."""
        return any(
            self.taken(index, pending=False) > limit.hard for index, limit in enumerate(self.limits)
        )

    def recount(self) -> Iterator[str]:
        """Yield the differences between the sums and a recount of all charges."""
        for role in Role:
            fresh = [0] * len(self.limits)
            for charge in self.charges.values():
                if charge.role is role:
                    for index, amount in enumerate(charge.amounts):
                        fresh[index] += amount
            if fresh != self.sums[role]:
                yield (
                    f"quota {self.namespace}/{self.name}: {role.name.lower()} is "
                    f"{self.sums[role]}, counted {fresh}"
                )
        fresh = [sum(each) for each in zip(*self.claims.values(), strict=True)]
        if fresh != self.claimed and (fresh or any(self.claimed)):
            yield (
                f"quota {self.namespace}/{self.name}: claimed is {self.claimed}, counted {fresh}"
            )


def _frees(old: Charge, role: Role | None, amounts: Amounts) -> bool:
    if role is None:
        return any(old.amounts)
    if old.role in TAKEN and role not in TAKEN:
        return any(old.amounts)
    return any(now < before for now, before in zip(amounts, old.amounts, strict=True))


def nano_or_zero(raw: RawQuantity) -> int:
    """Return an amount of a quota; 0 if it is invalid, which the API server does not admit."""
    try:
        return parse(raw).nano
    except QuantityError:
        return 0
