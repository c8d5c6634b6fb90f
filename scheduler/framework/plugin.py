"""The plugin interfaces, as Protocols. A plugin implements a point by having its methods.

    class Zone:
        name = "example.com/Zone"

        def __init__(self, args: ZoneArgs, handle: Handle) -> None: ...

        def filter(self, state, pod, node): ...

`None` means Success everywhere, and an exception becomes an Error status that names the plugin.
Filter and Score have a scalar form (one node) and a columnar form (many rows at once); a plugin
that has both must return the same from both. PreBind, Bind and PostBind may be `async` and reach
the API only through `Handle.api`; PreFilter and PostFilter may be `async` and then suspend the
scheduling cycle; everything else is synchronous and pure.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from scheduler.api.meta import Condition
from scheduler.api.pod import Pod
from scheduler.framework.events import ClusterEventWithHint
from scheduler.framework.node_status import NodeToStatus, RejectedNodes
from scheduler.framework.nodes import (
    BoolColumn,
    Codes,
    Int64Column,
    NodeInfo,
    NodeTableView,
    Rows,
    TableWithoutVictims,
)
from scheduler.framework.preemption import Candidate
from scheduler.framework.queued import PostFilterOutcome, QueuedPodInfo
from scheduler.framework.reuse import NEVER, ReuseRule
from scheduler.framework.state import CycleState
from scheduler.framework.status import Status

MAX_NODE_SCORE = 100
"""Highest final score of a node, before the weight of the plugin."""
MIN_NODE_SCORE = 0
"""Lowest final score of a node."""


class Plugin(Protocol):
    """The part that all plugins have in common (`interface.go: Plugin`)."""

    #: Used in configuration, messages and metrics. Unique within a registry.
    name: ClassVar[str]

    # Optional class attributes are read with getattr, so that a plugin without them stays short:
    # `base_plugin.BasePlugin` has them all, with their defaults.


@dataclass(frozen=True, slots=True)
class PreFilterResult:
    """The nodes to which PreFilter narrows the pod (`interface.go: PreFilterResult`)."""

    #: Names that no node has are ignored.
    node_names: frozenset[str]


class PreEnqueuePlugin(Plugin, Protocol):
    """Gates pods before they enter the active queue (`interface.go: PreEnqueuePlugin`)."""

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Return None to admit the pod; any other status gates it.

        A gated pod gets neither an Event nor a condition from the scheduler.
        """
        ...


class HoldingPlugin(PreEnqueuePlugin, Protocol):
    """A PreEnqueue plugin that tracks which of its gated pods an event cannot help.

    An event that thousands of gated pods registered then costs nothing for these. Not upstream.
    """

    def held(self, changed: object) -> AbstractSet[str]:
        """Return the UIDs of gated pods for which no event about `changed` opens the gate.

        The queue does not run `pre_enqueue` for these pods because of such an event. It reads the
        set at once and does not modify it. `changed` is the object before the event, or the new
        object for an addition; None if the event has no object.
        """
        ...


class QueueSortPlugin(Plugin, Protocol):
    """Orders the active queue (`interface.go: QueueSortPlugin`)."""

    def sort_key(self, info: QueuedPodInfo) -> Any:
        """Return a comparable key; the pod with the smallest key is scheduled first."""
        ...


class PreFilterPlugin(Plugin, Protocol):
    """Prepares for Filter; may narrow the nodes, or reject the pod for all nodes.

    Upstream: `interface.go: PreFilterPlugin`.
    """

    #: Whether the outcome and all state written depend on the pod's signature alone.
    pre_filter_reusable: ClassVar[bool] = False

    def pre_filter(
        self, state: CycleState, pod: Pod, table: NodeTableView
    ) -> PreFilterResult | Status | None:
        """Prepare the attempt; called once, before any Filter.

        Returns:
            None to go on with all nodes; a `PreFilterResult` to narrow them (the results of several
            plugins are intersected); `SKIP` to have this plugin's Filter skipped for this pod; a
            rejection of the whole pod: `unresolvable` ends PreFilter at once, `unschedulable` after
            the other plugins have run.
        """
        ...


class SelectivePlugin(PreFilterPlugin, Protocol):
    """A PreFilter plugin that tells by a pod's signature that it skips the pod. Not upstream."""

    def concerns(self, pod: Pod) -> bool:
        """Whether PreFilter may return anything but `SKIP` for pods of this signature.

        If it is False, PreFilter counts as `SKIP`, and neither Filter, Score nor Reserve are
        called. It may depend on objects that in-tree filters read, such as DeviceClasses: the
        answer is kept for the signature until one of them changes.
        """
        ...


class AsyncPreFilterPlugin(Plugin, Protocol):
    """A PreFilter plugin that does I/O: it suspends the scheduling cycle. Not upstream.

    The scheduler applies no change of the cluster meanwhile, so the plugin must not wait for one.
    """

    #: Seconds until the call fails with an Error status; 5 when absent.
    timeout: ClassVar[float]

    async def pre_filter(
        self, state: CycleState, pod: Pod, table: NodeTableView
    ) -> PreFilterResult | Status | None:
        """Do as `PreFilterPlugin.pre_filter`; the result is never reused for other pods."""
        ...


class PreFilterExtensions(Plugin, Protocol):
    """Updates PreFilter state when a what-if adds a pod to a node or removes one.

    Upstream: `interface.go: PreFilterExtensions`.
    """

    def add_pod(self, state: CycleState, pod: Pod, added: Pod, node: NodeInfo) -> Status | None:
        """Update what this plugin keeps in `state`: `node` now holds `added` as well.

        Any status other than Success makes the what-if fail.
        """
        ...

    def remove_pod(
        self, state: CycleState, pod: Pod, removed: Pod, node: NodeInfo
    ) -> Status | None:
        """Update what this plugin keeps in `state`: `node` no longer holds `removed`."""
        ...


class FilterPlugin(Plugin, Protocol):
    """Decides whether a pod can run on a node (`interface.go: FilterPlugin`)."""

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Return None if the pod can run on `node`, else a rejection with its reasons.

        Reject with `unschedulable` where preemption may help and `unresolvable` where it cannot.
        Any other status, or an exception, ends the attempt with an Error. Also called for
        hypothetical nodes: read pods and resources from `node`, not from the node table.
        """
        ...


class ColumnarFilterPlugin(Plugin, Protocol):
    """Decides for many rows at once whether a pod can run there. Not upstream."""

    #: The inputs of the codes besides the pod's signature, or `NEVER`.
    filter_reuse: ClassVar[ReuseRule | None] = NEVER
    #: With `NEVER`: whether the codes still depend on nothing but the pod, the node table and
    #: `required_resources`. A failed preemption is then not repeated until one of these changes.
    filter_depends_only_on_table: ClassVar[bool] = False

    def filter_rows(self, state: CycleState, pod: Pod, table: NodeTableView, rows: Rows) -> Codes:
        """Return int32 codes (len(rows),): 0 passes, any other is translated by `filter_status`."""
        ...

    def filter_status(self, state: CycleState, pod: Pod, code: int) -> Status:
        """Return the rejection that a non-zero code stands for."""
        ...


class PreemptionFilterPlugin(ColumnarFilterPlugin, Protocol):
    """Decides for many rows at once whether evictions could help a pod there. Not upstream.

    Useful for a filter whose result depends on the node's pods other than by the resources they
    use: without it preemption dry-runs every remaining node pod by pod, with the same result.
    """

    def filter_without_victims(
        self, state: CycleState, pod: Pod, table: TableWithoutVictims, rows: Rows
    ) -> Codes:
        """Return codes as `filter_rows`, each row without its own potential victims.

        The codes must equal those of `filter` after `remove_pod` of all these victims: 0 keeps the
        node in the search, any other code rules it out.
        """
        ...

    def removal_sensitive_rows(
        self, state: CycleState, pod: Pod, table: TableWithoutVictims, rows: Rows
    ) -> BoolColumn:
        """Return (len(rows),): whether removing victims of the row changes the PreFilter state.

        Optional, and for plugins with `remove_pod` only: preemption skips `remove_pod` on rows that
        are False. True is always safe.
        """
        ...


class PostFilterPlugin(Plugin, Protocol):
    """Tries to make a pod schedulable that fits nowhere (`interface.go: PostFilterPlugin`)."""

    def post_filter(self, state: CycleState, pod: Pod, statuses: NodeToStatus) -> PostFilterResult:
        """Return Success with a nomination, or a rejection.

        `statuses` has the reason for which each node was rejected. After `unschedulable` the next
        PostFilter plugin runs; any other status ends PostFilter.
        """
        ...


class DryRunPostFilterPlugin(PostFilterPlugin, Protocol):
    """A PostFilter plugin that can say whom it would evict. Optional. Not upstream."""

    def find_victims(self, state: CycleState, pod: Pod, statuses: NodeToStatus) -> Candidate | None:
        """Return what `post_filter` would do, without doing it: for trials (`kubestow whatif`)."""
        ...


class AsyncPostFilterPlugin(Plugin, Protocol):
    """A PostFilter plugin that does I/O: it suspends the scheduling cycle. Not upstream."""

    #: Seconds until the call fails with an Error status; 5 when absent.
    timeout: ClassVar[float]

    async def post_filter(
        self, state: CycleState, pod: Pod, statuses: NodeToStatus
    ) -> PostFilterResult:
        """Do as `PostFilterPlugin.post_filter`."""
        ...


class PreScorePlugin(Plugin, Protocol):
    """Prepares for Score, given the feasible rows (`interface.go: PreScorePlugin`)."""

    #: Whether the outcome and all state written depend on the pod's signature alone.
    pre_score_reusable: ClassVar[bool] = False

    def pre_score(
        self, state: CycleState, pod: Pod, table: NodeTableView, feasible: Rows
    ) -> Status | None:
        """Return None to go on, or `SKIP` to have this plugin's Score skipped for this pod.

        `feasible` holds the rows that passed every Filter, in no particular order. Any other status
        ends the attempt with an Error.
        """
        ...


class ScorePlugin(Plugin, Protocol):
    """Ranks a feasible node (`interface.go: ScorePlugin`)."""

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int | Status:
        """Return a raw score; higher is better.

        The final score, after `normalize_scores` if the plugin has it, must be from 0 to 100. A
        score out of range, or a Status, ends the attempt with an Error.
        """
        ...


class ColumnarScorePlugin(Plugin, Protocol):
    """Ranks many feasible rows at once. Not upstream."""

    #: The inputs of the raw scores besides the pod's signature, or `NEVER`.
    score_reuse: ClassVar[ReuseRule | None] = NEVER

    def score_rows(
        self, state: CycleState, pod: Pod, table: NodeTableView, rows: Rows
    ) -> Int64Column:
        """Return int64 raw scores (len(rows),), each equal to that of `ScorePlugin.score`."""
        ...


class NormalizeScorePlugin(Plugin, Protocol):
    """Scales the raw scores of all feasible nodes to 0 to 100 (`interface.go: ScoreExtensions`)."""

    #: Whether a final score depends on the node's raw score and the highest one alone: then the
    #: final scores need not be computed again when a node with a lower score ceases to fit. Not
    #: upstream.
    normalizes_by_highest: ClassVar[bool] = False

    def normalize_scores(
        self, state: CycleState, pod: Pod, table: NodeTableView, rows: Rows, scores: Int64Column
    ) -> Int64Column | Status:
        """Return the final int64 scores (len(rows),), from 0 to 100; a Status is an Error.

        `scores` must not be modified; return a new array, or `scores` itself.
        """
        ...


class ReservePlugin(Plugin, Protocol):
    """Reserves resources outside the node table (`interface.go: ReservePlugin`)."""

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Reserve for `pod`, which is assumed on `node_name`.

        A rejection makes the pod unschedulable; any other status than Success is an Error. After
        both `unreserve` of every Reserve plugin is called.
        """
        ...

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Undo `reserve`; idempotent, since it is called even when `reserve` never ran.

        Plugins are called in reverse order. An exception is logged and otherwise ignored.
        """
        ...


class PermitPlugin(Plugin, Protocol):
    """Approves, rejects or delays the binding of a pod (`interface.go: PermitPlugin`)."""

    #: Whether `permit` decides again about a waiting pod after each event of `events_to_register`
    #: that its hint does not skip: None ends the wait. Not upstream.
    permit_on_events: ClassVar[bool] = False

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> tuple[Status | None, float]:
        """Return a status and, with `Code.WAIT`, the timeout in seconds (at most 900)."""
        ...


class PreBindPlugin(Plugin, Protocol):
    """Does work that must be finished before the pod is bound (`interface.go: PreBindPlugin`)."""

    def pre_bind_pre_flight(
        self, state: CycleState, pod: Pod, node_name: str
    ) -> PreBindPreFlightResult | Status | None:
        """Return None or a result if `pre_bind` has work to do, `SKIP` if it has none."""
        ...

    def pre_bind(
        self, state: CycleState, pod: Pod, node_name: str
    ) -> Status | Awaitable[Status | None] | None:
        """Do the work; may be `async`. After Success of all plugins the pod is bound.

        A rejection makes the pod unschedulable; any other status is an Error. Both undo Reserve.
        """
        ...


class BindPlugin(Plugin, Protocol):
    """Binds a pod to its node (`interface.go: BindPlugin`)."""

    def bind(
        self, state: CycleState, pod: Pod, node_name: str
    ) -> Status | Awaitable[Status | None] | None:
        """Bind `pod` to `node_name`; may be `async`.

        `SKIP` passes the pod to the next Bind plugin; any other result is final. Return a failure
        only if the pod is certainly not bound: Reserve is undone and the pod is scheduled again.
        """
        ...


class PostBindPlugin(Plugin, Protocol):
    """Runs after a successful binding (`interface.go: PostBindPlugin`)."""

    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> Awaitable[None] | None:
        """Clean up; may be `async`. An exception is only logged: the pod stays bound."""
        ...


class EnqueueExtensions(Plugin, Protocol):
    """Registers the events that may help a rejected pod (`interface.go: EnqueueExtensions`)."""

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Return the events, with their hints; none: no event helps. Called once, at start."""
        ...


class RelaxingPlugin(PreFilterPlugin, Protocol):
    """A PreFilter plugin that starts with stricter demands than it needs. Not upstream."""

    def relax(self, state: CycleState, pod: Pod) -> bool:
        """Whether to repeat PreFilter and Filter with weaker demands, since no node fits.

        Called once per attempt, before PostFilter. `state` is kept for the second PreFilter, which
        must demand less.
        """
        ...


class UnschedulableReasonPlugin(Plugin, Protocol):
    """Replaces the reason Unschedulable of pods that more nodes would not help. Not upstream."""

    def unschedulable_reason(self, pod: Pod) -> tuple[str, str] | None:
        """Return (reason, message) of PodScheduled for a pod that fits no node; None: the usual.

        For plugins that let such a pod be scheduled all the same: autoscalers act on the reason
        Unschedulable only. Called if no rejection had a `condition_reason`.
        """
        ...


class ExplainingPlugin(Plugin, Protocol):
    """Adds to `kubestow explain`, by either method. Not upstream."""

    def explain(self, pod: Pod) -> Sequence[str]:
        """Return lines about a pending pod, or one that waits at Permit; has no side effects."""
        ...

    def explain_rejection(
        self, state: CycleState, pod: Pod, table: NodeTableView, rejected: RejectedNodes
    ) -> str:
        """Return the numbers behind a rejection; must not change `state`."""
        ...


class PodConditionsPlugin(Plugin, Protocol):
    """Adds pod conditions to the scheduler's status patch. Not upstream.

    Any plugin of the pod's profile may have the method.
    """

    def pod_conditions(self, pod: Pod, info: QueuedPodInfo) -> Sequence[Condition]:
        """Return the plugin's conditions as they should be now; types must carry its own domain.

        Called whenever PodScheduled=False is written: after a failed attempt, with its outcome in
        `info`, and for a gated pod (`info.gated`). The conditions are written by the same PATCH,
        which carries the pod's UID and is omitted if nothing changed. `pod` is the newest known
        object. Conditions that are not returned stay unchanged. `lastTransitionTime` and
        `observedGeneration` are filled in.
        """
        ...


@dataclass(frozen=True, slots=True)
class PreBindPreFlightResult:
    """The result of `pre_bind_pre_flight` (`interface.go: PreBindPreFlightResult`)."""

    #: Whether `pre_bind` may run concurrently with neighbouring plugins that allow it, too.
    allow_parallel: bool = False


@dataclass(frozen=True, slots=True)
class NominatingInfo:
    """A change of the pod's nomination; None instead of this record leaves it unchanged.

    Upstream: `interface.go: NominatingInfo`.
    """

    #: An empty name clears the nomination.
    node_name: str = ""


CLEAR_NOMINATION = NominatingInfo("")
"""Ends the nomination of the pod."""


@dataclass(frozen=True, slots=True)
class PostFilterResult:
    """The result of PostFilter; Success: the pod may fit on the nominated node later."""

    status: Status | None
    nominating: NominatingInfo | None = None
    #: The outcome for plugins that react to it; None: derived from the status.
    outcome: PostFilterOutcome | None = None
    #: `namespace/name` of the pods that are evicted, for the record of the decision.
    victims: tuple[str, ...] = ()


PluginFactory = Any
"""A plugin class, or any callable `(args, handle) -> plugin` with `name` and maybe `args_type`."""
