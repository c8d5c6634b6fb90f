"""What the queue tells about itself: frozen counts, and one record per pod for `kubestow queue`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class QueueState(StrEnum):
    """Where a pod is; the values of the first three are upstream's metric labels."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"
    IN_FLIGHT = "in-flight"


@dataclass(frozen=True, slots=True)
class QueueStatistics:
    """A moment's view of the queue."""

    active: int
    backoff: int
    """Both heaps."""
    backoff_errors: int
    """The part of `backoff` that waits because the attempt broke."""
    unschedulable: int
    """Pool without gated pods."""
    gated: int
    in_flight: int
    in_flight_events: int
    in_flight_events_dropped: int
    """Events given up because too many were kept; their pods are retried after backoff instead."""
    nominated: int
    scheduling_cycle: int
    """Pods popped since the start."""
    events: int
    """Events that were offered to the pool since the start."""
    events_ignored: int
    """The part of `events` that no plugin waits for."""
    hint_calls: int
    hint_answers_shared: int
    """Hints not asked because a pod of the same signature had been asked about for the same
    event."""
    hint_errors: int
    pre_enqueue_runs: int
    pre_enqueue_errors: int
    clock_jumps: int
    """How often the wall clock was seen to jump back."""
    closed: bool
    wakeups_left: int = 0
    """Groups of pods that an event may concern and that are not looked at yet, and pods that it
    moves and that are not moved yet."""
    deferred_namespaces: tuple[str, ...] = ()
    """Their pods go behind those of others, since their attempts used much CPU time lately."""

    @property
    def summary(self) -> str:
        """Upstream's one-line text."""
        pool = self.unschedulable + self.gated
        return f"activeQ:{self.active}; backoffQ:{self.backoff}; unschedulablePods:{pool}"


@dataclass(frozen=True, slots=True)
class PodView:
    """One pending pod, for people."""

    namespace: str
    name: str
    uid: str
    profile: str
    place: QueueState
    position: int | None
    """0 is next; None where there is no order."""
    attempts: int
    timestamp: float
    """Wall clock seconds: when the pod was added or last came back from an attempt."""
    next_retry: float | None
    """Wall clock seconds of the next retry that needs no event; None when there is none."""
    next_retry_reason: str
    gating_plugin: str
    message: str
    """Why the last attempt failed, or why the gate is closed."""
    unschedulable_plugins: tuple[str, ...]
    pending_plugins: tuple[str, ...]
    nominated_node: str
    last_event: str
    """Label of the event that moved the pod last."""
    last_hint: str
    """The plugin whose hint said so, empty when no hint was asked."""


class QueueInvariantError(AssertionError):
    """The queue is not as it must be; `violations` says how. A bug: please report it."""

    def __init__(self, violations: list[str]) -> None:
        self.violations = tuple(violations)
        super().__init__("; ".join(violations))


class AlreadyQueuedError(ValueError):
    """A pod that came back from an attempt is in a sub-queue already."""
