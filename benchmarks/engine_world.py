"""EngineWorld: the engine as the service wires it, without queue, loop, API server or clock.

Pods are placed and forgotten by direct calls, so that what is measured is a scheduling attempt and
nothing else. Evictions are decided and not carried out.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import replace
from itertools import count
from typing import Any, Final

import msgspec

from config import ResolvedProfile
from scheduler.api.node import Node
from scheduler.api.pod import Pod
from scheduler.api.signatures.interner import PodSignatures
from scheduler.cache import Cache
from scheduler.engine import Attempt, Engine, Evaluator, Framework, WaitingPods
from scheduler.engine.cycle_time import CycleBudget
from scheduler.engine.measured_plugin import MeasuredPlugin, PluginBudget
from scheduler.engine.what_if import FrameworkWhatIf
from scheduler.extenders.extender import Extenders
from scheduler.extenders.transport import HttpExtenderTransport
from scheduler.framework import NoArgs, QueuedPodInfo
from scheduler.framework.extension_points import EXTENSION_POINTS, PRE_FILTER
from scheduler.metrics import SchedulerMetrics
from scheduler.queue.nominator import QueueNominator
from scheduler.service.listers import StoreListers
from scheduler.service.options import RunOptions, available_plugins, read_configuration
from scheduler.service.subscriptions import SubscriptionBoard

PROFILE: Final = "kubestow"
NAMESPACE: Final = "default"
HOST: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
ZONES: Final = 10
RACK: Final = "rack"
RACKS: Final = 100
CYCLE_SECONDS: Final = 3600.0
"""A budget that is checked as in the service, so that what this costs is measured as well, and that
no cycle uses up: the garbage collection of a measurement may hit one."""


class WallClock:
    """The clock of the operating system."""

    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)


class _Pods:
    """The lister of the pods that are being scheduled."""

    def __init__(self) -> None:
        self.known: dict[str, Pod] = {}

    def get(self, name: str, namespace: str = "") -> Pod | None:
        return self.known.get(name)

    def list(self, namespace: str | None = None) -> list[Pod]:
        return list(self.known.values())


class _Listers:
    def __init__(self) -> None:
        self.pods = _Pods()
        self._others = StoreListers()

    def __getitem__(self, plural: str) -> Any:
        return self.pods if plural == "pods" else self._others[plural]


class _Events:
    def record(self, *_: object) -> None: ...


class _Handle:
    """The part of `framework.Handle` that the in-tree plugins use."""

    profile_name = PROFILE
    clock = WallClock()
    events = _Events()
    api: Any = None
    preemption: Any = None
    what_if: Any = None

    def __init__(self, world: EngineWorld, gates: Mapping[str, bool]) -> None:
        self.table = world.cache.table
        self.nominator = world.nominator
        self.listers = world.listers
        self.feature_gates = gates
        self.subscriptions = SubscriptionBoard()

    def shared(self, name: str, make: Callable[[], Any]) -> Any:
        """There is one profile."""
        return make()

    def may(self, verb: str, resource: str) -> bool:
        """All is permitted."""
        return True

    def recheck(self, uids: Iterable[str]) -> None:
        """Do nothing: no pod waits."""

    def wake(self, uids: Iterable[str], plugin: str) -> None:
        """Do nothing: no pod waits."""

    def run_in_background(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Do nothing: the victims stay."""
        work.close()


class EngineWorld:
    """Nodes, placed pods, and an engine with the default profile."""

    def __init__(
        self,
        nodes: int,
        *,
        seed: int = 1,
        cpu: str = "64",
        plugin: type[Any] | None = None,
        stand_in: Callable[[type[Any]], Any] | None = None,
        without: str = "",
    ) -> None:
        """Make the world, with the default plugins but `without`, and with `plugin`.

        What `stand_in` returns for it has a PreFilter as well.
        """
        self.cache = Cache()
        self.listers = _Listers()
        self.nominator = QueueNominator(lambda _namespace, _name: None, lambda _uid: False)
        self.nominator.on_node.subscribe(self.cache.table.note_nominations)
        self.signatures = PodSignatures()
        self.random = random.Random(seed)
        self._serial = count()
        configuration = read_configuration(RunOptions(), registry := available_plugins())
        handle: Any = _Handle(self, configuration.feature_gates)
        profile = _without(configuration.profiles[0], without)
        factories: Mapping[str, Any] = registry
        if plugin is not None:
            registry.register(plugin)
            profile = _with(profile, plugin, isolated=stand_in is not None)
        if plugin is not None and stand_in is not None:
            made = stand_in(plugin)
            factories = {**registry, plugin.name: lambda _args, _handle: made}
        budget = PluginBudget(WallClock.monotonic, CYCLE_SECONDS, lambda *_: None)

        def measure(each: Any) -> Any:
            own = plugin is not None and isinstance(each, plugin)
            return MeasuredPlugin(each, PROFILE, budget) if own else each

        framework = Framework(profile, factories, handle, measure=measure)
        handle.subscriptions.publish_synced()
        handle.what_if = FrameworkWhatIf(framework, self.cache.table)
        handle.preemption = Evaluator(
            framework,
            self.cache.table,
            self.nominator,
            self.listers,
            random=self.random,
            own_schedulers=(PROFILE,),
        )
        self.engine = Engine(
            self.cache,
            {PROFILE: framework},
            self.nominator,
            clock=WallClock(),
            random=self.random,
            waiting_pods=WaitingPods(),
            extenders=None if stand_in is None else _no_extenders(self.cache),
            cycle_budget=CycleBudget(WallClock().monotonic, CYCLE_SECONDS, time.thread_time),
        )
        for index in range(nodes):
            self.cache.set_node(node(index, cpu))

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return self.cache.table.node_count

    def pod(
        self,
        spec: Mapping[str, Any] | None = None,
        labels: Mapping[str, str] | None = None,
        *,
        cpu: str = "100m",
        priority: int = 0,
    ) -> Pod:
        """A pending pod, interned."""
        name = f"pod-{next(self._serial)}"
        requests = {"requests": {"cpu": cpu, "memory": "64Mi"}}
        given = dict(spec or {})
        container = {"name": "c", "image": "app:1", "resources": requests}
        container |= given.pop("container", {})
        made = msgspec.convert(
            {
                "metadata": {
                    "name": name,
                    "namespace": NAMESPACE,
                    "uid": name,
                    "labels": dict(labels or {}),
                },
                "spec": {
                    "schedulerName": PROFILE,
                    "containers": [container],
                    "priority": priority,
                    **given,
                },
            },
            Pod,
        )
        self.signatures.intern(made)
        return made

    def place(self, pod: Pod, index: int) -> Pod:
        """The watch shows `pod` on a node."""
        spec = msgspec.structs.replace(pod.spec, node_name=node_name(index))
        placed = msgspec.structs.replace(pod, spec=spec)
        self.cache.add_pod(placed)
        return placed

    def attempt(self, pod: Pod) -> Attempt:
        """One scheduling attempt; a pod that fits stays assumed."""
        known = self.listers.pods.known
        known[pod.metadata.name] = pod
        try:
            return self.engine.attempt(QueuedPodInfo(pod, 0.0))
        finally:
            known.clear()

    async def suspended_attempt(self, pod: Pod) -> Attempt:
        """One attempt in a cycle that may be suspended."""
        known = self.listers.pods.known
        known[pod.metadata.name] = pod
        try:
            attempt = await self.engine.decide(QueuedPodInfo(pod, 0.0))
            if attempt.failure is None:
                self.engine.commit(attempt)
            return attempt
        finally:
            known.clear()

    def forget(self, attempt: Attempt) -> None:
        """Take an assumed pod away again."""
        self.engine.abandon(attempt)


def _no_extenders(cache: Cache) -> Extenders:
    """Return no extenders, and the transport by which suspended cycles wait."""
    transport = HttpExtenderTransport(
        (),
        clock=WallClock(),
        metrics=SchedulerMetrics(),
        failures=1,
        cool_down=1.0,
        stores=lambda _plural: None,
    )
    return Extenders((), transport, cache.table)


def _without(profile: ResolvedProfile, plugin: str) -> ResolvedProfile:
    return (profile.without(plugin) if plugin else None) or profile


def _with(profile: ResolvedProfile, plugin: type[Any], *, isolated: bool) -> ResolvedProfile:
    points = {name: tuple(each) for name, each in profile.points.items()}
    for point in EXTENSION_POINTS:
        if point.implemented_by(plugin) or (isolated and point is PRE_FILTER):
            points[point.yaml] += (plugin.name,)
    return replace(
        profile,
        percentage_of_nodes_to_score=100,
        plugins=(*profile.plugins, plugin.name),
        points=points,
        weights={**profile.weights, plugin.name: 1},
        args={**profile.args, plugin.name: getattr(plugin, "args_type", NoArgs)()},
    )


def node_name(index: int) -> str:
    """Return the name of a node, formed as in a large cluster."""
    return f"node-{index:06d}"


def node(index: int, cpu: str = "64", *, cordoned: bool = False) -> Node:
    """A node with room, in one of ten zones and a hundred racks."""
    name = node_name(index)
    labels = {HOST: name, ZONE: f"zone-{index % ZONES}", RACK: f"rack-{index % RACKS}"}
    size = {"cpu": cpu, "memory": "256Gi", "pods": "250", "ephemeral-storage": "100Gi"}
    return msgspec.convert(
        {
            "metadata": {"name": name, "labels": labels},
            "spec": {"unschedulable": cordoned},
            "status": {"allocatable": size},
        },
        Node,
    )
