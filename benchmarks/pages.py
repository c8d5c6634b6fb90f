"""Measure how long debug pages hold the event loop: `python -m benchmarks.pages`.

One process with a large cluster and a long queue, and no API server. A page is made and encoded on
the loop between two cycles, a long one in slices with other work in between; the rest of the
response is made in a thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Final

import click
import msgspec

from scheduler.api import Node, Pod, PodSignatures
from scheduler.cache import Cache
from scheduler.explain.pages.nodes import NodePages
from scheduler.explain.pages.summary import SummaryPages
from scheduler.explain.pages.waiting import WaitingPages
from scheduler.framework import QueuedPodInfo
from scheduler.metrics import SchedulerMetrics
from scheduler.queue import SchedulingQueue, build_hint_map
from scheduler.service.serving.json_body import encode

REPEATS: Final = 20


class _Clock:
    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)


@click.command()
@click.option("--nodes", default=5_000, show_default=True)
@click.option("--pods", default=50_000, show_default=True, help="Placed, and as many that wait.")
def main(*, nodes: int, pods: int) -> None:
    """Print the CPU time of the longest slice of each page, median and worst of some requests."""
    cache, queue = _cache(nodes, pods), _queue(pods)
    pages = SummaryPages(
        cache, queue, SchedulerMetrics(process=False), clock=_Clock(), leading=lambda: True
    )
    click.echo(f"{nodes} nodes, {pods} placed pods, {pods} waiting pods; milliseconds of CPU")
    nodes_pages = NodePages(cache, lambda _: (), clock=_Clock(), leading=lambda: True)
    waiting = WaitingPages(queue, clock=_Clock(), leading=lambda: True)
    for name, page in {
        "nodes?limit=500": lambda: nodes_pages.nodes({"limit": "500"}),
        "node": lambda: nodes_pages.node({"name": "node-0", "pods": "1000"}),
        "waiting": lambda: waiting.waiting({}),
        "waiting?limit=500": lambda: waiting.waiting({"groups": "200", "limit": "500"}),
        "summary": lambda: pages.summary({}),
        "summary?rows=100": lambda: pages.summary({"rows": "100"}),
    }.items():
        click.echo(f"{name:<20} {_measured(page)}")


def _measured(page: Callable[[], object]) -> str:
    taken = [1_000.0 * max(_slices(page)) for _ in range(REPEATS)]
    return f"median {sorted(taken)[REPEATS // 2]:6.2f}  worst {max(taken):6.2f}"


def _slices(page: Callable[[], object]) -> Iterator[float]:
    """Make a page once; yield the seconds of each of its slices."""
    # CPU time: other processes of the machine do not count.
    start = time.thread_time()
    made = page()
    while isinstance(made, Coroutine):
        try:
            made.send(None)
        except StopIteration as finished:
            made = finished.value
        else:
            yield time.thread_time() - start
            start = time.thread_time()
    encode(made)
    yield time.thread_time() - start


def _cache(nodes: int, pods: int) -> Cache:
    cache, signatures = Cache(), PodSignatures()
    allocatable = {"cpu": "64", "memory": "256Gi", "pods": "110", "example.com/gpu": "8"}
    for number in range(nodes):
        metadata = {"name": f"node-{number}", "labels": {"zone": f"z{number % 5}"}}
        raw = {"metadata": metadata, "status": {"allocatable": allocatable}}
        cache.set_node(msgspec.convert(raw, Node))
    for number in range(pods):
        pod = _pod(number, node=f"node-{number * 7 % nodes}")
        signatures.intern(pod)
        cache.add_pod(pod)
    return cache


def _queue(pods: int) -> SchedulingQueue:
    def by_time(info: QueuedPodInfo) -> float:
        return info.timestamp

    queue = SchedulingQueue(
        _Clock(),
        by_time,
        {"kubestow": ()},
        {"kubestow": build_hint_map(())},
        pod_lister=lambda *_: None,
    )
    for number in range(pods):
        queue.add(_pod(number))
    return queue


def _pod(number: int, *, node: str = "") -> Pod:
    requests = {"cpu": f"{number % 7 + 1}", "memory": "1Gi"}
    container = {"name": "main", "resources": {"requests": requests}}
    metadata = {"name": f"pod-{number}", "namespace": "default", "uid": f"{node}{number}"}
    spec = {"schedulerName": "kubestow", "nodeName": node, "containers": [container]}
    return msgspec.convert({"metadata": metadata, "spec": spec}, Pod)


if __name__ == "__main__":
    main()
