"""The annotation in which several active schedulers tell each other what they book (design 2.9).

    kubestow.io/inflight: {"<uid>": {"amounts": {"<key>": "<quantity>"}, "holder": "...",
                                     "time": "2026-01-01T00:00:00Z"}}

on a quota, one entry per pod between Reserve and the sight of its binding. Pure: reading, and the
text to write. What cannot be read counts as nothing and is dropped by the next write.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

import msgspec

from scheduler.client.clock import second_time

ANNOTATION: Final = "kubestow.io/inflight"
EXPIRY_SECONDS: Final = 60.0
"""After which an entry of another scheduler means nothing: its pod is bound, or it died."""


class InFlightReservation(msgspec.Struct, frozen=True):
    """One pod that a scheduler is about to bind."""

    amounts: dict[str, str]
    """By key of `spec.hard`."""
    holder: str
    time: str
    """When it was booked, RFC 3339 by the holder's clock."""

    def expired(self, now: float) -> bool:
        """Whether it is too old to count; unreadable times are."""
        try:
            return datetime.fromisoformat(self.time).timestamp() + EXPIRY_SECONDS <= now
        except ValueError:
            return True


Entries = Mapping[str, InFlightReservation]
"""By UID of the pod."""


def entry(amounts: Mapping[str, str], holder: str, now: float) -> InFlightReservation:
    """An entry made now."""
    return InFlightReservation(dict(amounts), holder, second_time(now))


def read(annotations: Mapping[str, str], now: float) -> dict[str, InFlightReservation]:
    """Entries that still count."""
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


def text(entries: Entries) -> str | None:
    """The annotation's value; None: it is to be removed."""
    return msgspec.json.encode(dict(sorted(entries.items()))).decode() if entries else None
