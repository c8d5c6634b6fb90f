"""The queue's record of a pending pod (types.go: QueuedPodInfo)."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from scheduler.api.pod import Pod


class PostFilterOutcome(StrEnum):
    """Result of PostFilter in the last attempt, for plugins that react to it.

    PodTopologySpread's fallback does, see KEP-3990: PreemptionFalied (as the section is spelt) and
    docs/topology-spread-fallback.md.
    """

    #: No attempt yet, or it did not reach PostFilter: no nodes, an error, a rejection in Reserve,
    #: Permit or bind.
    NOT_RUN = "NotRun"
    #: The pod is nominated to a node, since this attempt or an earlier one.
    NOMINATED = "Nominated"
    #: Preemption found no candidate.
    FAILED = "Failed"
    #: The pod may not preempt.
    INELIGIBLE = "Ineligible"
    #: The profile has no PostFilter plugin.
    NO_PLUGIN = "NoPlugin"
    #: Evictions failed.
    ERROR = "Error"


class QueuedPodInfo(msgspec.Struct, eq=False, weakref=True):
    """One pending pod and its history in the queue.

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
    #: Seconds that the pod waits at least after its last attempt, because that attempt, or one of a
    #: pod of the same signature, used up the time budget of a cycle; 0 for every other pod.
    pause: float = 0.0
    was_flushed_from_unschedulable: bool = False
    #: Wall clock seconds of the first entry into the active queue; the scheduling SLI starts here.
    initial_attempt_timestamp: float | None = None
    unschedulable_plugins: set[str] = msgspec.field(default_factory=set)
    #: Plugins that returned Pending: if their hint returns QUEUE, the pod skips backoff.
    pending_plugins: set[str] = msgspec.field(default_factory=set)
    gating_plugin: str = ""
    #: Why the last attempt failed or the pod is gated, for people (`kubestow queue`).
    last_message: str = ""
    #: Wall clock seconds of a retry that a rejecting plugin requested, if any.
    requeue_at: float | None = None
    #: Consecutive PreEnqueue runs that ended in an error; the backoff until the next run.
    gate_errors: int = 0
    #: Set by the failure handler; read by hints for `ATTEMPT_OUTCOME`.
    post_filter: PostFilterOutcome = PostFilterOutcome.NOT_RUN
    #: Label of the event that moved the pod last, and the plugin whose hint decided it.
    last_event: str = ""
    last_hint: str = ""
    #: Whether the pod was popped from the backoff queue last, before its backoff had ended.
    popped_early: bool = False
    #: Number of times that a gated pod passed PreEnqueue.
    gate_openings: int = 0
    #: State that plugins keep about the pod, by plugin name; dropped with the record.
    plugin_memory: dict[str, object] | None = None
    #: `metadata.uid` of `pod`, which only newer versions replace; read a dozen times for each pod.
    uid: str = ""
    #: `namespace/name`.
    key: str = ""

    def __post_init__(self) -> None:
        self.uid, self.key = self.pod.metadata.uid, self.pod.key

    def memory(self) -> dict[str, object]:
        """Return `plugin_memory`, created on first use."""
        if self.plugin_memory is None:
            self.plugin_memory = {}
        return self.plugin_memory

    @property
    def gated(self) -> bool:
        """Whether a PreEnqueue plugin holds the pod."""
        return self.gating_plugin != ""

    @property
    def rejectors(self) -> set[str]:
        """Plugins whose events may move the pod."""
        return self.unschedulable_plugins | self.pending_plugins

    def clear_rejectors(self) -> None:
        """Clear the reasons of the previous failure; the failure handler refills them."""
        self.unschedulable_plugins = set()
        self.pending_plugins = set()
        self.gating_plugin = ""
        self.requeue_at = None
