"""The Kubernetes Events of a world: kept for whoever asks for them, otherwise dropped."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.api.node import Node
from scheduler.api.pod import Pod
from scheduler.api.storage import ObjectReference
from scheduler.offline.virtual_time import VirtualClock

MAX_EVENTS = 100_000
"""Events that are kept; later ones are dropped."""


@dataclass(frozen=True, slots=True)
class RecordedEvent:
    """An Event as it would be written to the API server."""

    time: float
    """Wall clock seconds."""
    regarding: str
    """`namespace/name` of the object, or its name."""
    type: str
    """`Normal` or `Warning`."""
    reason: str
    """One CamelCase word, such as `FailedScheduling`."""
    action: str
    note: str
    """The text for people."""


class EventLog:
    """Stands in for the service's `EventRecorder`."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        #: Events in order of time; None: they are dropped.
        self.kept: list[RecordedEvent] | None = None

    def event(
        self,
        regarding: Pod | Node | ObjectReference,
        related: Pod | Node | ObjectReference | None,
        type: str,  # noqa: A002  (the Event field's own name)
        reason: str,
        action: str,
        note: str,
        reporting_controller: str,
    ) -> None:
        """Keep an event if anybody wants it; never raises."""
        if self.kept is not None and len(self.kept) < MAX_EVENTS:
            where = _key(regarding)
            self.kept.append(RecordedEvent(self._clock.now(), where, type, reason, action, note))


def _key(regarding: Pod | Node | ObjectReference) -> str:
    named = regarding if isinstance(regarding, ObjectReference) else regarding.metadata
    return f"{named.namespace}/{named.name}" if named.namespace else named.name
