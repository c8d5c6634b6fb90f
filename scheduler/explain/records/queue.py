"""The queue: counts, and pending pods one by one (`/debug/queue`)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from scheduler.explain.records.page import DebugPage


class QueueState(StrEnum):
    """Place of a pod. All values but the last are labels of upstream's metric `pending_pods`."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"
    IN_FLIGHT = "in-flight"


@dataclass(frozen=True, slots=True)
class QueueStatistics:
    """Counts at one moment."""

    active: int
    backoff: int
    """Both heaps."""
    backoff_errors: int
    """The part of `backoff` whose attempt ended in an error."""
    unschedulable: int
    """Without gated pods."""
    gated: int
    in_flight: int
    in_flight_events: int
    in_flight_events_dropped: int
    """Events dropped because too many were kept; their pods are retried after backoff instead."""
    nominated: int
    scheduling_cycle: int
    """Pods popped since the start."""
    events: int
    """Events received since the start."""
    events_ignored: int
    """The part of `events` that no plugin registered."""
    hint_calls: int
    hint_answers_shared: int
    """Hint results reused from a call for a pod of the same signature and the same event."""
    hint_errors: int
    pre_enqueue_runs: int
    pre_enqueue_errors: int
    clock_jumps: int
    """Number of times that the wall clock jumped back."""
    closed: bool
    wakeups_left: int = 0
    """Groups of pods that postponed events may concern, and pods decided to move but not moved."""
    deferred_namespaces: tuple[str, ...] = ()
    """Namespaces whose pods are popped after others: their attempts used much CPU time lately."""


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
    """Why the last attempt failed, or why the pod is gated."""
    unschedulable_plugins: tuple[str, ...]
    pending_plugins: tuple[str, ...]
    nominated_node: str
    last_event: str
    """Label of the event that moved the pod last."""
    last_hint: str
    """The plugin whose hint decided that move; empty when none did."""
    waiting_since: float = 0.0
    """Wall clock seconds: when the pod first became active, or, if it never was, was added."""


@dataclass(frozen=True, slots=True)
class BindingView:
    """One pod that has a node for a second or more, and is not bound yet."""

    namespace: str
    name: str
    uid: str
    node: str
    since: float
    """Wall clock seconds: when the attempt began that chose the node."""
    text: str
    """For what it waits: at Permit, at PreBind, or for its group."""


class QueuePage(DebugPage, frozen=True, tag="QueueList"):
    """`/debug/queue`. Times are wall clock seconds."""

    now: float
    leading: bool
    """False on a replica that stands by: its queue fills, and nothing is popped."""
    namespace: str
    """The only namespace shown; empty for all."""
    limit: int
    """The most pods of one sub-queue that are in `pods`; `statistics` counts all."""
    statistics: QueueStatistics
    pods: list[PodView]
    binding: list[BindingView] = []
    """At most `limit` pods that are in no sub-queue any more, as a node was chosen for them; the
    one that has waited longest first."""
