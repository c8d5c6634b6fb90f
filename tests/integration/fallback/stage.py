"""Setup of the scenarios: zones Z1 and Z2, spread pods of app `a`, a clock that the test moves.

    async with staged(cluster) as stage:
        stage.uneven()
        stage.create(spread("p", "zone=NodeProvisioningFailed"))
        await stage.attempted("p", 1)
        stage.provisioning("p", "False")
        await stage.bound("p", "z1")

The scheduler's clock runs as the machine's does, and `advance` makes it jump, wall clock and
monotonic clock alike. So minutes pass without waiting, and backoff ends when the test advances
the clock.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, Final

from config import FeatureGates
from devtools.embedded_service import (
    bound_to,
    event_notes,
    find,
    node,
    plugin,
    pod,
    scheduling,
    settled,
    until,
)
from scheduler.api import Pod
from scheduler.client.clock import SystemClock
from scheduler.framework import SKIP, Status
from scheduler.service.options import RunOptions
from scheduler.stages.wiring import Wiring
from simulator import EmbeddedCluster
from simulator.objects import JsonObject

GATE: Final = "PodTopologySpreadFallbackMode"
ANNOTATION: Final = "kubestow.io/topology-spread-fallback"
APPLIED: Final = "kubestow.io/topology-spread-fallback-applied"
CONDITION: Final = "kubestow.io/TopologySpreadFallback"
NPF: Final = "NodeProvisioningFailed"
PF: Final = "PreemptionFailed"
ZONE: Final = "zone"
HOST: Final = "host"
INITIAL_BACKOFF: Final = 60
BACKOFF: Final = 65.0
"""Longer than any backoff."""
STRATEGIC: Final = "application/strategic-merge-patch+json"


class JumpingClock(SystemClock):
    """The machine's clocks, ahead by what the test has added."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self.ahead

    def now(self) -> float:
        return time.time() + self.ahead


def zone_node(name: str, zone: str, cpu: str = "4", **labels: str) -> JsonObject:
    return node(name, cpu, labels={ZONE: zone, HOST: name, **labels})


def constraint(key: str = ZONE, **fields: Any) -> JsonObject:
    return {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "a"}},
        **fields,
    }


def spread(
    name: str,
    fallback: str | None = None,
    constraints: Sequence[JsonObject] = (),
    *,
    cpu: str = "1",
    labels: Mapping[str, str] | None = None,
    **spec: Any,
) -> JsonObject:
    """A pending pod of app `a`, by default with one zone constraint."""
    made = pod(name, cpu, topologySpreadConstraints=list(constraints) or [constraint()], **spec)
    made["metadata"]["labels"] = {"app": "a", **(labels or {})}
    if fallback is not None:
        made["metadata"]["annotations"] = {ANNOTATION: fallback}
    return made


class Watcher:
    """Notes every attempt: pod name and time."""

    def __init__(self) -> None:
        self.attempts: list[tuple[str, float]] = []

    def look(self, state: Any, pod: Any, table: Any) -> Status:
        self.attempts.append((pod.metadata.name, state.now))
        return SKIP

    def plugin(self) -> type[Any]:
        return plugin("Watcher", pre_filter=self.look)


class Stage:
    """A running scheduler and its cluster."""

    def __init__(self, cluster: EmbeddedCluster, wiring: Wiring, clock: JumpingClock) -> None:
        self.cluster = cluster
        self.wiring = wiring
        self.clock = clock
        self.watcher = Watcher()

    # -- objects ---------------------------------------------------------------------------------

    def create(self, *objects: JsonObject) -> None:
        for each in objects:
            self.cluster.create(each)

    def running(self, name: str, where: str, cpu: str = "1", app: str = "a", **spec: Any) -> None:
        made = pod(name, cpu, nodeName=where, terminationGracePeriodSeconds=0, **spec)
        made["metadata"]["labels"] = {"app": app}
        self.create({**made, "status": {"phase": "Running"}})

    def uneven(self) -> None:
        """Z1 has one pod and room, Z2 is full with a pod of equal priority that does not count."""
        self.create(zone_node("z1", "Z1"), zone_node("z2", "Z2"))
        # Nobody's victim, or its zone could be made the right one.
        self.running("r1", "z1", priorityClassName="higher")
        self.running("full", "z2", "4", app="other")

    def patch(self, name: str, body: JsonObject, subresource: str = "") -> None:
        pods = self.cluster.resources.of_kind("v1", "Pod")
        self.cluster.api.patch(pods, "default", name, body, STRATEGIC, subresource=subresource)

    def set_condition(self, name: str, kind: str, status: str, **fields: str) -> None:
        entry = {"type": kind, "status": status, **fields}
        self.patch(name, {"status": {"conditions": [entry]}}, "status")

    def provisioning(self, name: str, status: str, **fields: str) -> None:
        """Set NodeProvisioningInProgress as an autoscaler does."""
        self.set_condition(name, "NodeProvisioningInProgress", status, **fields)

    def annotate(self, name: str, value: str | None) -> None:
        self.patch(name, {"metadata": {"annotations": {ANNOTATION: value}}})

    def touch_node(self, name: str, text: str) -> None:
        """A node update that makes no pod fit, but wakes what CPU or spreading rejected."""
        nodes = self.cluster.resources.of_kind("v1", "Node")
        body = {"metadata": {"labels": {"touched": text}}}
        self.cluster.api.patch(nodes, "", name, body, STRATEGIC)

    def newest(self, name: str) -> Pod:
        """A pod as the scheduler knows it."""
        found = self.wiring.state.listers["pods"].get(name, "default")
        assert isinstance(found, Pod)
        return found

    def condition(self, name: str, kind: str = CONDITION) -> JsonObject:
        found = find(self.cluster, name) or {}
        for each in found.get("status", {}).get("conditions", ()):
            if each["type"] == kind:
                return dict(each)
        return {}

    def events(self, reason: str) -> list[str]:
        return event_notes(self.cluster, reason)

    # -- time and waiting ------------------------------------------------------------------------

    def advance(self, seconds: float) -> None:
        """Let so much time pass for the scheduler."""
        self.clock.ahead += seconds
        self.wiring.scheduling.queue.signals.on_timer()

    def attempts(self, name: str) -> int:
        return sum(who == name for who, _ in self.watcher.attempts)

    async def attempted(self, name: str, number: int) -> None:
        """The pod's attempt of this number is over, and all that it wrote has come back."""
        await until(lambda: self.attempts(name) >= number, f"attempt {number} at {name}")
        await self.quiet()
        assert self.attempts(name) == number, "no attempt besides"

    async def rejected_once(self, fallback: str | None, *constraints: Any, **spec: Any) -> None:
        """Create uneven zones and pod `p` (see `spread`), and wait until one attempt has failed."""
        self.uneven()
        self.create(spread("p", fallback, *constraints, **spec))
        await self.attempted("p", 1)

    async def attempted_without_nodes(self, name: str) -> None:
        """The pod was popped, and put back because there is no node to ask any plugin about."""
        await until(lambda: self.place(name) == "backoff", f"{name} tried without nodes")
        await self.quiet()

    async def quiet(self) -> None:
        """Wait until nothing is in flight, and the scheduler has seen every object as stored."""
        await until(self._caught_up, "caught up")
        await settled(self.wiring)
        await until(self._caught_up, "caught up")

    def _caught_up(self) -> bool:
        stats = self.wiring.scheduling.queue.statistics()
        if stats.active or stats.in_flight:
            return False
        for reflector in self.wiring.reflectors:
            resource = reflector.resource
            served = self.cluster.resources.find(resource.group, resource.version, resource.plural)
            assert served is not None
            stored = {str(version.rv) for version in self.cluster.store.items(served.table)}
            if stored != {item.metadata.resource_version for item in reflector.store.list()}:
                return False
        return True

    async def stays(self, name: str, attempts: int, seconds: float = BACKOFF) -> None:
        """Time passes, and the pod is not tried again."""
        await self.quiet()
        self.advance(seconds)
        await self.quiet()
        assert bound_to(self.cluster, name) == ""
        assert self.attempts(name) == attempts

    async def retried(self, name: str, number: int) -> None:
        """The pod is in backoff; when that is over it is tried again, and stays pending."""
        await self.quiet()
        self.advance(BACKOFF)
        await self.attempted(name, number)
        assert bound_to(self.cluster, name) == ""

    async def bound(self, name: str, where: str) -> None:
        """The pod is in backoff, or active; it is bound where expected."""
        await self.quiet()
        self.advance(BACKOFF)
        await until(lambda: bound_to(self.cluster, name), f"{name} bound")
        assert bound_to(self.cluster, name) == where

    def place(self, name: str) -> str:
        view = self.wiring.scheduling.queue.view("default", name)
        return "" if view is None else str(view.place.value)


@asynccontextmanager
async def staged(
    cluster: EmbeddedCluster,
    *,
    gate: bool = True,
    clock: JumpingClock | None = None,
    plugins: Sequence[type[Any]] = (),
    points: Mapping[str, Any] | None = None,
    period: str = "30s",
    flush: bool = False,
    early: bool = False,
    **args: Any,
) -> AsyncIterator[Stage]:
    """Run a scheduler; `args` are arguments of PodTopologySpread.

    `flush`: pods leave the pool after five minutes, as usual. `early`: a pod may be popped before
    its backoff is over, as usual when there is nothing else to do.
    """
    clock = clock or JumpingClock()
    watcher = Watcher()
    options = RunOptions(
        feature_gates=FeatureGates({GATE: gate, "SchedulerPopFromBackoffQ": early})
    )
    if not flush:
        options = RunOptions(
            feature_gates=options.feature_gates, pod_max_in_unschedulable_pods=timedelta(0)
        )
    profile: dict[str, Any] = {
        "schedulerName": "kubestow",
        "pluginConfig": [{"name": "PodTopologySpread", "args": args}],
    }
    enabled = [{"name": each.name} for each in (watcher.plugin(), *plugins)]
    profile["plugins"] = {"multiPoint": {"enabled": enabled}, **(points or {})}
    async with scheduling(
        cluster,
        [watcher.plugin(), *plugins],
        options=options,
        clock=clock,
        profiles=[profile],
        # Long, so that it never ends while a slow machine is still busy with the step before.
        podInitialBackoffSeconds=INITIAL_BACKOFF,
        podMaxBackoffSeconds=INITIAL_BACKOFF,
        kubestow={"timeBasedHintPeriod": period},
    ) as wiring:
        stage = Stage(cluster, wiring, clock)
        stage.watcher = watcher
        yield stage
