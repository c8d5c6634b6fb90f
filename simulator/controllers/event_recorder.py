"""Events as a recorder of client-go writes them: combined, counted, and left out when many.

The legacy recorder of client-go (`tools/record/events_cache.go`): a repetition raises `count` and
`lastTimestamp` of the Event that is there; what differs from ten others in its message only is
combined with them; then a filter decides whether the Event is sent at all. What is left out counts
all the same: a later repetition has the count, and the first time, of all that happened.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from simulator.api import MERGE_PATCH, Api
from simulator.errors import ApiError
from simulator.objects import JsonObject, format_time

COMBINED: Final = "(combined from similar events): "
SIMILAR_EVENTS: Final = 10
"""Messages of one reason about one object that are kept apart."""
SIMILAR_SECONDS: Final = 600.0
"""Without an event of the kind for so long, they are kept apart again."""
SPAM_SECONDS: Final = 300.0
"""client-go: between two events of one key, once the first few are used up."""
SPAM_EVENTS: Final = 25
"""client-go: events about one object that are sent before it begins to leave some out."""
_NUMBERS: Final = itertools.count(1)
"""Makes names of Events differ although the clock stands still."""
_ROUNDING: Final = 1e-3
"""Seconds; sums of clock steps are not exact."""


@dataclass(frozen=True, slots=True)
class PendingEvent:
    """One event as a component wants to send it."""

    about: JsonObject
    """The object reference."""
    kind: str
    """Normal or Warning."""
    reason: str
    message: str

    @property
    def object_key(self) -> str:
        """Return the key of the object that the event is about."""
        about = self.about
        return f"{about.get('kind')}/{about.get('namespace')}/{about['name']}/{about.get('uid')}"


class TokenBucket:
    """Lets `burst` events pass at once, and one more every `seconds`."""

    __slots__ = ("_ahead", "_free_at", "_seconds")

    def __init__(self, seconds: float, burst: int = 1) -> None:
        self._seconds = seconds
        self._ahead = (burst - 1) * seconds
        self._free_at = float("-inf")

    def take(self, now: float) -> bool:
        """Whether one may pass now; if so, it is counted."""
        if now < self._free_at - self._ahead - _ROUNDING:
            return False
        self._free_at = max(self._free_at, now) + self._seconds
        return True


class EventFilter(Protocol):
    """Decides which events are left out."""

    def admits(self, event: PendingEvent, now: float) -> bool:
        """Whether an event is sent."""
        ...


class SpamFilter:
    """A token bucket for each key that `key` makes of an event: client-go's spam filter."""

    def __init__(
        self,
        key: Callable[[PendingEvent], str] = lambda event: f"{event.object_key}/{event.kind}",
        *,
        seconds: float = SPAM_SECONDS,
        burst: int = SPAM_EVENTS,
    ) -> None:
        self._key = key
        self._seconds = seconds
        self._burst = burst
        self._buckets: dict[str, TokenBucket] = {}

    def admits(self, event: PendingEvent, now: float) -> bool:
        """Whether the key of the event has not used up what it may send."""
        key = self._key(event)
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = TokenBucket(self._seconds, self._burst)
        return bucket.take(now)


@dataclass(slots=True)
class _Seen:
    """Count of one event so far, sent or suppressed."""

    namespace: str
    name: str
    first: float
    count: int = 0


@dataclass(slots=True)
class _Similar:
    """Messages of one reason about one object."""

    last: float
    messages: set[str] = field(default_factory=set)


class Recorder:
    """Writes Events of one component."""

    def __init__(self, api: Api, component: str, events: EventFilter) -> None:
        self._api = api
        self._events = api.resources.of_kind("v1", "Event")
        self._component = component
        self._filter = events
        self._similar: dict[tuple[str, str, str], _Similar] = {}
        self._seen: dict[tuple[str, ...], _Seen] = {}

    def record(self, event: PendingEvent) -> bool:
        """Send an Event; False when it was left out."""
        now = self._api.clock.now()
        event, key = self._combined(event, now)
        seen = self._seen.get(key)
        if seen is None:
            namespace = str(event.about.get("namespace") or "default")
            name = f"{event.about['name']}.{int(now * 1e6):x}{next(_NUMBERS):x}"
            seen = self._seen[key] = _Seen(namespace, name, now)
        seen.count += 1
        if not self._filter.admits(event, now):
            return False
        if seen.count == 1 or not self._repeat(seen, event, now):
            self._create(seen, event, now)
        return True

    def _combined(self, event: PendingEvent, now: float) -> tuple[PendingEvent, tuple[str, ...]]:
        """Return the event to send, and the key that a repetition of it shares."""
        group = (event.object_key, event.kind, event.reason)
        similar = self._similar.get(group)
        if similar is None or now - similar.last > SIMILAR_SECONDS:
            similar = self._similar[group] = _Similar(now)
        similar.last = now
        similar.messages.add(event.message)
        if len(similar.messages) < SIMILAR_EVENTS:
            return event, (*group, event.message)
        similar.messages.pop()
        return PendingEvent(event.about, event.kind, event.reason, COMBINED + event.message), group

    def _repeat(self, seen: _Seen, event: PendingEvent, now: float) -> bool:
        patch = {"count": seen.count, "lastTimestamp": format_time(now), "message": event.message}
        try:
            self._api.patch(self._events, seen.namespace, seen.name, patch, MERGE_PATCH)
        except ApiError:
            # Its time to live is over, or it was left out so far; it is written anew.
            return False
        return True

    def _create(self, seen: _Seen, event: PendingEvent, now: float) -> None:
        body: JsonObject = {
            "metadata": {"name": seen.name, "namespace": seen.namespace},
            "involvedObject": event.about,
            "type": event.kind,
            "reason": event.reason,
            "message": event.message,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "firstTimestamp": format_time(seen.first),
            "lastTimestamp": format_time(now),
            "count": seen.count,
        }
        try:
            self._api.create(self._events, seen.namespace, body)
        except ApiError:
            # Its namespace is going away, or a fault rule of a test stands in the way.
            return
