"""The annotation by which several active schedulers share their reservations.

    kubestow.io/inflight: {"<uid>": {"amounts": {"<key>": "<quantity>"}, "holder": "...",
                                     "time": "2026-01-01T00:00:00Z"}}

on a quota, one entry per pod between Reserve and its observed binding (docs/deferred-quota.md,
"Several active schedulers"). Pure: reads the annotation and makes its value. An entry that cannot
be read counts as nothing and is dropped by the next write.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

import msgspec

from scheduler.api.meta import second_time

ANNOTATION: Final = "kubestow.io/inflight"
EXPIRY_SECONDS: Final = 60.0
"""Age at which an entry of another scheduler expires: its pod is bound, or the scheduler died."""


class InFlightReservation(msgspec.Struct, frozen=True):
    """The amounts of one pod that a scheduler is about to bind."""

    amounts: dict[str, str]
    """By key of `spec.hard`."""
    holder: str
    time: str
    """When it was made, RFC 3339 by the holder's clock."""

    def expired(self, now: float) -> bool:
        """Whether it is too old to count; true if its time cannot be read."""
        try:
            return datetime.fromisoformat(self.time).timestamp() + EXPIRY_SECONDS <= now
        except ValueError:
            return True


def reservation(amounts: Mapping[str, str], holder: str, now: float) -> InFlightReservation:
    """Return a reservation made now."""
    return InFlightReservation(dict(amounts), holder, second_time(now))


def read(annotations: Mapping[str, str], now: float) -> dict[str, InFlightReservation]:
    """Return the reservations in a quota's annotations that still count, by UID of the pod."""
    text = annotations.get(ANNOTATION)
    if not text:
        return {}
    try:
        raw = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    except (ValueError, RecursionError):
        return {}
    found: dict[str, InFlightReservation] = {}
    for uid, part in raw.items():
        try:
            each = msgspec.json.decode(part, type=InFlightReservation)
        except (ValueError, RecursionError):
            continue
        if not each.expired(now):
            found[uid] = each
    return found


def text(reservations: Mapping[str, InFlightReservation]) -> str | None:
    """Return the annotation's value; None if it is to be removed."""
    return (
        msgspec.json.encode(dict(sorted(reservations.items()))).decode() if reservations else None
    )
