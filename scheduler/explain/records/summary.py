"""The whole scheduler on one screen: counts, rates, and the extremes (`/debug/summary`)."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.explain.records.page import DebugPage
from scheduler.explain.records.queue import PodView, QueueStatistics


@dataclass(frozen=True, slots=True)
class Rates:
    """Attempts a second, lately."""

    seconds: float
    """The time that the rates are an average of; 0 shortly after the start, without rates."""
    attempts: dict[str, float]
    """By result: `scheduled`, `unschedulable`, `error`."""


@dataclass(frozen=True, slots=True)
class ResourceUse:
    """The sum of one resource over all nodes."""

    resource: str
    requested: float
    """Of `cpu` in cores, of other native resources in bytes; by bound and assumed pods."""
    allocatable: float


@dataclass(frozen=True, slots=True)
class NodeFill:
    """One node, and the share of its fullest resource that is requested."""

    node: str
    percent: int
    """Of the fullest resource; above 100 if the node shrank under its pods."""
    resource: str
    """The fullest resource."""
    pods: int
    unschedulable: bool
    """`spec.unschedulable`, as `kubectl cordon` sets it."""


@dataclass(frozen=True, slots=True)
class Placement:
    """A pod that got a node lately."""

    time: float
    """When the pod was popped."""
    pod: str
    """`namespace/name`."""
    node: str
    attempt: int
    """1 for the first."""
    score: int | None
    """The total of the node; None when nothing was scored."""
    seconds: float
    """From the pop to the binding; 0 while it is under way."""


@dataclass(frozen=True, slots=True)
class Moment:
    """The state at one moment of the past."""

    time: float
    waiting: int
    """Pods that waited."""
    placed: int
    """Pods placed since the moment before."""
    failed: int
    """Attempts since then that found no node, or ended in an error."""


class SummaryPage(DebugPage, frozen=True, tag="Summary"):
    """`/debug/summary`."""

    now: float
    leading: bool
    """False on a replica that stands by: it schedules nothing."""
    started: float
    """When this process began to serve."""
    queue: QueueStatistics
    attempts: dict[str, int]
    """Attempts since the start, by result. A restart, another leader and `DELETE /metrics` begin
    anew."""
    rates: Rates
    nodes: int
    pods: int
    """Bound and assumed."""
    assumed_pods: int
    """The part of `pods` whose binding is not confirmed."""
    resources: list[ResourceUse]
    """Native resources, then the most widespread extended ones."""
    fill: list[int]
    """Numbers of nodes by the percentage of their fullest resource: 0 to 9, 10 to 19, ..., 90 to
    99, and 100 or more."""
    fullest: list[NodeFill]
    """The fullest nodes, fullest first."""
    oldest: list[PodView]
    """The pods that have waited longest, longest first."""
    placed: list[Placement]
    """The last placements, newest first; empty where decisions are not remembered."""
    timeline: list[Moment] = []
    """Moments of the last half hour, at most 120, the oldest first."""
