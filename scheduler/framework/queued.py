"""What travels with a pending pod: its queue record (queue-and-events.md section 2)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from scheduler.api.pod import Pod
from scheduler.framework.events import ClusterEvent


class PostFilterOutcome(StrEnum):
    """How the last attempt's PostFilter ended, for plugins that react to it (KEP-3990 rule S6)."""

    #: No attempt yet, or it did not get as far: no nodes, an error, a rejection in Reserve, Permit
    #: or bind.
    NOT_RUN = "NotRun"
    #: A node is nominated, now or still.
    NOMINATED = "Nominated"
    #: Preemption found no candidate.
    FAILED = "Failed"
    #: The pod may not preempt.
    INELIGIBLE = "Ineligible"
    #: The profile has no PostFilter plugin.
    NO_PLUGIN = "NoPlugin"
    #: Evictions failed.
    ERROR = "Error"


@dataclass(slots=True, eq=False, weakref_slot=True)
class QueuedPodInfo:
    """One pending pod with the history the queue keeps about it.

    Owned by the queue; the engine and the failure handler change it only between `pop` and
    `add_unschedulable_if_not_present`.
    """

    pod: Pod
    #: Wall clock seconds; renewed after every failed attempt, so that a retried pod sorts behind
    #: fresh ones.
    timestamp: float
    attempts: int = 0
    #: None until computed; wall clock seconds.
    backoff_expiration: float | None = None
    unschedulable_count: int = 0
    consecutive_errors_count: int = 0
    #: Seconds that the pod waits at least after its last attempt, which used up the time budget of
    #: a cycle, or was not made because that of a pod like it had; 0 for every other pod.
    pause: float = 0.0
    was_flushed_from_unschedulable: bool = False
    #: First time in the active queue; the start of the scheduling SLI.
    initial_attempt_timestamp: float | None = None
    unschedulable_plugins: set[str] = field(default_factory=set)
    #: Plugins that answered Pending: an event they like skips backoff.
    pending_plugins: set[str] = field(default_factory=set)
    gating_plugin: str = ""
    gating_plugin_events: tuple[ClusterEvent, ...] = ()
    #: Why the last attempt failed or the gate is closed, for people (`kubestow queue`).
    last_message: str = ""
    #: Wall clock time a rejecting plugin asked to be tried again at, if any.
    requeue_at: float | None = None
    #: Consecutive PreEnqueue runs that ended in an error; the retry of a broken gate backs off by
    #: it.
    gate_errors: int = 0
    #: Set by the failure handler; read by hints for `ATTEMPT_OUTCOME`.
    post_filter: PostFilterOutcome = PostFilterOutcome.NOT_RUN
    #: Label of the event that moved the pod last, and the plugin whose hint said so.
    last_event: str = ""
    last_hint: str = ""
    #: How often a gate that had held the pod let it go.
    gate_openings: int = 0
    #: What plugins remember about the pod, by their name; None until one does. Goes with the
    #: record.
    plugin_memory: dict[str, object] | None = None

    @property
    def gated(self) -> bool:
        """Whether a PreEnqueue plugin holds the pod."""
        return self.gating_plugin != ""

    @property
    def rejectors(self) -> set[str]:
        """Plugins whose events may bring the pod back."""
        return self.unschedulable_plugins | self.pending_plugins

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return self.pod.key

    @property
    def uid(self) -> str:
        """The pod's UID."""
        return self.pod.metadata.uid

    def clear_rejectors(self) -> None:
        """Forget why the previous attempt failed; the failure handler refills it."""
        self.unschedulable_plugins = set()
        self.pending_plugins = set()
        self.gating_plugin = ""
        self.gating_plugin_events = ()
        self.requeue_at = None
