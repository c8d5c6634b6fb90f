"""A large cluster in a process of its own: the embedded API server, and a steady load of pods."""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Final

import click

from simulator import EmbeddedCluster
from simulator.subresources import Reviewer

JsonObject = dict[str, Any]
ZONE: Final = "topology.kubernetes.io/zone"


@dataclass(frozen=True, slots=True)
class Load:
    """The order to create pods for a while."""

    prefix: str
    rate: float
    seconds: float


def cluster_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options for the size of the cluster: `nodes` and `pods`."""
    nodes = click.option("--nodes", default=5000, show_default=True)
    pods = click.option("--pods", default=50_000, show_default=True, help="Bound at the start.")
    decorated: Callable[..., None] = nodes(pods(command))
    return decorated


@contextmanager
def served(nodes: int, pods: int) -> Iterator[Connection]:
    """Start the process; return the pipe for orders, see `serve`. Ends the process at the end."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    server = context.Process(target=serve, args=(theirs, nodes, pods), daemon=True)
    server.start()
    theirs.close()
    try:
        yield ours
    finally:
        ours.close()
        server.join(10)


def serve(orders: Connection, nodes: int, pods: int) -> None:
    """Serve a cluster until the pipe closes; first sends its URL, then answers each `Load`.

    The answer is how many pods were created, and how many of them were bound at the end.
    """
    asyncio.run(_serve(orders, nodes, pods))


async def _serve(orders: Connection, nodes: int, pods: int) -> None:
    reviewer = Reviewer(lambda _: {"username": "reader"}, lambda _: True)
    async with EmbeddedCluster(controllers=(), reviewer=reviewer, seed=1) as cluster:
        for index in range(nodes):
            cluster.create(_node(index))
        for index in range(pods):
            cluster.create(_pod(f"old-{index:06}", "1500m", f"node-{index % nodes:05}"))
        for each in _waiting():
            cluster.create(each)
        orders.send(cluster.url)
        while True:
            try:
                order = await asyncio.to_thread(orders.recv)
            except EOFError:
                return
            orders.send(await _create(cluster, order))


async def _create(cluster: EmbeddedCluster, order: Load) -> tuple[int, int]:
    began, names = time.perf_counter(), list[str]()
    while (now := time.perf_counter() - began) < order.seconds:
        while len(names) < int(now * order.rate):
            names.append(f"{order.prefix}-{len(names):06}")
            cluster.create(_pod(names[-1], "1m"))
        await asyncio.sleep(0.002)
    found = (cluster.get("v1", "Pod", name, "default") for name in names)
    return len(names), sum(bool(each["spec"].get("nodeName")) for each in found)


def _node(index: int) -> JsonObject:
    name = f"node-{index:05}"
    amounts = {"cpu": "16", "memory": "64Gi", "pods": "110"}
    labels = {"kubernetes.io/hostname": name, ZONE: "abc"[index % 3]}
    return {
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": amounts, "capacity": amounts,
                   "conditions": [{"type": "Ready", "status": "True"}]},
    }  # fmt: skip


def _pod(name: str, cpu: str, on: str = "", **spec: Any) -> JsonObject:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
    own = {"schedulerName": "kubestow", "containers": [container], **spec}
    return {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": name[:3]}},
        "spec": own | ({"nodeName": on} if on else {}),
        "status": {"phase": "Running" if on else "Pending"},
    }  # fmt: skip


def _waiting() -> Iterator[JsonObject]:
    """Yield pods to ask about."""
    head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    yield {**head, "metadata": {"name": "high"}, "value": 1000}
    constraint = {
        "maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "spr"}},
    }  # fmt: skip
    gates = [{"name": "example.com/never"}]
    yield _pod("big", "40")
    yield _pod("urgent", "10", priorityClassName="high", schedulingGates=gates)
    yield _pod("spread", "40", topologySpreadConstraints=[constraint])
