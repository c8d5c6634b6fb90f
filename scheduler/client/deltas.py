"""Input and output of reflectors: options, deltas and statistics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Generic, Protocol

import msgspec

from scheduler.client.resources import T


class DeltaType(Enum):
    """A kind of change to an object."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


class Delta(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """One change: `old` is the object the store held; a deletion's `object` is its last state."""

    type: DeltaType
    object: T
    old: T | None = None


class Handler(Protocol[T]):
    """Receives changes, in order."""

    def __call__(self, batch: Sequence[Delta[T]], /) -> None:
        """Handle one batch; the list is not reused."""
        ...


@dataclass(frozen=True, slots=True)
class ReflectorOptions:
    """Options of listing and watching."""

    namespace: str = ""
    """Only this namespace; empty means all."""
    field_selector: str = ""
    page_size: int = 500
    """Objects per list request, as in client-go."""
    batch_size: int = 200
    batch_bytes: int = 128 * 1024
    """Limits of a batch: number of objects, and size of their JSON. It has at least one object."""
    slice_seconds: float = 0.005
    """Time for decoding and handling before other tasks run; a batch is finished first."""
    idle_timeout: float = 70.0
    """Seconds without data after which a watch is closed; bookmarks arrive about every 60 s."""
    bookmarks: bool = True
    """Whether the API server sends bookmarks. It sends none for Events, for which it has no watch
    cache: there an idle watch is no fault before it should have ended."""
    watch_seconds: tuple[float, float] = (300.0, 600.0)
    """Range of the random duration that a watch requests, so that reconnects spread out."""
    poll_seconds: float = 30.0
    """Seconds between two lists of a resource that the server cannot watch, 10 % more or less."""
    backoff_initial: float = 0.2
    backoff_cap: float = 30.0


@dataclass(frozen=True, slots=True)
class ReflectorStatistics:
    """The state of a reflector, for metrics, debugging and tests."""

    plural: str
    objects: int
    synced: bool
    resource_version: str
    lists: int
    watches: int
    events: int
    bookmarks: int
    malformed: int
    ends: dict[str, int]
    last_error: str
    seconds_since_contact: float
