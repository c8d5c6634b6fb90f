"""Measurements of `benchmarks.growth`, each a list of figures.

Times are CPU time of this thread: what other work on the machine takes is not counted, what it
does to caches and clock rates is.
"""

from __future__ import annotations

import gc
import logging
import multiprocessing
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

import msgspec
import structlog

from benchmarks.engine_world import PROFILE, EngineWorld, node_name
from benchmarks.growth_workloads import (
    KINDS,
    NODE_CPU,
    PREEMPTION_SCENARIOS,
    Kind,
    PreemptionScenario,
    fill,
    pod,
    struggle,
)
from benchmarks.queue_load import Instance, per_event, registered, unrelated
from benchmarks.throughput import nearest_rank
from scheduler.api.pod import Pod
from scheduler.process.garbage_collection import collect_seldom

WARM_UP: Final = 20
_MANY: Final = 10_000
"""Fewer pods than that do not show in the memory of a process."""

_MICRO: Final = 1e6


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of a section, with where it was measured."""

    section: str
    case: str
    nodes: int
    #: Placed pods, or pending ones in the section about the queue.
    pods: int
    value: float
    unit: str
    p99: float | None = None
    #: Distinct pod templates among the measured pods.
    templates: int = 1

    def as_json(self) -> dict[str, Any]:
        """For `--json`."""
        return asdict(self)


class NotAsMeantError(Exception):
    """An attempt ended otherwise than the measurement is about: its time would mean nothing."""


def settle() -> None:
    """Freeze the objects of the garbage collector, as the service does after its first sync."""
    collect_seldom()
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def apart(measure: Callable[..., Iterable[Figure]], **options: Any) -> list[Figure]:
    """Measure in a process of its own, whose memory holds nothing of earlier measurements."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
        return process.submit(_alone, measure, options).result()


def _alone(measure: Callable[..., Iterable[Figure]], options: dict[str, Any]) -> list[Figure]:
    quiet()
    return list(measure(**options))


def quiet() -> None:
    """Say nothing about single pods."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))


def _figure(
    section: str, case: str, world: EngineWorld, took: Sequence[float], **more: Any
) -> Figure:
    placed = world.cache.statistics().pods
    took = sorted(took)
    return Figure(
        section, case, world.nodes, placed, median(took), "us", nearest_rank(took, 99), **more
    )


# -- cycles --------------------------------------------------------------------------------------


def cycles(
    section: str,
    kinds: Sequence[Kind],
    *,
    nodes: int,
    per_node: int,
    repeat: int,
    templates: int = 1,
    seed: int = 1,
) -> Iterator[Figure]:
    """Microseconds per scheduling attempt; placed pods stay, as in a rollout."""
    world = EngineWorld(nodes, seed=seed)
    fill(world, per_node)
    settle()
    for kind in kinds:
        attempts = []
        # Results of a template are kept from its second pod on.
        warm_up = max(WARM_UP, 2 * templates)
        pods = [pod(world, kind, number % templates) for number in range(warm_up + repeat)]
        took = []
        for number, each in enumerate(pods):
            started = time.thread_time()
            attempt = world.attempt(each)
            spent = time.thread_time() - started
            if number >= warm_up:
                took.append(spent * _MICRO)
            _check(kind, attempt.failure is None)
            if kind.fits:
                attempts.append(attempt)
        yield _figure(section, kind.name, world, took, templates=templates)
        for attempt in attempts:
            world.forget(attempt)


def _check(kind: Kind, fitted: bool) -> None:
    if kind.fits != fitted:
        did = "placed" if fitted else "rejected: use more --nodes or a smaller --repeat"
        msg = f"a pod of kind {kind.name} was {did}"
        raise NotAsMeantError(msg)


# -- preemption ----------------------------------------------------------------------------------


def preemption(*, nodes: int, low: int, repeat: int, seed: int = 1) -> Iterator[Figure]:
    """Microseconds per attempt that looks for victims, the search that fails before included.

    Between two attempts a pod ends or starts somewhere, so nothing is remembered as a whole;
    nominations do not stay.
    """
    for what in PREEMPTION_SCENARIOS.values():
        world = EngineWorld(nodes, seed=seed, cpu=NODE_CPU)
        struggle(world, what, low)
        settle()
        took = list(_struggled(world, what, repeat))
        yield _figure("preemption", what.name, world, took)
        if what.fruitful:
            yield from _burst(world, what, repeat)
    took = list(_struggled(world, what, repeat, changing=False))
    yield _figure("preemption", f"{what.name}, nothing changed", world, took)


def _struggled(
    world: EngineWorld, what: PreemptionScenario, repeat: int, *, changing: bool = True
) -> Iterator[float]:
    for number, each in enumerate([what.incoming(world) for _ in range(repeat + 3)]):
        if changing:
            passing = world.pod(cpu="10m", labels={"app": "low"})
            world.place(passing, 1 + number * 37 % (world.nodes - 1))
            world.cache.remove_pod(passing)
        started = time.thread_time()
        attempt = world.attempt(each)
        spent = time.thread_time() - started
        found = attempt.failure is not None and bool(_nominated(attempt))
        if found != what.fruitful:
            msg = f"preemption, {what.name}: {attempt.failure}"
            raise NotAsMeantError(msg)
        if number >= 3:
            yield spent * _MICRO


def _burst(world: EngineWorld, what: PreemptionScenario, repeat: int) -> Iterator[Figure]:
    """Preemptors one after the other, each nominated before the next one comes."""
    took = []
    for each in [what.incoming(world) for _ in range(repeat)]:
        started = time.thread_time()
        attempt = world.attempt(each)
        took.append((time.thread_time() - started) * _MICRO)
        assert attempt.failure is not None
        world.nominator.add_nominated_pod(each, attempt.failure.nominating)
    yield _figure("preemption", f"{what.name}, a burst", world, took)


def _nominated(attempt: Any) -> str:
    nominating = attempt.failure.nominating
    return "" if nominating is None else str(nominating.node_name)


# -- the queue -----------------------------------------------------------------------------------


def queue_events(*, pending: int, nodes: int, events: int) -> Iterator[Figure]:
    """Microseconds per event: unregistered, and registered without helping a waiting pod.

    And what a waiting pod takes: its object, its place in the queue, its last failure, and the
    status and Event that are yet to be written.
    """
    instance = Instance(nodes)
    before = resident()
    instance.hold(0, pending)
    settle()
    after = resident()
    if pending >= _MANY and before is not None and after is not None:
        each = (after - before) / pending / 1024
        yield Figure("queue events", "memory of a waiting pod", nodes, pending, each, "KiB")
    for case, make in (("unrelated", unrelated), ("registered, no help", registered)):
        value = per_event(make(instance), events) * _MICRO
        yield Figure("queue events", case, nodes, pending, value, "us")


# -- memory --------------------------------------------------------------------------------------


def memory(*, nodes: int, pods: int) -> Iterator[Figure]:
    """Resident bytes per node and per pod, and of the whole process at the end.

    Pods are decoded from JSON as a watch delivers them, each with strings of its own.
    """
    gc.collect()
    before = resident()
    if before is None:
        return
    world = EngineWorld(nodes)
    with_nodes = resident() or 0
    yield Figure("memory", "a node", nodes, 0, (with_nodes - before) / nodes / 1024, "KiB")
    decode = msgspec.json.Decoder(Pod).decode
    for number in range(pods):
        made = decode(_listed(number, node_name(number % nodes)))
        world.signatures.intern(made)
        world.cache.add_pod(made)
    gc.collect()
    after = resident() or 0
    yield Figure("memory", "a pod", nodes, pods, (after - with_nodes) / pods / 1024, "KiB")
    yield Figure("memory", "the process", nodes, pods, after / (1 << 20), "MiB")


def _listed(number: int, name: str) -> bytes:
    """A running pod of a Deployment, with what an API server adds."""
    template = number // 100
    resources = {"cpu": "100m", "memory": "500Mi"}
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": f"app-{template}",
        "uid": f"7f0b7c1e-0000-4000-8000-{template:012d}",
        "controller": True,
    }
    return msgspec.json.encode(
        {
            "metadata": {
                "name": f"app-{template}-{number:08d}",
                "namespace": "default",
                "uid": f"6f0b7c1e-0000-4000-8000-{number:012d}",
                "resourceVersion": str(10_000_000 + number),
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": {"app": f"app-{template}", "pod-template-hash": f"{template:010d}"},
                "ownerReferences": [owner],
            },
            "spec": {
                "schedulerName": PROFILE,
                "nodeName": name,
                "serviceAccountName": "default",
                "containers": [
                    {
                        "name": "app",
                        "image": "registry.example.com/app:1",
                        "ports": [{"containerPort": 80}],
                        "resources": {"requests": resources, "limits": resources},
                    }
                ],
                "tolerations": [
                    {"key": key, "operator": "Exists", "effect": "NoExecute"}
                    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
                ],
            },
            "status": {"phase": "Running", "startTime": "2026-01-01T00:00:05Z"},
        }
    )


def resident() -> int | None:
    """Resident bytes of this process; None where the system does not say."""
    try:
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    except OSError:
        return None
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


# -- placement -----------------------------------------------------------------------------------


def placement(*, nodes: int, pods: int, per_node: int = 0, seed: int = 1) -> Iterator[Figure]:
    """Plain pods placed per second of CPU, from an empty or filled cluster."""
    world = EngineWorld(nodes, seed=seed)
    fill(world, per_node)
    pending = [pod(world, KINDS["plain"]) for _ in range(pods)]
    settle()
    started = time.thread_time()
    for each in pending:
        if world.attempt(each).failure is not None:
            msg = "a plain pod was rejected: use more --nodes"
            raise NotAsMeantError(msg)
    spent = time.thread_time() - started
    case = f"{pods} plain pods"
    yield Figure("placement", case, nodes, per_node * nodes, pods / spent, "pods/s")
    yield Figure("placement", case, nodes, per_node * nodes, spent, "s")
