"""A busy scheduler: pods come and go, preempt, wait for quota, and fall back from spreading."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from config import FeatureGates
from devtools.embedded_service import (
    node,
    pod,
    scheduling,
    settled,
    until,
)
from plugins.pod_topology_spread.fallback import GATE as FALLBACK
from plugins.resource_quota.plugin import GATE as QUOTA
from scheduler.recording.streams import BundleStreams
from scheduler.service.options import RunOptions
from scheduler.stages.wiring import Wiring
from simulator import EmbeddedCluster
from simulator.errors import ApiError
from simulator.objects import JsonObject, priority_class

GATES: Final = FeatureGates.parse([f"{QUOTA}=true,{FALLBACK}=true"])
ANNOTATION: Final = "kubestow.io/topology-spread-fallback"
ZONE: Final = "topology.kubernetes.io/zone"
HELD: Final = ("example.com/gate",)


def zone_node(name: str, zone: str, cpu: str = "4") -> JsonObject:
    return node(name, cpu, labels={"kubernetes.io/hostname": name, ZONE: zone})


def spread_pod(name: str, cpu: str = "1") -> JsonObject:
    """A pod that must be spread over zones, unless preemption cannot help."""
    constraint = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "spread"}},
    }
    made = pod(name, cpu, topologySpreadConstraints=[constraint])
    made["metadata"] |= {
        "labels": {"app": "spread"},
        "annotations": {ANNOTATION: f"{ZONE}=PreemptionFailed"},
    }
    return made


def prepare(cluster: EmbeddedCluster) -> None:
    """Six nodes in two zones, priority classes, and a deferred quota of three CPUs."""
    for number in range(6):
        cluster.create(zone_node(f"node-{number}", f"zone-{number % 2}"))
    for name, value in (("high", 1000), ("higher", 2000)):
        cluster.create(priority_class(name, value))
    cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
    hard = {"deferred.kubestow.io/requests.cpu-millis": "3000"}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "spec": {"hard": hard}}
    cluster.create({**quota, "metadata": {"name": "cpu", "namespace": "team"}})


class Workload:
    """Random changes with a seed; each step is one request or a few."""

    def __init__(self, cluster: EmbeddedCluster, seed: int) -> None:
        self._cluster = cluster
        self._random = random.Random(seed)
        self._count = 0
        self._live: list[tuple[str, str]] = []

    async def step(self) -> None:
        """Change something, and let the scheduler see it."""
        chance = self._random.random()
        if chance < 0.3 and self._live:
            self._end(self._random.randrange(len(self._live)))
        elif chance < 0.5:
            self._create(pod(self._name(), self._size()))
        elif chance < 0.6:
            self._create(pod(self._name(), "3", priorityClassName="high"))
        elif chance < 0.8:
            self._gated()
        elif chance < 0.95:
            self._create(spread_pod(self._name(), self._size()))
        else:
            self._cluster.create(zone_node(f"late-{self._count}", "zone-1", "2"))
            self._count += 1
        await asyncio.sleep(0)

    async def settled(self, wiring: Wiring) -> None:
        """Wait until the scheduler has seen all pods, and has nothing under way."""
        (pods,) = (each for each in wiring.reflectors if each.resource.plural == "pods")

        def seen() -> bool:
            stored = {str(version.rv) for version in self._cluster.store.items("pods")}
            return stored == {each.metadata.resource_version for each in pods.store.list()}

        await until(seen, "all pods seen")
        await settled(wiring)

    def hold(self) -> None:
        """Add more pods than the quota lets in."""
        for _ in range(4):
            self._gated()

    def crowd(self) -> None:
        """Add a pod that no node is large enough for."""
        self._create(pod("giant", "100"))

    def _gated(self) -> None:
        made = pod(self._name(), "1", gates=HELD)
        made["metadata"]["namespace"] = "team"
        self._create(made)
        self._ungate(made["metadata"]["name"])

    def _name(self) -> str:
        self._count += 1
        return f"pod-{self._count}"

    def _size(self) -> str:
        return self._random.choice(("500m", "1", "2"))

    def _create(self, made: JsonObject) -> None:
        self._cluster.create(made)
        self._live.append((made["metadata"].get("namespace", "default"), made["metadata"]["name"]))

    def _ungate(self, name: str) -> None:
        pods = self._cluster.resources.of_kind("v1", "Pod")
        patch: Mapping[str, Any] = {"spec": {"schedulingGates": None}}
        self._cluster.api.patch(pods, "team", name, patch, "application/merge-patch+json")

    def _end(self, index: int) -> None:
        from simulator.admission import WriteOptions

        namespace, name = self._live.pop(index)
        pods = self._cluster.resources.of_kind("v1", "Pod")
        try:
            self._cluster.api.delete(
                pods, namespace, name, {"gracePeriodSeconds": 0}, WriteOptions()
            )
        except ApiError:
            # It was a victim of preemption.
            return


@asynccontextmanager
async def busy(seed: int = 1) -> AsyncIterator[tuple[Wiring, Workload]]:
    """Run a scheduler with both gates on a prepared cluster; quick backoff."""
    async with EmbeddedCluster(controllers=(), seed=seed) as cluster:
        prepare(cluster)
        settings: dict[str, Any] = {"podInitialBackoffSeconds": 1, "podMaxBackoffSeconds": 1}
        options = RunOptions(feature_gates=GATES)
        async with scheduling(cluster, options=options, **settings) as wiring:
            yield wiring, Workload(cluster, seed)


class Recording:
    """A recording under way, written to a file."""

    def __init__(self, wiring: Wiring, path: Path) -> None:
        self._wiring = wiring
        self.path = path
        self._task: asyncio.Task[None] | None = None

    async def _write(self) -> None:
        streams = BundleStreams(self._wiring, lambda: True)
        with self.path.open("wb") as file:
            async for piece in streams.record({"seconds": "60"}):
                file.write(piece)

    async def begin(self) -> None:
        self._task = asyncio.create_task(self._write())
        task = self._task
        await until(lambda: self._wiring.state.reports.observer is not None or task.done())

    async def end(self, reason: str = "time-limit") -> None:
        journal = self._wiring.state.reports.observer
        if journal is not None:
            journal.end(reason)
        assert self._task is not None
        await self._task
