"""One pod: its state, the results of all nodes for it, and what would wake it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from scheduler.explain.records.queue import PodView
from scheduler.explain.records.scores import NodeScore
from scheduler.explain.records.shown import Shown


@dataclass(frozen=True, slots=True)
class Rejection:
    """Nodes that one plugin rejected for the same reasons."""

    plugin: str
    #: `Unschedulable`, `UnschedulableAndUnresolvable` (preemption cannot help) or `Pending`.
    status: str
    reasons: tuple[str, ...]
    #: How many nodes.
    nodes: int
    #: Names of a few of them.
    examples: tuple[str, ...]
    #: They would fit without the pods that are nominated to them.
    only_nominated: bool = False
    #: Numbers behind the reasons, where the plugin knows them.
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Examination:
    """The results of all nodes: each is feasible or counted in exactly one of `rejections`."""

    nodes: int
    feasible: int
    #: The largest group first.
    rejections: tuple[Rejection, ...] = ()
    #: The best feasible nodes, best first, by name among equals.
    best: tuple[NodeScore, ...] = ()
    #: How many nodes share the highest total: the profile's `tieBreaking` picks one of them.
    tied: int = 0
    #: The weight of each Score plugin that ran.
    weights: dict[str, int] = field(default_factory=dict)
    #: Filter and Score plugins that skipped this pod.
    skipped_filters: tuple[str, ...] = ()
    skipped_scores: tuple[str, ...] = ()
    #: A plugin failed: an attempt would end with this error. What came before it is still here.
    error: str = ""
    error_plugin: str = ""
    #: Differences between this examination and a cycle.
    notes: tuple[str, ...] = ()
    #: Further explanations of plugins (`ExplainingPlugin`), by plugin.
    explanations: dict[str, tuple[str, ...]] = field(default_factory=dict)
    #: Nodes with pods of lower priority among those where evictions might help; None: not known.
    evictable: int | None = None
    #: Why no node would fit either without the plugins in `rejections`; empty if one would.
    otherwise: tuple[Rejection, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeCheck:
    """The result of one Filter plugin for one node, whatever the others say."""

    plugin: str
    status: str
    """`Success`, or a status as in `Rejection`."""
    reasons: tuple[str, ...] = ()
    detail: str = ""
    """Numbers behind the reasons, where the plugin knows them."""


@dataclass(frozen=True, slots=True)
class ResourceRoom:
    """One resource that the pod requests, on one node. CPU in cores, storage in bytes."""

    resource: str
    requested: float
    """By the pod."""
    free: float
    """Negative if the pods of the node request more than it has."""
    allocatable: float


@dataclass(frozen=True, slots=True)
class NodeReport:
    """Everything about one node for one pod, as of now. Of a bound pod: for a copy of it."""

    node: str
    fits: bool
    checks: tuple[NodeCheck, ...]
    """Of every Filter plugin that does not skip the pod."""
    room: tuple[ResourceRoom, ...] = ()
    score: NodeScore | None = None
    """None if the node does not fit."""
    rank: int = 0
    """1 for the highest total of the nodes that fit; 0 if the node does not."""
    feasible: int = 0
    """Nodes that fit."""


@dataclass(frozen=True, slots=True)
class Awaited:
    """Cluster events on which one plugin that holds the pod is asked again."""

    plugin: str
    events: tuple[str, ...]
    """Labels, as in `PodView.last_event`."""


class PodState(StrEnum):
    """The state of a pod on its way to a node."""

    BOUND = "bound"
    #: A node was chosen; the API server has not confirmed it yet.
    BINDING = "binding"
    #: A node was chosen; a Permit plugin makes the pod wait.
    WAITING_AT_PERMIT = "waiting-at-permit"
    #: In a sub-queue or in flight: see `queue.place`.
    QUEUED = "queued"
    #: Its schedulerName is not one of our profiles.
    NOT_OURS = "not-ours"
    #: It is being deleted before it was bound: it will not be scheduled.
    TERMINATING = "terminating"
    #: It is ours and pending, but in no queue: only for the moment between two events.
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, repr=False)
class PodExplanation(Shown):
    """The explanation of one pod."""

    namespace: str
    name: str
    uid: str
    profile: str
    """`spec.schedulerName`."""
    priority: int
    state: PodState
    summary: str
    """The explanation in one or two sentences."""
    now: float
    """Wall clock seconds of the explanation; times below compare with it."""
    node: str = ""
    """The node of the pod, bound or chosen."""
    since: str = ""
    """RFC 3339 time when it was bound."""
    queue: PodView | None = None
    nodes: Examination | None = None
    """The results of all nodes; None for pods that need none."""
    awaits: tuple[Awaited, ...] = ()
    """What would wake the pod."""
    report: NodeReport | None = None
    """About the node that was asked for."""
    examined_by: str = ""
    """The profile that examined a pod of another scheduler, as if the pod named that profile."""

    def _lines(self) -> Sequence[str]:
        first, *others = str(self).splitlines()
        return [f"{first}: {others[0] if others else self.summary}", *others[1:]]

    def __str__(self) -> str:
        """Return the explanation in sentences, as `kubestow explain` begins."""
        from scheduler.explain.records.story import tell  # noqa: PLC0415 - it imports this module

        return "\n".join([f"{self.namespace}/{self.name}", *tell(self)])
