"""The outlook of a held pod, for people: which pods get quota first, and when enough is free.

Ends of pods are known only if their objects state them: if a pod is terminating, or has
`activeDeadlineSeconds`. Pods may end earlier, and pods ahead may take the quota that they free, so
a time is only the latest at which quota becomes free, not the time when the pod is admitted.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from plugins.details import listed
from plugins.resource_quota.accounts import TAKEN
from plugins.resource_quota.deferral import time_of
from plugins.resource_quota.keys import human
from plugins.resource_quota.messages import Violation
from plugins.resource_quota.records import PodRecord

MAX_USERS: Final = 3
"""Maximum number of the largest users of a quota to name."""
END_OF_TIME: Final = 253_402_300_799.0
"""The last second that a date can represent; a deadline may be later."""


class Outlook:
    """Part of the ledger, whose records it reads."""

    def __init__(self, pods: Mapping[str, PodRecord]) -> None:
        """`pods` by UID; the ledger changes them."""
        self._pods = pods

    def ahead_of(self, uid: str) -> list[str]:
        """Return the keys of the held pods that are admitted before this one, in order.

        O(held pods of the namespace).
        """
        record = self._pods.get(uid)
        if record is None or record.order is None:
            return []
        order = record.order
        ahead = [
            (each.order, each.pod.key)
            for each in record.namespace.wait_queues
            if each.order is not None and each.order < order
        ]
        return [key for _, key in sorted(ahead)]

    def frees(self, violations: Sequence[Violation]) -> Iterator[str]:
        """Yield a line per violated limit: when enough of it is free, or who uses most.

        O(pods that the quota counts). A limit that is smaller than the pod gets no line, since the
        end of other pods does not help.
        """
        for violation in violations:
            if not violation.never and not violation.unknown:
                yield self._line(violation)

    def _line(self, violation: Violation) -> str:
        users = list(self._users(violation))
        lacking = violation.used + violation.requested
        lacking -= violation.account.limits[violation.index].hard
        what = f"{violation.account.name}: {violation.resource}"
        ends = sorted(
            (end, record.pod.key, amount)
            for amount, record in users
            if (end := _known_end(record)) is not None
        )
        ending: list[str] = []
        for end, key, amount in ends:
            ending.append(key)
            lacking -= amount
            if lacking <= 0:
                shown = listed(ending, len(ending))
                return f"{what} is free by {_time(end)}, when {shown} will have ended"
        largest = heapq.nlargest(MAX_USERS, users, key=lambda each: (each[0], each[1].pod.key))
        shown = ", ".join(
            f"{record.pod.key} ({human(violation.resource, amount)})" for amount, record in largest
        )
        return f"{what} is mostly used by {shown}, whose ends are not known" if shown else what

    def _users(self, violation: Violation) -> Iterator[tuple[int, PodRecord]]:
        for uid, charge in violation.account.charges.items():
            record = self._pods.get(uid)
            amount = charge.amounts[violation.index]
            if record is not None and amount > 0 and charge.role in TAKEN:
                yield amount, record


def _known_end(record: PodRecord) -> float | None:
    """Return the latest wall clock second at which a pod stops counting; None if unknown."""
    if record.counts_until is not None:
        return record.counts_until
    seconds, started = record.pod.spec.active_deadline_seconds, record.pod.status.start_time
    begun = time_of(started)
    return None if seconds is None or begun is None else begun + seconds


def _time(seconds: float) -> str:
    return f"{datetime.fromtimestamp(min(seconds, END_OF_TIME), UTC):%Y-%m-%dT%H:%M:%SZ}"
