"""The debug pages about nodes: `/debug/nodes` and `/debug/node`.

The page of `kubestow ui` shows the records. They are built on the event loop between cycles, so a
response shows one consistent state. Every response is bounded: nodes come in chunks with a cursor,
with the most widespread extended resources and a limited number of pods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import nsmallest
from typing import Final

import numpy as np

from scheduler.api.pod import Pod
from scheduler.api.requests import Resources
from scheduler.cache import Cache, NodeTable
from scheduler.explain.pages.query_numbers import number_in
from scheduler.explain.records import NodeList, NodePage, NodeRow, PodOnNode
from scheduler.framework import Clock, Rows

MILLI: Final = 1000
ZONE_LABEL: Final = "topology.kubernetes.io/zone"
POOL_LABELS: Final = (
    "karpenter.sh/nodepool",
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "kubernetes.azure.com/agentpool",
)

DEFAULT_NODES: Final = 500
MAX_NODES: Final = 500
"""Maximum number in one response, which then takes 5 ms to build (`benchmarks/pages.py`)."""
MAX_EXTENDED_RESOURCES: Final = 8
DEFAULT_PODS: Final = 200
MAX_PODS: Final = 1_000
MAX_LABELS: Final = 100
"""Maximum number of labels, of taints and of extended resources shown for a node."""

NATIVE: Final = ("cpu", "memory", "ephemeral-storage")
"""Names of the first rows of `NodeTable.allocatable`, in order; cpu is in thousandths there."""


class NodePages:
    """Both pages of one process."""

    def __init__(
        self,
        cache: Cache,
        nominated: Callable[[str], Iterable[Pod]],
        *,
        clock: Clock,
        leading: Callable[[], bool],
    ) -> None:
        """Serve the nodes of a cache; `nominated` returns the pods nominated to a node."""
        self._cache = cache
        self._nominated = nominated
        self._clock = clock
        self._leading = leading

    def nodes(self, query: Mapping[str, str]) -> NodeList:
        """Return nodes in a stable order: `?limit=` of them, from the cursor `?from=` on.

        Raises:
            ValueError: a number is out of range.
        """
        table = self._cache.table
        first = number_in(query, "from", 0, 0, 10**8)
        limit = number_in(query, "limit", DEFAULT_NODES, 1, MAX_NODES)
        rows = table.rows[np.searchsorted(table.rows, first) :]
        rows, rest = rows[:limit], rows[limit:]
        extended = table.scalar_allocatable.most_widespread(MAX_EXTENDED_RESOURCES)
        return NodeList(
            now=self._clock.now(),
            leading=self._leading(),
            total=table.node_count,
            resources=[*NATIVE, "pods", *extended],
            nodes=list(_node_rows(table, rows, extended)),
            next=int(rest[0]) if len(rest) else None,
        )

    def node(self, query: Mapping[str, str]) -> NodePage:
        """Return one node and its pods: `?name=`, `?pods=`.

        Raises:
            LookupError: there is no such node.
            ValueError: the query names none, or a number is out of range.
        """
        name = query.get("name", "")
        limit = number_in(query, "pods", DEFAULT_PODS, 0, MAX_PODS)
        if not name:
            raise ValueError("say which node: /debug/node?name=NAME")
        table = self._cache.table
        row = table.row_of(name)
        if row is None:
            raise LookupError(f'no node "{name[:260]}": it does not exist, or no longer')
        info = table.node_info(row)
        taints = sorted(f"{each.key}={each.value}:{each.effect}" for each in info.taints)
        return NodePage(
            now=self._clock.now(),
            leading=self._leading(),
            name=name,
            zone=info.labels.get(ZONE_LABEL, ""),
            unschedulable=info.unschedulable,
            taints=taints[:MAX_LABELS],
            labels=dict(sorted(info.labels.items())[:MAX_LABELS]),
            allocatable={**_amounts(info.allocatable), "pods": info.allowed_pod_number},
            requested={**_amounts(info.requested), "pods": info.pod_count},
            pods_total=info.pod_count,
            pods=list(self._pods(name, info.pods, limit)),
        )

    def _pods(self, node: str, pods: Iterable[Pod], limit: int) -> Iterator[PodOnNode]:
        for pod in nsmallest(limit, pods, key=lambda pod: (-pod.priority, pod.key)):
            assumed = self._cache.is_assumed(pod.metadata.uid)
            yield _pod_on_node(pod, "assumed" if assumed else "bound")
        for pod in nsmallest(limit, self._nominated(node), key=lambda pod: pod.key):
            yield _pod_on_node(pod, "nominated")


def _node_rows(table: NodeTable, rows: Rows, extended: list[str]) -> Iterator[NodeRow]:
    native = slice(0, len(NATIVE))
    requested = np.vstack(
        [
            table.requested[native, rows],
            table.pod_count[rows],
            *(table.scalar_requested.of(name, rows) for name in extended),
        ]
    )
    allocatable = np.vstack(
        [
            table.allocatable[native, rows],
            table.pod_limit[rows],
            *(table.scalar_allocatable.of(name, rows) for name in extended),
        ]
    )
    amounts = zip(rows.tolist(), requested.T.tolist(), allocatable.T.tolist(), strict=True)
    for row, used, total in amounts:
        pods = used[len(NATIVE)]
        used[0] /= MILLI
        total[0] /= MILLI
        node = table.nodes[row]
        assert node is not None
        yield NodeRow(
            name=node.name,
            zone=node.metadata.labels.get(ZONE_LABEL, ""),
            pool=_pool(node.metadata.labels),
            unschedulable=bool(table.unschedulable[row]),
            taints=len(node.spec.taints),
            pods=pods,
            requested=used,
            allocatable=total,
        )


def _pool(labels: Mapping[str, str]) -> str:
    return next((labels[each] for each in POOL_LABELS if each in labels), "")


def _pod_on_node(pod: Pod, state: str) -> PodOnNode:
    return PodOnNode(
        namespace=pod.metadata.namespace,
        name=pod.metadata.name,
        uid=pod.metadata.uid,
        profile=pod.spec.scheduler_name,
        priority=pod.priority,
        state=state,
        requests=_amounts(pod.signature.assigned),
    )


def _amounts(resources: Resources) -> dict[str, float]:
    native = (resources.milli_cpu / MILLI, resources.memory, resources.ephemeral_storage)
    found: dict[str, float] = dict(zip(NATIVE, native, strict=True))
    found |= dict(resources.scalars[:MAX_LABELS])
    return {name: amount for name, amount in found.items() if amount}
