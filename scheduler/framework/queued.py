"""The queue's record of a pending pod (types.go: QueuedPodInfo)."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from scheduler.api.pod import Pod


class PostFilterOutcome(StrEnum):
    """Result of PostFilter in the last attempt, for plugins that react to it.

    An example is the fallback of PodTopologySpread, see KEP-3990: PreemptionFalied (as the section
    is spelt) and docs/topology-spread-fallback.md.
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
    `add_unschedulable_if_not_present`. If the wall clock jumps, the queue shifts all times in it
    (`BackoffPolicy.shift`).
    """

    pod: Pod
    #: Wall clock seconds; updated after every failed attempt, so that a retried pod sorts behind
    #: new ones.
    timestamp: float
    attempts: int = 0
    #: Wall clock seconds; None until computed.
    backoff_expiration: float | None = None
    unschedulable_count: int = 0
    consecutive_errors_count: int = 0
    #: Minimum wait in seconds after the last attempt, because this attempt, or one at a pod of the
    #: same signature, exceeded the time budget of a cycle; otherwise 0.
    pause: float = 0.0
    was_flushed_from_unschedulable: bool = False
    #: Wall clock seconds of the last periodic flush of this pod; 0 if there was none.
    flushed_at: float = 0.0
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
    #: Number of consecutive PreEnqueue errors, from which the backoff until the next run follows.
    gate_errors: int = 0
    #: Set by the failure handler, and read by hints for `ATTEMPT_OUTCOME`.
    post_filter: PostFilterOutcome = PostFilterOutcome.NOT_RUN
    #: Label of the event that last moved the pod, and the plugin whose hint decided that.
    last_event: str = ""
    last_hint: str = ""
    #: Whether the pod was last popped from the backoff queue, before its backoff had ended.
    popped_early: bool = False
    #: Number of times that a gated pod passed PreEnqueue.
    gate_openings: int = 0
    #: State of plugins about the pod, by plugin name; dropped with this record.
    plugin_memory: dict[str, object] | None = None
    #: `metadata.uid` of `pod`. Cached, since it is read a dozen times per attempt; newer versions
    #: of `pod` have the same UID.
    uid: str = ""
    #: `namespace/name` of `pod`, cached as well.
    key: str = ""

    def __post_init__(self) -> None:
        metadata = self.pod.metadata
        self.uid, self.key = metadata.uid, f"{metadata.namespace}/{metadata.name}"

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
        """Clear the rejectors of the previous attempt; the failure handler sets them again."""
        self.unschedulable_plugins = set()
        self.pending_plugins = set()
        self.gating_plugin = ""
        self.requeue_at = None
