"""Would this pod fit there? The strict scheduling rules as an autoscaler simulates them.

Looked at: resources and number of pods, cordon and taints, node selector and required node
affinity, and `DoNotSchedule` spread constraints. Nothing else: a pod that is held up by anything
else fits here, and the autoscaler keeps quiet about it, as a real one does about pods it thinks
schedulable.
Reasons are those that kube-scheduler's plugins give. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from scheduler.api import (
    IN,
    TAINT_NODE_UNSCHEDULABLE,
    CompiledLabelSelector,
    Node,
    Pod,
    RequiredNodeAffinity,
    Requirement,
    Resources,
    Taint,
    TopologySpreadConstraint,
    assigned_requests,
    compile_label_selector,
    compile_required_node_affinity,
    first_untolerated,
    incoming_requests,
    node_allocatable,
)

AFFINITY: Final = "node(s) didn't match Pod's node affinity/selector"
SPREAD: Final = "node(s) didn't match pod topology spread constraints"
SPREAD_LABEL: Final = f"{SPREAD} (missing required label)"
UNSCHEDULABLE: Final = "node(s) were unschedulable"
TAINT: Final = "node(s) had untolerated taint(s)"


@dataclass(frozen=True, slots=True)
class Spread:
    """One hard spread constraint."""

    key: str
    max_skew: int
    selector: CompiledLabelSelector
    min_domains: int
    honor_affinity: bool
    honor_taints: bool


class Candidate:
    """A pod without a node, compiled. Raises `SelectorError`, `QuantityError` for bad pods.

    `relaxed` are topology keys whose hard constraints do not count.
    """

    __slots__ = ("affinity", "amounts", "pod", "spreads")

    def __init__(self, pod: Pod, relaxed: Collection[str] = ()) -> None:
        spec = pod.spec
        self.pod = pod
        self.amounts = _amounts(incoming_requests(pod))
        node_affinity = spec.affinity.node_affinity if spec.affinity else None
        required = node_affinity.required if node_affinity else None
        self.affinity: RequiredNodeAffinity = compile_required_node_affinity(
            spec.node_selector, required
        )
        self.spreads = [
            _spread(each, pod)
            for each in spec.topology_spread_constraints
            if each.when_unsatisfiable == "DoNotSchedule" and each.topology_key not in relaxed
        ]


def _spread(constraint: TopologySpreadConstraint, pod: Pod) -> Spread:
    selector = compile_label_selector(constraint.label_selector)
    labels = pod.metadata.labels
    selector = selector.also(
        Requirement(key, IN, (labels[key],)) for key in constraint.match_label_keys if key in labels
    )
    return Spread(
        constraint.topology_key,
        constraint.max_skew,
        selector,
        constraint.min_domains or 1,
        constraint.node_affinity_policy != "Ignore",
        constraint.node_taints_policy == "Honor",
    )


def _amounts(resources: Resources) -> dict[str, int]:
    named = {
        "cpu": resources.milli_cpu,
        "memory": resources.memory,
        "ephemeral-storage": resources.ephemeral_storage,
    }
    return {name: amount for name, amount in {**named, **dict(resources.scalars)}.items() if amount}


@dataclass(slots=True)
class SimNode:
    """A node, and what is still free on it."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    free: dict[str, int]
    room: int
    """Pods it still takes."""
    pods: list[tuple[str, Mapping[str, str]]] = field(default_factory=list)
    """(namespace, labels) of each pod on it that is not going away."""
    group: str = ""
    """The group of a node that does not exist yet."""

    @classmethod
    def of(cls, node: Node) -> SimNode:
        """Build from a node that exists. Raises `QuantityError`."""
        resources, room = node_allocatable(node)
        taints = node.spec.taints
        if node.spec.unschedulable:
            taints = (*taints, Taint(key=TAINT_NODE_UNSCHEDULABLE, effect="NoSchedule"))
        return cls(node.name, node.metadata.labels, taints, _amounts(resources), room)

    def take(self, amounts: Mapping[str, int], pod: Pod) -> None:
        """Place a pod here, whether it fits or not."""
        for name, amount in amounts.items():
            self.free[name] = self.free.get(name, 0) - amount
        self.room -= 1
        if not pod.terminating:
            self.pods.append((pod.metadata.namespace, pod.metadata.labels))

    def copy(self) -> SimNode:
        """Return an independent copy."""
        return SimNode(
            self.name,
            self.labels,
            self.taints,
            dict(self.free),
            self.room,
            list(self.pods),
            self.group,
        )


class AutoscalerWorld:
    """Nodes, those that exist and those that are only thought of, with the pods on them."""

    def __init__(self, nodes: Iterable[SimNode]) -> None:
        self.nodes = {node.name: node for node in nodes}

    def copy(self) -> AutoscalerWorld:
        """Return an independent copy."""
        return AutoscalerWorld(node.copy() for node in self.nodes.values())

    def occupy(self, node: str, pod: Pod) -> None:
        """Add a pod that has a node. Raises `QuantityError`."""
        found = self.nodes.get(node)
        if found is not None:
            found.take(_amounts(assigned_requests(pod)), pod)

    def place(self, candidate: Candidate) -> SimNode | None:
        """Put the pod on the first node that takes it; None if none does."""
        for node in self.nodes.values():
            if self.reason_against(candidate, node) is None:
                node.take(candidate.amounts, candidate.pod)
                return node
        return None

    def reason_against(self, candidate: Candidate, node: SimNode) -> str | None:
        """Return the reason why the pod does not fit there; None if it fits."""
        if not candidate.affinity.matches(node.labels, node.name):
            return AFFINITY
        taint = first_untolerated(node.taints, candidate.pod.spec.tolerations)
        if taint is not None:
            return UNSCHEDULABLE if taint.key == TAINT_NODE_UNSCHEDULABLE else TAINT
        if node.room < 1:
            return "Too many pods"
        for name, amount in candidate.amounts.items():
            if amount > node.free.get(name, 0):
                return f"Insufficient {name}"
        return self._spread_reason(candidate, node)

    def _spread_reason(self, candidate: Candidate, node: SimNode) -> str | None:
        spreads = candidate.spreads
        if any(spread.key not in node.labels for spread in spreads):
            return SPREAD_LABEL
        keys = [spread.key for spread in spreads]
        for spread in spreads:
            counts = self._counts(candidate, spread, keys)
            own = spread.selector.matches(candidate.pod.metadata.labels)
            least = min(counts.values(), default=0) if len(counts) >= spread.min_domains else 0
            if counts[node.labels[spread.key]] + own - least > spread.max_skew:
                return SPREAD
        return None

    def _counts(self, candidate: Candidate, spread: Spread, keys: list[str]) -> Counter[str]:
        """Count matching pods by domain, on nodes that have every hard key."""
        counts: Counter[str] = Counter()
        namespace = candidate.pod.metadata.namespace
        tolerations = candidate.pod.spec.tolerations
        for node in self.nodes.values():
            if any(key not in node.labels for key in keys):
                continue
            if spread.honor_affinity and not candidate.affinity.matches(node.labels, node.name):
                continue
            if spread.honor_taints and first_untolerated(node.taints, tolerations):
                continue
            counts[node.labels[spread.key]] += sum(
                1
                for where, labels in node.pods
                if where == namespace and spread.selector.matches(labels)
            )
        return counts


@dataclass(slots=True)
class Estimate:
    """Effect of scaling up one group."""

    nodes: int = 0
    """New nodes that the pods need."""
    pods: list[Candidate] = field(default_factory=list)
    """Pods that would fit on the new nodes, alone or together."""
    homes: dict[str, int] = field(default_factory=dict)
    """Which of the new nodes each of them is put on, by UID."""
    rejected: dict[str, str] = field(default_factory=dict)
    """Why a new node would not help, by UID of the pod."""


def estimate(
    world: AutoscalerWorld, waiting: Iterable[Candidate], template: SimNode, most: int
) -> Estimate:
    """Pack pods onto up to `most` new nodes like `template`, in order, first fit."""
    trial = world.copy()
    found = Estimate()
    new: list[SimNode] = []
    for candidate in waiting:
        home = next((node for node in new if trial.reason_against(candidate, node) is None), None)
        if home is None:
            if len(new) >= most:
                continue
            home = template.copy()
            home.name = f"{template.name}-{len(new)}"
            home.labels = {**template.labels, "kubernetes.io/hostname": home.name}
            trial.nodes[home.name] = home
            reason = trial.reason_against(candidate, home)
            if reason is not None:
                del trial.nodes[home.name]
                found.rejected[candidate.pod.uid] = reason
                continue
            new.append(home)
        home.take(candidate.amounts, candidate.pod)
        found.pods.append(candidate)
        found.homes[candidate.pod.uid] = new.index(home)
    found.nodes = len(new)
    return found
