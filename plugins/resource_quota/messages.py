"""Messages about held pods: the texts of conditions, events and `explain`.

    quota exceeded: team-a, requested: cpu=1, used: cpu=10, limited: cpu=10

Invariant: only exceeded resources, sorted by name; quotas in the order of their names, joined by
"; ". Quantities are canonical and human-readable. Tests pin these texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from plugins.resource_quota.accounts import Account
from plugins.resource_quota.keys import human
from scheduler.api.storage import ObjectReference

NOT_SYNCED: Final = "waiting until all pods and quotas are known"
"""Reason of rejections before the first lists are complete; never written to the API server."""

NEVER_FITS: Final = " (exceeds the quota even when empty)"

_PART: Final = re.compile(
    r"quota exceeded: (?P<quota>\S+), requested: (?P<requested>\S+), used: "
    r"|status unknown for quota: (?P<unknown>\S+), resources: (?P<resources>[^;\s]+)"
)

Pairs = frozenset[tuple[str, str]]
"""Violated (quota, resource) pairs: the subject of an Event, without its numbers."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One limit of one quota that a pod exceeds."""

    account: Account
    index: int
    """Index of the limit in the account."""
    requested: int
    used: int
    reserved_for: str = ""
    """`namespace/name` of an older pod for which the rest is reserved; empty if there is none."""
    unknown: bool = False
    """Whether the quota's status lacks the used amount."""

    @property
    def resource(self) -> str:
        """The name of the limit."""
        return self.account.limits[self.index].name

    @property
    def never(self) -> bool:
        """Whether the pod can never fit, since it is larger than the limit."""
        return self.requested > self.account.limits[self.index].hard


def violated_pairs(violations: Iterable[Violation]) -> Pairs:
    """Return the violated (quota, resource) pairs."""
    return frozenset((each.account.name, each.resource) for each in violations)


def message(violations: Sequence[Violation]) -> str:
    """Return the text for all violations of one pod, sorted by quota and resource."""
    ordered = sorted(violations, key=lambda each: (each.account.name, each.resource, each.index))
    return "; ".join(
        _of_quota(name, list(group))
        for name, group in groupby(ordered, key=lambda each: each.account.name)
    )


def parse_violated_pairs(text: str) -> Pairs:
    """Return the pairs that a message of this module names; none for any other text.

    >>> text = "quota exceeded: q, requested: a=1,b=2, used: a=3,b=4, limited: a=3,b=4"
    >>> sorted(parse_violated_pairs(text))
    [('q', 'a'), ('q', 'b')]
    """
    found: set[tuple[str, str]] = set()
    for part in _PART.finditer(text):
        if part["quota"]:
            names = [each.partition("=")[0] for each in part["requested"].split(",")]
        else:
            names = part["resources"].split(",")
        found.update((part["quota"] or part["unknown"], name) for name in names)
    return frozenset(found)


def quota_reference(namespace: str, name: str, uid: str) -> ObjectReference:
    """Return the reference by which an Event names a quota."""
    return ObjectReference(
        api_version="v1", kind="ResourceQuota", namespace=namespace, name=name, uid=uid
    )


def _of_quota(name: str, violations: Sequence[Violation]) -> str:
    unknown = [each for each in violations if each.unknown]
    known = [each for each in violations if not each.unknown]
    texts = []
    if known:
        texts.append(_exceeded(name, known))
    if unknown:
        resources = ",".join(each.resource for each in unknown)
        texts.append(f"status unknown for quota: {name}, resources: {resources}")
    return "; ".join(texts)


def _exceeded(name: str, violations: Sequence[Violation]) -> str:
    def listed(amounts: Iterable[tuple[str, int]]) -> str:
        return ",".join(f"{resource}={human(resource, nano)}" for resource, nano in amounts)

    requested = listed((each.resource, each.requested) for each in violations)
    used = listed((each.resource, each.used) for each in violations)
    limited = listed((each.resource, each.account.limits[each.index].hard) for each in violations)
    text = f"quota exceeded: {name}, requested: {requested}, used: {used}, limited: {limited}"
    if any(each.never for each in violations):
        return text + NEVER_FITS
    reserved_for = next((each.reserved_for for each in violations if each.reserved_for), "")
    return f"{text}, reserved for older pod {reserved_for}" if reserved_for else text
