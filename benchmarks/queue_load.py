"""`python -m benchmarks.queue_load`: the cost of waiting pods for all other work.

In one process, without an API server: the scheduler's own parts as `Wiring` builds them, fed as
reflectors feed them, with a Bind plugin that succeeds at once. Two schedulers, one with waiting
pods and one without, are measured alternately and compared in pairs, because machines drift.
Status writes stay in the dispatcher's memory.

It measures:
- the CPU time of handling events while pods wait that the events do not concern;
- the time from arrival to bind of a fresh schedulable pod meanwhile;
- the effect of gated pods on the scheduling of others.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from statistics import median
from typing import Any, Final

import click
import msgspec
import structlog

from benchmarks.throughput import nearest_rank
from devtools.embedded_service import PROFILE, wire
from scheduler.api.node import Node
from scheduler.api.pod import Pod
from scheduler.client.configuration import ClientConfiguration
from scheduler.client.deltas import Delta, DeltaType
from scheduler.client.transport import Transport
from scheduler.engine.plugin_calls import run_synchronously
from scheduler.process.garbage_collection import collect_seldom
from scheduler.queue import EventFeatures
from scheduler.service.event_handlers import EventHandlers
from scheduler.stages.wiring import Wiring

EVENTS_PER_SECOND: Final = 500
FRESH_PER_SECOND: Final = 20
TURN_SECONDS: Final = 0.01
SIGNATURES: Final = 20
"""Number of pod signatures among the unschedulable pods."""
BATCH: Final = 200
"""Pods per measured batch of ordinary scheduling."""

_BIND: Final = {"bind": {"enabled": [{"name": "Instant"}], "disabled": [{"name": "DefaultBinder"}]}}


class Instant:
    """Binds without an API server."""

    name = "Instant"

    def __init__(self, args: object, handle: object) -> None: ...

    def bind(self, state: object, pod: Pod, node_name: str) -> None:
        """The pod is bound."""


def node(
    index: int, *, cpu: str = "32", labels: dict[str, str] | None = None, beat: int = 0
) -> Node:
    """Return a node; `beat` changes its conditions, as a kubelet's heartbeat does."""
    size = {"cpu": cpu, "memory": "128Gi", "pods": "1000"}
    condition = {"type": "Ready", "status": "True", "reason": f"beat-{beat}"}
    return msgspec.convert(
        {
            "metadata": {"name": f"node-{index}", "labels": labels or {}},
            "status": {"allocatable": size, "conditions": [condition]},
        },
        Node,
    )


def _ignore(pod: Pod, node_name: str) -> None: ...


@dataclass
class Instance:
    """One scheduler with its cluster."""

    nodes: int
    wiring: Wiring = field(init=False)
    #: Called after every bind.
    on_bound: Callable[[Pod, str], None] = _ignore
    _serial: Iterator[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        transport = Transport(ClientConfiguration(server="http://nowhere.invalid"))
        self.wiring = wire(transport, [Instant], {"points": _BIND})
        parts = self.wiring
        self.handlers = EventHandlers(
            parts.state.cache,
            parts.scheduling.queue,
            parts.state.waiting_pods,
            scheduler_names=parts.profiles.frameworks,
            registered={},
            subscriptions=parts.state.subscriptions,
            clock=parts.connections.clock,
            metrics=parts.connections.metrics,
            features=EventFeatures(),
        )
        parts.state.subscriptions.on_bind(self._bound)
        parts.state.subscriptions.publish_synced()
        self.stores = {each.resource.plural: each.store for each in parts.reflectors}
        self._node_states: list[Node] = []
        for index in range(self.nodes):
            made = node(index)
            self._node_states.append(made)
            self.handlers.nodes([Delta(DeltaType.ADDED, made, None)])

    def _bound(self, pod: Pod, node_name: str) -> None:
        self.on_bound(pod, node_name)

    # -- objects come, change and go -------------------------------------------------------------

    def pod(self, cpu: str = "100m", *, gated: bool = False, on: str = "") -> Pod:
        """Return a new pod, interned."""
        serial = next(self._serial)
        requests = {"requests": {"cpu": cpu, "memory": "64Mi"}}
        name = f"pod-{serial}"
        raw: dict[str, Any] = {
            "metadata": {
                "name": name, "namespace": "load", "uid": name, "resourceVersion": str(serial),
            },
            "spec": {
                "containers": [{"name": "c", "resources": requests}],
                "schedulerName": PROFILE,
                "nodeName": on,
            },
        }  # fmt: skip
        if gated:
            raw["spec"]["schedulingGates"] = [{"name": "example.com/quota"}]
        made = msgspec.convert(raw, Pod)
        self.wiring.state.signatures.intern(made)
        return made

    def add(self, pod: Pod) -> None:
        """Deliver a new pod, as the watch does."""
        self.stores["pods"].put(pod.key, pod)
        self.handlers.pods([Delta(DeltaType.ADDED, pod, None)])

    def change(self, old: Pod, new: Pod) -> None:
        """Deliver another version of a pod."""
        self.stores["pods"].put(new.key, new)
        self.handlers.pods([Delta(DeltaType.MODIFIED, new, old)])

    def remove(self, pod: Pod) -> None:
        """Deliver the deletion of a pod."""
        self.stores["pods"].remove(pod.key)
        self.handlers.pods([Delta(DeltaType.DELETED, pod, pod)])

    def change_node(self, index: int, new: Node) -> None:
        """Deliver another version of a node."""
        old, self._node_states[index] = self._node_states[index], new
        self.handlers.nodes([Delta(DeltaType.MODIFIED, new, old)])

    def echo(self, pod: Pod, node_name: str) -> Pod:
        """Deliver the pod with its node, and return it."""
        spec = msgspec.structs.replace(pod.spec, node_name=node_name)
        placed = msgspec.structs.replace(pod, spec=spec)
        self.change(pod, placed)
        return placed

    # -- waiting pods ----------------------------------------------------------------------------

    def hold(self, gated: int, unschedulable: int) -> None:
        """Add gated and unschedulable pods, and try the unschedulable ones once."""
        for _ in range(gated):
            self.add(self.pod(gated=True))
        for number in range(unschedulable):
            self.add(self.pod(str(1000 + number % SIGNATURES)))
        while (info := self.wiring.scheduling.queue.pop()) is not None:
            run_synchronously(self.wiring.scheduling.loop.schedule(info))
        found = self.wiring.scheduling.queue.statistics()
        if (found.gated, found.unschedulable) != (gated, unschedulable):
            msg = f"expected {gated} gated and {unschedulable} unschedulable pods, got {found}"
            raise RuntimeError(msg)

    # -- ordinary work ---------------------------------------------------------------------------

    async def schedule(self, pods: Sequence[Pod]) -> float:
        """Schedule pods; return CPU seconds from their arrival to the watch event of their bind."""
        parts = self.wiring
        placed = []
        started = time.process_time()
        for pod in pods:
            self.add(pod)
        for _ in pods:
            info = parts.scheduling.queue.pop()
            assert info is not None
            attempt = await parts.scheduling.loop.schedule(info)
            assert attempt is not None, info.last_message
            await parts.scheduling.binding.run(attempt)
            placed.append(self.echo(info.pod, attempt.node_name))
        spent = time.process_time() - started
        for pod in placed:
            self.remove(pod)
        return spent


# -- events --------------------------------------------------------------------------------------


def unrelated(instance: Instance) -> Callable[[], None]:
    """Return a source of heartbeats, node labels, and assigned pods that start or change labels."""
    numbers, running = count(), [instance.pod(on="node-0") for _ in range(5)]
    for pod in running:
        instance.add(pod)

    def happen() -> None:
        number = next(numbers)
        index, kind = number % instance.nodes, number % 4
        if kind == 0:
            instance.change_node(index, node(index, beat=number))
        elif kind == 1:
            instance.change_node(index, node(index, labels={"l": str(number)}))
        elif kind == 2:
            running.append(instance.pod(on=f"node-{index}"))
            instance.add(running[-1])
        else:
            old = running[-1]
            metadata = msgspec.structs.replace(old.metadata, labels={"l": str(number)})
            running[-1] = msgspec.structs.replace(old, metadata=metadata)
            instance.change(old, running[-1])

    return happen


def registered(instance: Instance) -> Callable[[], None]:
    """Return a source of events that the waiting pods' plugins registered, but that do not help."""
    numbers = count()

    def happen() -> None:
        number = next(numbers)
        index = number % instance.nodes
        instance.change_node(index, node(index, cpu=str(33 + number // instance.nodes)))
        # As the loop does: work postponed beyond a time slice belongs to the event.
        instance.wiring.scheduling.queue.run_due()

    return happen


def per_event(happen: Callable[[], None], events: int) -> float:
    """Return CPU seconds per event."""
    started = time.process_time()
    for _ in range(events):
        happen()
    return (time.process_time() - started) / events


@dataclass(frozen=True)
class Window:
    """Measurements of one window of live scheduling."""

    cpu_share: float
    latencies: list[float]
    events: int


async def live(instance: Instance, happen: Callable[[], None], seconds: float) -> Window:
    """Run the real loop with events and fresh pods at their rates for `seconds`.

    The fresh pods stay: deleting an assigned pod would rightly move all pods that lack resources.
    """
    arrived: dict[str, float] = {}
    took: list[float] = []
    fresh: dict[str, Pod] = {}

    def bound(pod: Pod, node_name: str) -> None:
        took.append(time.monotonic() - arrived[pod.uid])
        loop.call_soon(instance.echo, fresh[pod.uid], node_name)

    loop = asyncio.get_running_loop()
    instance.on_bound = bound
    running = asyncio.create_task(instance.wiring.scheduling.loop.run(), name="scheduling loop")
    started, cpu = time.monotonic(), time.process_time()
    events = 0
    while (now := time.monotonic() - started) < seconds:
        while events < now * EVENTS_PER_SECOND:
            happen()
            events += 1
        while len(arrived) < now * FRESH_PER_SECOND:
            pod = instance.pod()
            fresh[pod.uid] = pod
            arrived[pod.uid] = time.monotonic()
            instance.add(pod)
        await asyncio.sleep(TURN_SECONDS)
    share = (time.process_time() - cpu) / (time.monotonic() - started)
    running.cancel()
    await asyncio.wait((running,))
    instance.on_bound = _ignore
    return Window(share, sorted(took), events)


# -- comparisons ---------------------------------------------------------------------------------


def settle() -> None:
    """Freeze the objects of the garbage collector, as the service does after its first sync."""
    gc.collect()
    gc.freeze()


def compare_events(empty: Instance, full: Instance, rounds: int) -> None:
    """Print CPU per event with waiting pods, relative to none."""
    for label, make in (("unrelated", unrelated), ("registered, no help", registered)):
        sides = [make(empty), make(full)]
        pairs = []
        for number in range(rounds):
            order = (0, 1) if number % 2 == 0 else (1, 0)
            spent = [0.0, 0.0]
            for side in order:
                spent[side] = per_event(sides[side], 1000)
            pairs.append(spent)
        ratio = median(full_cpu / none for none, full_cpu in pairs)
        share = median(pair[1] for pair in pairs) * EVENTS_PER_SECOND
        print(
            f"events, {label}: CPU with waiting pods / without {ratio:.2f}; "
            f"{EVENTS_PER_SECOND}/s take {share:.1%} of one core"
        )


async def compare_latency(empty: Instance, full: Instance, seconds: float, rounds: int) -> None:
    """Print latency of fresh pods, and all CPU, while unrelated events arrive."""
    instances = (empty, full)
    sides = [unrelated(instance) for instance in instances]
    windows: tuple[list[Window], list[Window]] = ([], [])
    for number in range(rounds):
        for side in (0, 1) if number % 2 == 0 else (1, 0):
            windows[side].append(await live(instances[side], sides[side], seconds))
    none, held = windows
    print(
        f"live, {EVENTS_PER_SECOND} events/s and {FRESH_PER_SECOND} pods/s: CPU with waiting pods "
        f"/ without {_ratio(held, none, lambda w: w.cpu_share):.2f} "
        f"(share of one core {median(w.cpu_share for w in held):.1%})"
    )
    for percentile in (50, 99):

        def latency(window: Window, percentile: int = percentile) -> float:
            return nearest_rank(window.latencies, percentile)

        print(
            f"live, arrival to bind p{percentile}: with / without "
            f"{_ratio(held, none, latency):.2f} "
            f"({median(latency(w) for w in held) * 1000:.2f} ms with)"
        )


def _ratio(
    held: Sequence[Window], none: Sequence[Window], value: Callable[[Window], float]
) -> float:
    return median(value(a) / value(b) for a, b in zip(held, none, strict=True))


async def compare_throughput(empty: Instance, full: Instance, rounds: int) -> None:
    """Print throughput with gated pods, relative to none."""
    instances = (empty, full)
    for instance in instances:
        await instance.schedule([instance.pod() for _ in range(BATCH)])
    pairs = []
    for number in range(rounds):
        spent = [0.0, 0.0]
        for side in (0, 1) if number % 2 == 0 else (1, 0):
            instance = instances[side]
            batch = [instance.pod() for _ in range(BATCH)]
            spent[side] = await instance.schedule(batch)
        pairs.append(spent)
    ratios = sorted(none / gated for none, gated in pairs)
    each = median(pair[0] for pair in pairs) / BATCH
    print(
        f"throughput with gated pods / without: median {median(ratios):.3f}, quartiles "
        f"{nearest_rank(ratios, 25):.3f} to {nearest_rank(ratios, 75):.3f}, {rounds} pairs of "
        f"{BATCH} pods at {each * 1e6:.0f} us CPU"
    )


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("--nodes", default=1000, help="Nodes of each scheduler.")
@click.option("--gated", default=10_000, help="Gated pods while events arrive.")
@click.option("--unschedulable", default=10_000, help="Unschedulable pods while events arrive.")
@click.option("--many-gated", default=50_000, help="Gated pods during ordinary scheduling.")
@click.option("--rounds", default=10, help="Pairs of measurements.")
@click.option("--seconds", default=3.0, help="Length of a live window.")
def main(
    nodes: int, gated: int, unschedulable: int, many_gated: int, rounds: int, seconds: float
) -> None:
    """Measure what waiting pods cost, as ratios within this run."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    collect_seldom()
    asyncio.run(_main(nodes, gated, unschedulable, many_gated, rounds, seconds))


async def _main(
    nodes: int, gated: int, unschedulable: int, many_gated: int, rounds: int, seconds: float
) -> None:
    empty, full = Instance(nodes), Instance(nodes)
    full.hold(gated, unschedulable)
    settle()
    print(f"{nodes} nodes; {gated} gated and {unschedulable} unschedulable pods, against none")
    compare_events(empty, full, rounds)
    await compare_latency(empty, full, seconds, max(2, rounds // 3))
    del empty, full
    empty, full = Instance(nodes), Instance(nodes)
    full.hold(many_gated, 0)
    settle()
    print(f"{nodes} nodes; {many_gated} gated pods, against none")
    await compare_throughput(empty, full, rounds * 3)


if __name__ == "__main__":
    main()
