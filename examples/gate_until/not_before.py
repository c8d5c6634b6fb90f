"""NotBefore, a PreEnqueue gate: holds a pod until the time in its annotation.

    metadata:
      annotations:
        example.com/not-before: "2030-01-31T18:00:00Z"

The status carries the remaining time (`requeue_after`), so the queue calls the gate again at that
moment without polling. An invalid time holds the pod, because starting too early could do harm; an
Event on the pod reports it, because a gated pod gets no condition.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from typing import ClassVar, Final

import msgspec

from kubestow.plugin import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    Handle,
    Pod,
    QueueingHint,
    Status,
    is_qualified_name,
    unresolvable,
)

WAITING: Final = "waiting until {time}"
UNREADABLE: Final = (
    'annotation {key}: "{value}" is no time; write it like 2030-01-31T18:00:00Z (RFC 3339)'
)


class NotBeforeArgs(msgspec.Struct, rename="camel", kw_only=True, forbid_unknown_fields=True):
    """Arguments of NotBefore."""

    #: Key of the pod annotation that holds the time.
    annotation: str = "example.com/not-before"


class NotBefore:
    """Holds pods until the time in their annotation."""

    name: ClassVar[str] = "example.com/NotBefore"
    args_type: ClassVar[type[NotBeforeArgs]] = NotBeforeArgs

    def __init__(self, args: NotBeforeArgs, handle: Handle) -> None:
        self._annotation = args.annotation
        self._handle = handle

    @staticmethod
    def validate_args(args: NotBeforeArgs) -> Iterator[tuple[str, str]]:
        """Yield (path below `args`, message) for each problem."""
        if not is_qualified_name(args.annotation):
            yield "annotation", f'"{args.annotation}" is no annotation key'

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Hold the pod until its time."""
        written = pod.metadata.annotations.get(self._annotation)
        if written is None:
            return None
        time = parse_time(written)
        if time is None:
            message = UNREADABLE.format(key=self._annotation, value=written)
            self._handle.events.record(pod, "Warning", "InvalidNotBefore", "Scheduling", message)
            return unresolvable(message)
        remaining = time.timestamp() - self._handle.clock.now()
        if remaining <= 0:
            return None
        return unresolvable(WAITING.format(time=written), requeue_after=remaining)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Register for changes of the pod's own annotation."""
        event = ClusterEvent(EventResource.TARGET_POD, ActionType.UPDATE)
        return (ClusterEventWithHint(event, self._after_own_update),)

    def _after_own_update(self, pod: Pod, old: Pod, new: Pod) -> QueueingHint:
        key = self._annotation
        changed = new.metadata.uid == pod.metadata.uid and (
            old.metadata.annotations.get(key) != new.metadata.annotations.get(key)
        )
        return QueueingHint.QUEUE if changed else QueueingHint.SKIP


def parse_time(text: str) -> dt.datetime | None:
    """Parse a time with an offset from UTC; None for anything else.

    >>> parse_time("2030-01-31T18:00:00Z").timestamp()
    1896112800.0
    >>> parse_time("2030-01-31T18:00:00") is parse_time("soon") is None
    True
    """
    try:
        time = dt.datetime.fromisoformat(text)
    except ValueError:
        return None
    return None if time.tzinfo is None else time
