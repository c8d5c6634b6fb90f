"""The extension points, as Protocols. A plugin implements a point by having its methods.

    class Zone:
        name = "example.com/Zone"

        def __init__(self, args: ZoneArgs, handle: Handle) -> None: ...

        def filter(self, state, pod, node): ...

Everywhere `None` stands for Success, and an exception is an Error status that names the plugin.
Filter and Score come in a scalar form (one node) and a columnar form (many rows at once); in-tree
plugins have both and they must agree. PreBind, Bind and PostBind may be `async`, and reach the API
only through `Handle.api`; everything else is synchronous and pure.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from scheduler.api.meta import Condition
from scheduler.api.pod import Pod
from scheduler.framework.events import ClusterEventWithHint
from scheduler.framework.node_status import NodeToStatus
from scheduler.framework.nodes import (
    BoolColumn,
    Codes,
    Columns,
    Int64Column,
    NodeInfo,
    NodeTableView,
    Rows,
    TableWithoutVictims,
)
from scheduler.framework.queued import PostFilterOutcome, QueuedPodInfo
from scheduler.framework.state import CycleState
from scheduler.framework.status import Status

MAX_NODE_SCORE = 100
MIN_NODE_SCORE = 0


class Plugin(Protocol):
    """What every plugin has."""

    #: Used in configuration, messages and metrics. Unique within a registry.
    name: ClassVar[str]

    # Two optional attributes, read with getattr so that a plugin without them stays short:
    #   args_type            the msgspec Struct of its arguments (registry.NoArgs when absent)
    #   required_resources   plurals it reads through `Handle.listers`; they are watched


@dataclass(frozen=True, slots=True)
class ReuseRule:
    """What a columnar result depends on besides the pod's signature.

    `ReuseRule()` without arguments is safe for a result that depends on everything a row holds.
    """

    #: Rows that changed in these groups are evaluated again; the others keep their result.
    columns: Columns = Columns.ALL
    #: Named versions (`NodeTableView.version`); when one changed, the whole column is evaluated
    #: again.
    versions: tuple[str, ...] = ()


NEVER: None = None
"""In place of a ReuseRule: evaluate every row for every pod."""


@dataclass(frozen=True, slots=True)
class PreFilterResult:
    """PreFilter succeeded and only the named nodes can do. Unknown names are ignored."""

    node_names: frozenset[str]


class PreEnqueuePlugin(Plugin, Protocol):
    """Holds pods back before they reach the active queue."""

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Success lets the pod in; anything else gates it (no event, no condition is written)."""
        ...


class HoldingPlugin(PreEnqueuePlugin, Protocol):
    """A PreEnqueue plugin that knows by itself which pods it would refuse.

    So an event that many of its gated pods wait for costs nothing for those it cannot help.
    """

    def held(self, changed: object) -> AbstractSet[str]:
        """UIDs of pods whose gate no event about `changed` opens; read at once, and not changed.

        Pods that it gates and that are in here are not asked again because of that event.
        `changed` is the object as it was, or the new one; None where there is none.
        """
        ...


class QueueSortPlugin(Plugin, Protocol):
    """Orders the active queue."""

    def sort_key(self, info: QueuedPodInfo) -> Any:
        """A comparable key; smaller is scheduled first."""
        ...


class PreFilterPlugin(Plugin, Protocol):
    """Prepares for Filter, may narrow the nodes or reject the pod outright."""

    #: True when the outcome and all written state depend on the pod's signature alone.
    pre_filter_reusable: ClassVar[bool] = False

    def pre_filter(
        self, state: CycleState, pod: Pod, table: NodeTableView
    ) -> PreFilterResult | Status | None:
        """None: go on with all nodes. `SKIP`: do not call this plugin's Filter for this pod.

        A `PreFilterResult` narrows the nodes, on top of what other plugins say. A rejection is for
        the whole pod: `unresolvable` at once, `unschedulable` after the other plugins were asked.
        """
        ...


class AsyncPreFilterPlugin(Plugin, Protocol):
    """A PreFilter plugin that asks the outside: it suspends the scheduling cycle.

    Nothing in the cluster changes for the scheduler meanwhile, so it must not wait for that.
    """

    #: Seconds it may take; 5 where it is absent. Later is an Error status.
    timeout: ClassVar[float]

    async def pre_filter(
        self, state: CycleState, pod: Pod, table: NodeTableView
    ) -> PreFilterResult | Status | None:
        """As `PreFilterPlugin.pre_filter`; never reused for other pods."""
        ...


class PreFilterExtensions(Plugin, Protocol):
    """Keeps PreFilter state right in a what-if where a pod is added to or removed from a node."""

    def add_pod(self, state: CycleState, pod: Pod, added: Pod, node: NodeInfo) -> Status | None:
        """Bring what this plugin keeps in `state` up to date: `node` now holds `added` as well.

        Only Success goes on; any other status makes the what-if fail.
        """
        ...

    def remove_pod(
        self, state: CycleState, pod: Pod, removed: Pod, node: NodeInfo
    ) -> Status | None:
        """As `add_pod`, with `removed` gone from `node`."""
        ...


class FilterPlugin(Plugin, Protocol):
    """Says whether a pod can run on a node (scalar form)."""

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """None when the pod can run there, else a rejection with its reasons.

        `unschedulable` where preemption may help, `unresolvable` where it cannot. Any other status,
        or an exception, ends the attempt with an Error. Also called for what-if nodes.
        """
        ...


class ColumnarFilterPlugin(Plugin, Protocol):
    """Says for many rows at once whether a pod can run there."""

    #: `NEVER` (None) or what the codes depend on.
    filter_reuse: ClassVar[ReuseRule | None] = NEVER
    #: For `NEVER`: nothing but the pod, the node table and `required_resources` matters all the
    #: same, so that a preemption in vain need not be repeated before one of them changes.
    filter_depends_only_on_table: ClassVar[bool] = False

    def filter_rows(self, state: CycleState, pod: Pod, table: NodeTableView, rows: Rows) -> Codes:
        """int32 codes, one per entry of `rows`: 0 passes, others are for `filter_status`."""
        ...

    def filter_status(self, state: CycleState, pod: Pod, code: int) -> Status:
        """The rejection that a non-zero code stands for."""
        ...


class PreemptionFilterPlugin(ColumnarFilterPlugin, Protocol):
    """Says for many rows at once whether evictions could help a pod there.

    Worth having for a filter that pods on the node can satisfy or offend in other ways than by the
    resources they use: without it every node that is left is tried out pod by pod.
    """

    def filter_without_victims(
        self, state: CycleState, pod: Pod, table: TableWithoutVictims, rows: Rows
    ) -> Codes:
        """As `filter_rows`, each row without those of its own pods that may be evicted.

        Must equal `filter` after `remove_pod` of these pods, as an exhaustive search would do it:
        0 lets the search go on with the node, any other code rules it out.
        """
        ...

    def removal_sensitive_rows(
        self, state: CycleState, pod: Pod, table: TableWithoutVictims, rows: Rows
    ) -> BoolColumn:
        """Where removing some of the row's pods that may go changes what `remove_pod` keeps.

        For plugins with `remove_pod` only, and optional: elsewhere the node is tried out without
        them. True is always safe.
        """
        ...


class PostFilterPlugin(Plugin, Protocol):
    """Tries to help a pod that fits nowhere."""

    def post_filter(self, state: CycleState, pod: Pod, statuses: NodeToStatus) -> PostFilterResult:
        """Success with a nomination, or a rejection: `unschedulable` lets the next plugin try.

        `statuses` says why each node was turned down. Any other status ends PostFilter.
        """
        ...


class AsyncPostFilterPlugin(Plugin, Protocol):
    """A PostFilter plugin that asks the outside: it suspends the scheduling cycle."""

    #: Seconds it may take; 5 where it is absent. Later is an Error status.
    timeout: ClassVar[float]

    async def post_filter(
        self, state: CycleState, pod: Pod, statuses: NodeToStatus
    ) -> PostFilterResult:
        """As `PostFilterPlugin.post_filter`."""
        ...


class PreScorePlugin(Plugin, Protocol):
    """Prepares for Score with the feasible rows known."""

    #: True when the outcome and all written state depend on the pod's signature alone.
    pre_score_reusable: ClassVar[bool] = False

    def pre_score(
        self, state: CycleState, pod: Pod, table: NodeTableView, feasible: Rows
    ) -> Status | None:
        """None: go on. `SKIP`: do not call this plugin's Score for this pod.

        `feasible` holds the rows that passed every Filter, in no particular order. Any other status
        ends the attempt with an Error.
        """
        ...


class ScorePlugin(Plugin, Protocol):
    """Ranks a feasible node (scalar form); 0 to 100 after normalisation."""

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int | Status:
        """A raw score, higher is better; without `normalize_scores` it must be from 0 to 100.

        A Status, or a final score out of range, ends the attempt with an Error.
        """
        ...


class ColumnarScorePlugin(Plugin, Protocol):
    """Ranks many feasible rows at once."""

    #: `NEVER` (None) or what the raw scores depend on.
    score_reuse: ClassVar[ReuseRule | None] = NEVER

    def score_rows(
        self, state: CycleState, pod: Pod, table: NodeTableView, rows: Rows
    ) -> Int64Column:
        """int64 raw scores, one per entry of `rows`; each as `ScorePlugin.score` gives it."""
        ...


class NormalizeScorePlugin(Plugin, Protocol):
    """Brings raw scores of all feasible nodes into 0 to 100."""

    def normalize_scores(
        self, state: CycleState, pod: Pod, table: NodeTableView, rows: Rows, scores: Int64Column
    ) -> Int64Column | Status:
        """Final int64 scores from 0 to 100, one per entry of `rows`; a Status is an Error.

        A new array (or the unchanged input); `scores` must not be modified.
        """
        ...


class ReservePlugin(Plugin, Protocol):
    """Books resources outside the node table for an assumed pod."""

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Book for `pod`, which is assumed on `node_name`.

        A rejection makes the pod unschedulable, anything else but Success is an Error; both are
        followed by `unreserve` of every Reserve plugin.
        """
        ...

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Undo; called even when `reserve` never ran, so it must be idempotent.

        Plugins are called in reverse order. It cannot fail: an exception is noted and passed over.
        """
        ...


class PermitPlugin(Plugin, Protocol):
    """Lets a pod go on to binding, refuses it, or makes it wait."""

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> tuple[Status | None, float]:
        """A status and, for Wait, the timeout in seconds (at most 15 minutes)."""
        ...


class PreBindPlugin(Plugin, Protocol):
    """Does what must be done before a pod is bound."""

    def pre_bind_pre_flight(
        self, state: CycleState, pod: Pod, node_name: str
    ) -> PreBindPreFlightResult | Status | None:
        """None or a result: PreBind has work to do. `SKIP`: it has none."""
        ...

    def pre_bind(
        self, state: CycleState, pod: Pod, node_name: str
    ) -> Status | Awaitable[Status | None] | None:
        """Do the work; may be `async`. Success lets the pod go on to Bind.

        A rejection makes the pod unschedulable, anything else is an Error; both undo Reserve.
        """
        ...


class BindPlugin(Plugin, Protocol):
    """Binds. Returning SKIP passes the pod to the next Bind plugin."""

    def bind(
        self, state: CycleState, pod: Pod, node_name: str
    ) -> Status | Awaitable[Status | None] | None:
        """Bind `pod` to `node_name`; may be `async`. The first answer other than `SKIP` is final.

        Answer with a failure only when it is certain that the pod is not bound: Reserve is undone
        and the pod is scheduled again.
        """
        ...


class PostBindPlugin(Plugin, Protocol):
    """Is told about a successful binding."""

    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> Awaitable[None] | None:
        """Clean up or take note; may be `async`.

        Nothing can be undone here: an exception is logged.
        """
        ...


class EnqueueExtensions(Plugin, Protocol):
    """Says which events may make a pod that this plugin rejected schedulable."""

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """An empty list: no event can. Called once, at start."""
        ...


class RelaxingPlugin(PreFilterPlugin, Protocol):
    """Asks for more than it needs at first. Not an extension point of upstream."""

    def relax(self, state: CycleState, pod: Pod) -> bool:
        """No node fits: whether to search once more, from PreFilter on, with the same `state`.

        Asked once per attempt, before PostFilter. PreFilter must then ask for less.
        """
        ...


class UnschedulableReasonPlugin(Plugin, Protocol):
    """Knows pods that more nodes would not help. Not an extension point of upstream."""

    def unschedulable_reason(self, pod: Pod) -> tuple[str, str] | None:
        """No node fits, or there is none: what PodScheduled says instead of Unschedulable.

        Reason and message, for a plugin that lets the pod try all the same: autoscalers act on
        Unschedulable alone. Asked when no plugin gave a reason with its rejection.
        """
        ...


class ExplainingPlugin(Plugin, Protocol):
    """Has more to say about a pending pod than its verdicts. Not an extension point of upstream."""

    def explain(self, pod: Pod) -> Sequence[str]:
        """Lines for `kubestow explain`; must change nothing."""
        ...


class PodConditionsPlugin(Plugin, Protocol):
    """Writes pod conditions of its own, without a request of its own.

    Not an extension point of upstream: any plugin of the pod's profile may have the method.
    """

    def pod_conditions(self, pod: Pod, info: QueuedPodInfo) -> Sequence[Condition]:
        """The plugin's conditions as they should be now; types must carry a domain of its own.

        Asked whenever PodScheduled=False is written: after a failed attempt, when `info` holds its
        outcome, and for a pod held at a gate (`info.gated`). They travel in the same PATCH, with
        the pod's UID. If only they have changed, the PATCH is made for them; if nothing has, there
        is none. `pod` is the newest object known. A condition that is not returned stays as it is.
        Transition time and observed generation are filled in.
        """
        ...


@dataclass(frozen=True, slots=True)
class PreBindPreFlightResult:
    """`allow_parallel`: this PreBind may run side by side with its neighbours that say so too."""

    allow_parallel: bool = False


@dataclass(frozen=True, slots=True)
class NominatingInfo:
    """What to do with the pod's nomination: None in place of it leaves the nomination alone.

    An empty `node_name` clears it.
    """

    node_name: str = ""


CLEAR_NOMINATION = NominatingInfo("")


@dataclass(frozen=True, slots=True)
class PostFilterResult:
    """A PostFilter's answer: Success means the pod may fit later on the nominated node."""

    status: Status | None
    nominating: NominatingInfo | None = None
    #: How it ended, for plugins that react to it; None: to be told from the status.
    outcome: PostFilterOutcome | None = None


PluginFactory = Any
"""A plugin class, or any callable `(args, handle) -> plugin`; has `name`, maybe `args_type`."""
