"""The plugin interfaces, as Protocols. A plugin implements an extension point by its methods.

    class Zone:
        name = "example.com/Zone"

        def __init__(self, args: ZoneArgs, handle: Handle) -> None: ...

        def filter(self, state, pod, node): ...

In place of a status, `None` means Success. An exception becomes an Error status that names the
plugin. Filter and Score have a scalar form (one node) and a columnar form (many rows at once); a
plugin that has both must return the same results from both. PreBind, Bind and PostBind may be
`async`, and reach the API server only through `Handle.api`. PreFilter and PostFilter may be `async`
and then suspend the scheduling cycle. All other methods are synchronous and pure.
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
    """The members that all plugins have in common (`interface.go: Plugin`)."""

    #: Name in configuration, messages and metrics. Unique within a registry.
    name: ClassVar[str]

    # All other class attributes are optional and read with getattr; `base_plugin.BasePlugin` lists
    # them with their defaults.


@dataclass(frozen=True, slots=True)
class PreFilterResult:
    """The nodes that PreFilter leaves to the pod (`interface.go: PreFilterResult`)."""

    #: Names of the nodes. The engine ignores names that no node has.
    node_names: frozenset[str]


class PreEnqueuePlugin(Plugin, Protocol):
    """Gates pods before they enter the active queue (`interface.go: PreEnqueuePlugin`)."""

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Return None to admit the pod; any other status gates it.

        A gated pod gets no Event from the scheduler. Its condition PodScheduled has the reason
        `GatedByPlugin`, or the `condition_reason` of the status, and its message.
        """
        ...


class HoldingPlugin(PreEnqueuePlugin, Protocol):
    """A PreEnqueue plugin that knows which of its gated pods an event cannot help.

    It saves running `pre_enqueue` for thousands of gated pods after every event. Not upstream.
    """

    def held(self, changed: object) -> AbstractSet[str]:
        """Return the UIDs of gated pods that the plugin would gate again after this event.

        The queue does not run `pre_enqueue` for these pods. It reads the set at once and does not
        modify it. `changed` is the object before the event, or the new object for an addition; None
        if the event has no object.
        """
        ...


class QueueSortPlugin(Plugin, Protocol):
    """Orders the active queue (`interface.go: QueueSortPlugin`)."""

    def sort_key(self, info: QueuedPodInfo) -> Any:
        """Return a comparable key; the pod with the smallest key is scheduled first."""
        ...


class PreFilterPlugin(Plugin, Protocol):
    """Prepares for Filter; may limit the pod to some nodes, or reject it for all nodes.

    Upstream: `interface.go: PreFilterPlugin`.
    """

    #: Whether the result and all state that the plugin writes depend only on the pod's signature.
    pre_filter_reusable: ClassVar[bool] = False

    def pre_filter(
        self, state: CycleState, pod: Pod, table: NodeTableView
    ) -> PreFilterResult | Status | None:
        """Prepare the attempt; called once, before any Filter.

        Returns:
            None to go on with all nodes; a `PreFilterResult` to limit the pod to some nodes (the
            results of several plugins are intersected); `SKIP` if this plugin's Filter need not run
            for this pod; or a rejection for all nodes, which ends PreFilter: `unresolvable` at
            once, `unschedulable` after the other plugins have run.
        """
        ...


class SelectivePlugin(PreFilterPlugin, Protocol):
    """A PreFilter plugin that can be skipped for a pod by its signature alone. Not upstream."""

    def concerns(self, pod: Pod) -> bool:
        """Whether PreFilter may return anything other than `SKIP` for pods of this signature.

        If False, PreFilter counts as `SKIP`, and Filter, Score and Reserve are not called. The
        result may depend on objects that in-tree filters read, such as DeviceClasses: the engine
        caches it by signature until one of these changes.
        """
        ...


class AsyncPreFilterPlugin(Plugin, Protocol):
    """A PreFilter plugin that does I/O and so suspends the scheduling cycle. Not upstream.

    Meanwhile the scheduler applies no changes of the cluster, so the plugin must not wait for one.
    """

    #: Seconds after which the call fails with an Error status; 5 by default.
    timeout: ClassVar[float]

    async def pre_filter(
        self, state: CycleState, pod: Pod, table: NodeTableView
    ) -> PreFilterResult | Status | None:
        """Like `PreFilterPlugin.pre_filter`, but the result is never reused for other pods."""
        ...


class PreFilterExtensions(Plugin, Protocol):
    """Updates PreFilter state when a what-if adds a pod to a node or removes one.

    Upstream: `interface.go: PreFilterExtensions`.
    """

    def add_pod(self, state: CycleState, pod: Pod, added: Pod, node: NodeInfo) -> Status | None:
        """Update this plugin's data in `state`: `node` now holds `added` as well.

        Any status other than Success makes the what-if fail.
        """
        ...

    def remove_pod(
        self, state: CycleState, pod: Pod, removed: Pod, node: NodeInfo
    ) -> Status | None:
        """Update this plugin's data in `state`: `node` no longer holds `removed`."""
        ...


class FilterPlugin(Plugin, Protocol):
    """Decides whether a pod can run on a node (`interface.go: FilterPlugin`)."""

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Return None if the pod can run on `node`, else a rejection with its reasons.

        Reject with `unschedulable` if preemption may help, and with `unresolvable` if it cannot.
        Any other status, or an exception, ends the attempt with an Error. The method is also called
        for hypothetical nodes, so read pods and resources from `node`, not from the node table.
        """
        ...


class ColumnarFilterPlugin(Plugin, Protocol):
    """Decides for many rows at once whether a pod can run there. Not upstream."""

    #: On which inputs besides the pod's signature the codes depend; `NEVER`: do not cache them.
    filter_reuse: ClassVar[ReuseRule | None] = NEVER
    #: With `NEVER`: whether the codes depend only on the pod, the node table and objects of
    #: `required_resources`. A failed preemption is then not repeated until one of these changes.
    filter_depends_only_on_table: ClassVar[bool] = False

    def filter_rows(self, state: CycleState, pod: Pod, table: NodeTableView, rows: Rows) -> Codes:
        """Return int32 codes (len(rows),): 0 if the row passes, else a code for `filter_status`."""
        ...

    def filter_status(self, state: CycleState, pod: Pod, code: int) -> Status:
        """Translate a non-zero code into a rejection."""
        ...


class PreemptionFilterPlugin(ColumnarFilterPlugin, Protocol):
    """Decides for many rows at once whether evictions could help a pod there. Not upstream.

    Worth having for a filter whose result depends on a node's pods, beyond the resources that they
    use. It changes no decision, but preemption then dry-runs only the nodes that it keeps.
    """

    def filter_without_victims(
        self, state: CycleState, pod: Pod, table: TableWithoutVictims, rows: Rows
    ) -> Codes:
        """Return codes like `filter_rows`, for each row without its own potential victims.

        A row must get the result of `filter` after `remove_pod` of all its potential victims. 0
        keeps the node in the search; any other code rules it out.
        """
        ...

    def removal_sensitive_rows(
        self, state: CycleState, pod: Pod, table: TableWithoutVictims, rows: Rows
    ) -> BoolColumn:
        """Return (len(rows),): whether removing victims of the row changes the PreFilter state.

        Optional, and only for plugins with `remove_pod`, which preemption does not call for rows
        where this is False. True is always correct.
        """
        ...


class PostFilterPlugin(Plugin, Protocol):
    """Tries to make a pod schedulable that fits nowhere (`interface.go: PostFilterPlugin`)."""

    def post_filter(self, state: CycleState, pod: Pod, statuses: NodeToStatus) -> PostFilterResult:
        """Return Success with a nomination, or a rejection.

        `statuses` tells why each node was rejected. After `unschedulable` the next PostFilter
        plugin runs; any other status ends PostFilter.
        """
        ...


class DryRunPostFilterPlugin(PostFilterPlugin, Protocol):
    """A PostFilter plugin that can find victims without evicting them. Optional. Not upstream."""

    def find_victims(self, state: CycleState, pod: Pod, statuses: NodeToStatus) -> Candidate | None:
        """Return the candidate of `post_filter` without side effects, for `kubestow whatif`."""
        ...


class AsyncPostFilterPlugin(Plugin, Protocol):
    """A PostFilter plugin that does I/O and so suspends the scheduling cycle. Not upstream."""

    #: Seconds after which the call fails with an Error status; 5 by default.
    timeout: ClassVar[float]

    async def post_filter(
        self, state: CycleState, pod: Pod, statuses: NodeToStatus
    ) -> PostFilterResult:
        """Like `PostFilterPlugin.post_filter`."""
        ...


class PreScorePlugin(Plugin, Protocol):
    """Prepares for Score, given the feasible rows (`interface.go: PreScorePlugin`)."""

    #: Whether the result and all state that the plugin writes depend only on the pod's signature.
    pre_score_reusable: ClassVar[bool] = False

    def pre_score(
        self, state: CycleState, pod: Pod, table: NodeTableView, feasible: Rows
    ) -> Status | None:
        """Return None, or `SKIP` if this plugin's Score need not run for this pod.

        `feasible` holds the rows that passed every Filter, in no particular order. Any other status
        ends the attempt with an Error.
        """
        ...


class ScorePlugin(Plugin, Protocol):
    """Scores a feasible node (`interface.go: ScorePlugin`)."""

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int | Status:
        """Return a raw score; higher is better.

        The final score, after `normalize_scores` if the plugin has it, must be from 0 to 100. A
        score out of range, or a Status, ends the attempt with an Error.
        """
        ...


class ColumnarScorePlugin(Plugin, Protocol):
    """Scores many feasible rows at once. Not upstream."""

    #: On which inputs besides the pod's signature the raw scores depend; `NEVER`: do not cache.
    score_reuse: ClassVar[ReuseRule | None] = NEVER

    def score_rows(
        self, state: CycleState, pod: Pod, table: NodeTableView, rows: Rows
    ) -> Int64Column:
        """Return int64 raw scores (len(rows),), each equal to the result of `ScorePlugin.score`."""
        ...


class NormalizeScorePlugin(Plugin, Protocol):
    """Scales the raw scores of all feasible nodes to 0 to 100 (`interface.go: ScoreExtensions`)."""

    #: Whether a final score depends only on the node's raw score and the highest raw score. The
    #: final scores are then not recomputed when a node with a lower raw score no longer fits. Not
    #: upstream.
    normalizes_by_highest: ClassVar[bool] = False

    def normalize_scores(
        self, state: CycleState, pod: Pod, table: NodeTableView, rows: Rows, scores: Int64Column
    ) -> Int64Column | Status:
        """Return the final int64 scores (len(rows),) from 0 to 100, or an Error status.

        `scores` must not be modified; return a new array, or `scores` itself.
        """
        ...


class ReservePlugin(Plugin, Protocol):
    """Reserves resources outside the node table (`interface.go: ReservePlugin`)."""

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Reserve resources for `pod`, which is assumed on `node_name`.

        A rejection makes the pod unschedulable; any other status except Success is an Error. In
        both cases the engine then calls `unreserve` of every Reserve plugin.
        """
        ...

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Undo `reserve`. Must be idempotent, since it is called even if `reserve` never ran.

        Plugins are called in reverse order. An exception is logged and otherwise ignored.
        """
        ...


class PermitPlugin(Plugin, Protocol):
    """Approves, rejects or delays the binding of a pod (`interface.go: PermitPlugin`)."""

    #: Whether `permit` runs again for a waiting pod after each event of `events_to_register` whose
    #: hint does not return SKIP. If it then returns None, the wait ends. Not upstream.
    permit_on_events: ClassVar[bool] = False

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> tuple[Status | None, float]:
        """Return a status and, with `Code.WAIT`, the timeout in seconds (at most 900)."""
        ...


class PreBindPlugin(Plugin, Protocol):
    """Does work that must be finished before the pod is bound (`interface.go: PreBindPlugin`)."""

    def pre_bind_pre_flight(
        self, state: CycleState, pod: Pod, node_name: str
    ) -> PreBindPreFlightResult | Status | None:
        """Return None or a result if `pre_bind` has work to do, `SKIP` if it does not."""
        ...

    def pre_bind(
        self, state: CycleState, pod: Pod, node_name: str
    ) -> Status | Awaitable[Status | None] | None:
        """Do the work; may be `async`. The pod is bound after all plugins succeeded.

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
        only if the pod is certainly not bound: Reserve is then undone and the pod is retried.
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
        """Return the events with their hints; empty if no event helps. Called once, at start."""
        ...


class RelaxingPlugin(PreFilterPlugin, Protocol):
    """A PreFilter plugin that tries stricter requirements first. Not upstream."""

    def relax(self, state: CycleState, pod: Pod) -> bool:
        """Whether to repeat PreFilter and Filter with weaker requirements, since no node fits.

        Called once per attempt, before PostFilter. The second PreFilter gets the same `state` and
        must require less.
        """
        ...


class UnschedulableReasonPlugin(Plugin, Protocol):
    """Replaces the reason Unschedulable of pods that more nodes would not help. Not upstream."""

    def unschedulable_reason(self, pod: Pod) -> tuple[str, str] | None:
        """Return (reason, message) of PodScheduled for a pod that fits no node; None: the default.

        Autoscalers add nodes for pods with the reason Unschedulable only; another reason keeps them
        from doing so. Called if no rejection has a `condition_reason`.
        """
        ...


class ExplainingPlugin(Plugin, Protocol):
    """Adds text to `kubestow explain`; each of the methods is optional. Not upstream."""

    def explain(self, pod: Pod) -> Sequence[str]:
        """Return lines about a pod that is pending or waits at Permit; must change no state."""
        ...

    def explain_rejection(
        self, state: CycleState, pod: Pod, table: NodeTableView, rejected: RejectedNodes
    ) -> str:
        """Return the numbers behind a rejection, for people; must not change `state`."""
        ...

    def explain_pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> str:
        """Return for what PreBind of this plugin waits; must change no state.

        Called while `pre_bind` is under way. The text continues the sentence "its binding waits",
        as in "until claim a is bound, for at most 10m".
        """
        ...


class PodConditionsPlugin(Plugin, Protocol):
    """Adds pod conditions to the scheduler's status patch. Not upstream.

    Any plugin of the pod's profile may have the method.
    """

    def pod_conditions(self, pod: Pod, info: QueuedPodInfo) -> Sequence[Condition]:
        """Return the conditions that the pod should have; types must have the plugin's own domain.

        Called whenever the scheduler writes PodScheduled=False: after a failed attempt, with its
        outcome in `info`, and for a gated pod (`info.gated`). The same PATCH writes the conditions;
        it carries the pod's UID and is omitted if nothing changed. `pod` is the newest known
        object. Conditions that are not returned stay unchanged. The scheduler fills in
        `lastTransitionTime` and `observedGeneration`.
        """
        ...


@dataclass(frozen=True, slots=True)
class PreBindPreFlightResult:
    """The result of `pre_bind_pre_flight` (`interface.go: PreBindPreFlightResult`)."""

    #: Whether `pre_bind` may run concurrently with that of adjacent plugins that allow it as well.
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
    """The result of PostFilter; after Success the pod may fit on the nominated node later."""

    status: Status | None
    nominating: NominatingInfo | None = None
    #: The outcome in `QueuedPodInfo.post_filter`; None: derived from the status.
    outcome: PostFilterOutcome | None = None
    #: `namespace/name` of the pods that are evicted, for the decision record.
    victims: tuple[str, ...] = ()


PluginFactory = Any
"""A plugin class, or a callable `(args, handle) -> plugin` with `name` and optional `args_type`."""
