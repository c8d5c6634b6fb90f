"""The nodes and pods of the demo's cluster: usage, pace, latency, and the news about them.

Fed with every write that the embedded API server stores, in order, so it sees what a watching
client would see and needs nothing of the scheduler. A node whose capacity is exceeded is a fault
the moment it happens.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgspec

from scheduler.api import Node, Pod
from scheduler.api.requests import Resources, assigned_requests, node_allocatable
from simulator.demos.board import Board
from simulator.demos.morning.waits import WaitGroup, headline, wait_groups, waiting_reason
from simulator.store import StoreChange

ZONE: Final = "topology.kubernetes.io/zone"
POOL: Final = "example.com/pool"
_FINISHED: Final = ("Succeeded", "Failed")
MERGE_SECONDS: Final = 1.5
"""Placements of one workload within so much time are one line of news."""
PACE_SECONDS: Final = 0.5
_BINDS: Final = 20_000
_APP: Final = "app"


class Share(NamedTuple):
    """Used part of one resource."""

    used: int
    allocatable: int

    @property
    def fraction(self) -> float:
        """0.0 to 1.0, more when overcommitted; 0 where there is none of it."""
        return self.used / self.allocatable if self.allocatable else 0.0


@dataclass(slots=True)
class Usage:
    """The sum of what the pods on a node request."""

    milli_cpu: int = 0
    memory: int = 0
    pods: int = 0
    scalars: Counter[str] = field(default_factory=Counter)

    def add(self, requests: Resources, sign: int) -> None:
        """Count a pod in (+1) or out (-1)."""
        self.milli_cpu += sign * requests.milli_cpu
        self.memory += sign * requests.memory
        self.pods += sign
        for name, count in requests.scalars:
            self.scalars[name] += sign * count


@dataclass(slots=True)
class NodeLine:
    """A node and its usage."""

    name: str
    zone: str
    pool: str
    cordoned: bool
    allocatable: Resources
    max_pods: int
    usage: Usage

    @property
    def cpu(self) -> Share:
        """Millicores."""
        return Share(self.usage.milli_cpu, self.allocatable.milli_cpu)

    @property
    def memory(self) -> Share:
        """Bytes."""
        return Share(self.usage.memory, self.allocatable.memory)

    @property
    def devices(self) -> Share:
        """Extended resources of all kinds, GPUs in the demo."""
        names = [name for name, _ in self.allocatable.scalars]
        return Share(
            sum(self.usage.scalars[name] for name in names),
            sum(count for _, count in self.allocatable.scalars),
        )

    def overcommitted(self) -> str:
        """Return the resources whose capacity is exceeded, as text; empty for none."""
        shares = {"cpu": self.cpu, "memory": self.memory}
        shares["pods"] = Share(self.usage.pods, self.max_pods)
        for name, used in self.usage.scalars.items():
            shares[name] = Share(used, self.allocatable.scalar(name))
        return ", ".join(
            f"{name} {share.used} of {share.allocatable}"
            for name, share in shares.items()
            if share.used > share.allocatable
        )


class _SeenPod(NamedTuple):
    pod: Pod
    node: str
    """The node it takes room on; empty before it is bound and after it ended."""
    requests: Resources
    seen: float


class ClusterBoard(Board):
    """A board that also counts what is on the nodes of a cluster."""

    def __init__(self, scheduler_name: str, clock: Callable[[], float]) -> None:
        super().__init__(clock, merge_seconds=MERGE_SECONDS)
        self._scheduler = scheduler_name
        self._nodes: dict[str, NodeLine] = {}
        self._usage: dict[str, Usage] = {}
        self._pods: dict[str, _SeenPod] = {}
        self._binds: deque[float] = deque(maxlen=_BINDS)
        self._latencies: deque[float] = deque(maxlen=_BINDS)
        self.bound = 0

    # -- observing ---------------------------------------------------------------------------------

    def observe(self, table: str, change: StoreChange) -> None:
        """Count a write to the store of `nodes` or `pods`; a subscriber of the store."""
        deleted = change.type == "DELETED"
        if table == "pods":
            self._pod(msgspec.json.decode(change.version.encoded(), type=Pod), deleted)
        elif table == "nodes":
            self._node(msgspec.json.decode(change.version.encoded(), type=Node), deleted)
        else:
            return
        self.notify()

    def _node(self, node: Node, deleted: bool) -> None:
        if deleted:
            self._nodes.pop(node.name, None)
            return
        allocatable, max_pods = node_allocatable(node)
        self._nodes[node.name] = NodeLine(
            node.name,
            node.metadata.labels.get(ZONE, "no zone"),
            node.metadata.labels.get(POOL, ""),
            node.spec.unschedulable,
            allocatable,
            max_pods,
            self._usage.setdefault(node.name, Usage()),
        )

    def _pod(self, pod: Pod, deleted: bool) -> None:
        before = self._pods.get(pod.uid)
        now = self.elapsed()
        if before is not None and before.node:
            self._usage[before.node].add(before.requests, -1)
        if before is not None and before.pod.spec.node_name and self._ours(pod):
            self.bound -= 1
        if deleted:
            self._pods.pop(pod.uid, None)
            return
        ended = pod.status.phase in _FINISHED
        node = "" if ended else pod.spec.node_name
        seen = now if before is None else before.seen
        held = self._pods[pod.uid] = _SeenPod(pod, node, assigned_requests(pod), seen)
        if node:
            usage = self._usage.setdefault(node, Usage())
            usage.add(held.requests, +1)
        if not self._ours(pod):
            return
        if pod.spec.node_name:
            self.bound += 1
            if before is None or not before.pod.spec.node_name:
                self._placed(pod, before, now)
        elif before is not None and waiting_reason(pod)[0] != waiting_reason(before.pod)[0]:
            reason, _ = headline(pod)
            self.add("waits", f"{pod.metadata.name}: {reason}")

    def _ours(self, pod: Pod) -> bool:
        return pod.spec.scheduler_name == self._scheduler

    def _placed(self, pod: Pod, before: _SeenPod | None, now: float) -> None:
        self._binds.append(now)
        if before is not None and not waiting_reason(before.pod)[0]:
            self._latencies.append(now - before.seen)
        node = self._nodes.get(pod.spec.node_name)
        problem = "does not exist" if node is None else node.overcommitted()
        if problem:
            self.fault(f"{pod.key} was bound to {pod.spec.node_name}: {problem}")
        self._add_placement(pod)

    def _add_placement(self, pod: Pod) -> None:
        workload = f"{pod.metadata.namespace}/{pod.metadata.labels.get(_APP, pod.metadata.name)}"
        node = pod.spec.node_name
        line = self.line_to_join("placed", workload)
        if line is None:
            line = self.add("placed", f"{pod.metadata.name} on {node}", workload)
            line.members[node] = None
            return
        line.count += 1
        line.members[node] = None
        where = f"{len(line.members)} nodes" if len(line.members) > 1 else node
        line.text = f"{line.count} pods of {workload} on {where}"

    # -- state -------------------------------------------------------------------------------------

    @property
    def nodes(self) -> list[NodeLine]:
        """Return all nodes in the order of their creation."""
        return [*self._nodes.values()]

    def zones(self) -> dict[str, list[NodeLine]]:
        """Return nodes by zone: zones by name, nodes by pool and name."""
        zones: dict[str, list[NodeLine]] = {}
        order: dict[str, int] = {}
        for node in self._nodes.values():
            order.setdefault(node.pool, len(order))
            zones.setdefault(node.zone, []).append(node)
        for nodes in zones.values():
            nodes.sort(key=lambda node: (order[node.pool], node.name))
        return dict(sorted(zones.items()))

    def _own(self) -> Iterator[Pod]:
        return (held.pod for held in self._pods.values() if self._ours(held.pod))

    @property
    def pods(self) -> int:
        """Pods of our scheduler that exist, finished ones included."""
        return sum(1 for _ in self._own())

    def find(self, name: str) -> Pod | None:
        """Return our pod of that name, in whatever namespace."""
        return next((pod for pod in self._own() if pod.metadata.name == name), None)

    def is_bound(self, name: str) -> bool:
        """Whether our pod of that name has a node."""
        pod = self.find(name)
        return pod is not None and bool(pod.spec.node_name)

    def is_rejected(self, name: str) -> bool:
        """Whether our pod of that name waits and its condition gives the reason."""
        pod = self.find(name)
        return pod is not None and not pod.spec.node_name and bool(waiting_reason(pod)[0])

    def waiting(self) -> list[Pod]:
        """Return our pods without a node, in the order of creation."""
        return [pod for pod in self._own() if not pod.spec.node_name]

    def waits(self) -> list[WaitGroup]:
        """Return waiting pods by reason."""
        return wait_groups(self.waiting())

    def rate(self, window: float = 1.0) -> float:
        """Return pods bound per second during the last `window` seconds."""
        since = self.elapsed() - window
        return sum(1 for at in reversed(self._binds) if at > since) / window

    def pace(self, buckets: int, width: float = PACE_SECONDS) -> list[int]:
        """Return pods bound in each of the last `buckets` spans of `width` s, oldest first."""
        newest = int(self.elapsed() / width)
        counts = Counter(newest - int(at / width) for at in self._binds)
        return [counts[age] for age in range(buckets - 1, -1, -1)]

    def latency(self, quantile: float) -> float | None:
        """Return seconds from creation to binding of pods that never waited, None without any."""
        if not self._latencies:
            return None
        ordered = sorted(self._latencies)
        return ordered[min(len(ordered) - 1, int(quantile * len(ordered)))]
