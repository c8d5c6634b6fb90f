"""What a reflector takes and gives: options in, deltas and statistics out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Generic, Protocol

import msgspec

from scheduler.client.resources import T


class DeltaType(Enum):
    """What happened to an object."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


class Delta(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """One change: `old` is what the store held, a deletion's `object` the last known state."""

    type: DeltaType
    object: T
    old: T | None = None


class Handler(Protocol[T]):
    """Receives changes, in order."""

    def __call__(self, batch: Sequence[Delta[T]], /) -> None:
        """Take one batch; the list is not reused."""
        ...


@dataclass(frozen=True, slots=True)
class ReflectorOptions:
    """How to list and watch."""

    namespace: str = ""
    """Only this namespace; empty means all."""
    label_selector: str = ""
    field_selector: str = ""
    page_size: int = 500
    """Objects per list request; the API server's own clients use 500."""
    batch_size: int = 200
    batch_bytes: int = 128 * 1024
    """What a handler is given at once: so many objects, or objects of so much JSON, but one at
    least."""
    slice_seconds: float = 0.005
    """How long objects are decoded and handled before other tasks get their turn; a batch is
    finished first."""
    idle_timeout: float = 70.0
    """Seconds without a byte after which a watch is cut; bookmarks come about every 60 s."""
    bookmarks: bool = True
    """Whether the API server sends bookmarks. It sends none for Events, of which it keeps no watch
    cache: silence is no fault before the watch should have ended."""
    watch_seconds: tuple[float, float] = (300.0, 600.0)
    """Each watch asks for a random length in this range, so that reconnects spread out."""
    backoff_initial: float = 0.2
    backoff_cap: float = 30.0
    streaming_list: bool = False
    """Ask for the initial list as watch events; falls back to pages where the server cannot."""


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
