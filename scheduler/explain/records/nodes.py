"""Nodes, and the pods on them (`/debug/nodes` and `/debug/node`)."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.explain.records.page import DebugPage


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A node in a list."""

    name: str
    zone: str
    unschedulable: bool
    taints: int
    """How many."""
    pods: int
    """Bound and assumed."""
    requested: list[float]
    """In the order of `NodeList.resources`."""
    allocatable: list[float]
    pool: str = ""
    """Of the node label of Karpenter, GKE, EKS or AKS that names it; empty without such a label."""


class NodeList(DebugPage, frozen=True, tag="NodeList"):
    """`/debug/nodes`. Amounts of `cpu` are in cores, of other native resources in bytes."""

    now: float
    leading: bool
    total: int
    resources: list[str]
    """Native resources, `pods`, then the most widespread extended resources."""
    nodes: list[NodeRow]
    next: int | None
    """The value of `?from=` that continues the list; None at its end."""


@dataclass(frozen=True, slots=True)
class PodOnNode:
    """A pod that is bound, assumed or nominated to a node."""

    namespace: str
    name: str
    uid: str
    profile: str
    """`spec.schedulerName`."""
    priority: int
    state: str
    """`bound`, `assumed` (chosen, not yet confirmed) or `nominated` (waits for room)."""
    requests: dict[str, float]


class NodePage(DebugPage, frozen=True, tag="Node"):
    """`/debug/node`. Amounts as in `NodeList`."""

    now: float
    leading: bool
    name: str
    zone: str
    unschedulable: bool
    taints: list[str]
    labels: dict[str, str]
    allocatable: dict[str, float]
    requested: dict[str, float]
    pods_total: int
    pods: list[PodOnNode]
    """At most `?pods=`, the highest priority first; nominated ones last."""
