"""The record of one decision, as `/debug/decisions` and bundles have it.

Field names are the JSON keys, and the values of `DecisionResult` stable codes. Times are wall clock
seconds, durations seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

from scheduler.explain.records.page import DebugPage
from scheduler.explain.records.scores import NodeScore
from scheduler.explain.records.shown import Shown


class DecisionResult(StrEnum):
    """The end of an attempt."""

    #: A node was chosen. `Decision.bound` tells whether the API server has the binding already.
    PLACED = "placed"
    #: Rejected: by all nodes, at Reserve or Permit, or by a plugin that binds.
    UNSCHEDULABLE = "unschedulable"
    #: A plugin, an extender, the API server or the scheduler failed.
    ERROR = "error"
    #: No attempt: a PreEnqueue plugin keeps the pod from the queue.
    GATED = "gated"
    #: The pod was deleted, replaced or bound by another scheduler before the attempt had ended.
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True)
class RejectionCount:
    """Nodes that one plugin rejected for the same reason."""

    plugin: str
    status: str
    """`Unschedulable`, `UnschedulableAndUnresolvable` (preemption cannot help) or `Pending`."""
    reason: str
    """The reasons of the status, joined with ", "."""
    nodes: int
    """How many; 1 where Reserve, Permit or a later step rejected the chosen node."""
    detail: str = ""
    """Numbers behind the reason, where the plugin knows them."""


@dataclass(frozen=True, slots=True, repr=False)
class Decision(Shown):
    """One attempt at one pod, from the pop to its outcome; or that a pod was gated."""

    seq: int
    """Increases over all pods from 1; that of an attempt stays when its binding ends."""
    pod: str
    """`namespace/name`."""
    uid: str
    profile: str
    """`spec.schedulerName`."""
    attempt: int
    """1 for the first; of a gated pod the number of attempts before."""
    time: float
    """When the pod was popped, or gated."""
    queue: str
    """The sub-queue that the pod was popped from: `active` or `backoff`; empty for a gated one."""
    event: str
    """Label of the event that moved the pod there; empty when unknown."""
    hint_plugin: str
    """The plugin whose hint decided that move; empty when none did."""
    result: DecisionResult
    node: str
    """The chosen node, also of an attempt that failed after the choice; empty for none."""
    message: str
    """Why the attempt failed, or why the pod is gated: the beginning of the condition's text."""
    nodes: int
    """Nodes in the cluster."""
    evaluated: int
    """Nodes that the search looked at."""
    feasible: int
    """The part of `evaluated` that the pod fits on."""
    rejections: tuple[RejectionCount, ...] = ()
    """The largest first. Of a placed pod they are not kept."""
    best: tuple[NodeScore, ...] = ()
    """The chosen node and the best others, at most 5, best first; empty when nothing was scored."""
    victims: tuple[str, ...] = ()
    """`namespace/name` of the pods that preemption chose to evict."""
    nominated_node: str = ""
    """The node that preemption made room on."""
    phases: Mapping[str, float] = field(default_factory=dict)
    """Durations by phase: `queued`, and those of `prefilter`, `filter`, `postfilter`, `prescore`,
    `score`, `reserve`, `permit`, `prebind` and `bind` that ran."""
    bound: float = 0.0
    """When the API server had accepted the binding; 0 while it has not."""

    @property
    def score(self) -> int | None:
        """The total of the chosen node; None when nothing was scored."""
        return next((each.total for each in self.best if each.node == self.node), None)

    @property
    def seconds(self) -> float:
        """From the pop to the binding; 0 while there is none."""
        return self.bound - self.time if self.bound else 0.0

    def _lines(self) -> Sequence[str]:
        end = f"on {self.node}" if self.node and not self.message else self.message.split(". ")[0]
        return [f"attempt {self.attempt} of {self.pod}: {self.result}, {end}"]

    def _cells(self) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
        if self.best:
            return ("node", "total"), [(each.node, str(each.total)) for each in self.best]
        rows = [
            (str(each.nodes), each.plugin, each.reason, each.detail) for each in self.rejections
        ]
        return ("nodes", "plugin", "reason", "detail"), rows


class DecisionList(DebugPage, frozen=True, tag="DecisionList"):
    """`/debug/decisions`."""

    now: float
    leading: bool
    """False on a replica that stands by: it decides nothing."""
    last_seq: int = msgspec.field(name="lastSeq")
    """The number of the last decision of this process; the next page begins behind it."""
    remembered_pods: int = msgspec.field(name="rememberedPods")
    """Pods that decisions are remembered of; 0 also where `kubestow.decisionHistory` is off."""
    decisions: tuple[Decision, ...]
    """The oldest first."""
