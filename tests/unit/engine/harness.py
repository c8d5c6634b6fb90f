"""A small world for engine tests: a real cache, fake or real plugins, one profile.

Plugins are made from functions: `plugin("P", filter=lambda state, pod, node: ...)`. A plugin is
enabled wherever it has the methods, as with multiPoint.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from config import ResolvedProfile
from scheduler.api import Node, Pod, PodSignatures
from scheduler.cache import Cache
from scheduler.engine import Attempt, Engine, Framework, SchedulingAlgorithm
from scheduler.engine.cycle_time import CycleBudget
from scheduler.engine.metrics import NoMetrics
from scheduler.framework import (
    EXTENSION_POINTS,
    CycleState,
    NominatingInfo,
    PreFilterResult,
    QueuedPodInfo,
    Registry,
    Status,
)
from scheduler.framework.extension_points import (
    SCORE,
)
from scheduler.service.listers import StoreListers
from scheduler.service.subscriptions import SubscriptionBoard

PROFILE = "test"


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.time = 1_000.0

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time


class Nominations:
    """Implements `framework.Nominator` without rules; reports the node of each change."""

    def __init__(self, changed: Callable[[str], None] = lambda _name: None) -> None:
        self._pods: dict[str, tuple[Pod, str]] = {}
        self._changed = changed

    def add_nominated_pod(self, pod: Pod, nominating: NominatingInfo | None) -> None:
        self.delete_nominated_pod_if_exists(pod)
        if nominating is not None and nominating.node_name:
            self._pods[pod.uid] = pod, nominating.node_name
            self._changed(nominating.node_name)

    def delete_nominated_pod_if_exists(self, pod: Pod) -> None:
        _, name = self._pods.pop(pod.uid, (pod, ""))
        if name:
            self._changed(name)

    def node_of(self, uid: str) -> str:
        return self._pods[uid][1] if uid in self._pods else ""

    def nominated_nodes(self) -> Sequence[str]:
        return tuple(dict.fromkeys(node for _, node in self._pods.values()))

    def nominated_pods_for_node(self, node_name: str) -> Sequence[Pod]:
        return tuple(pod for pod, node in self._pods.values() if node == node_name)


class Metrics(NoMetrics):
    """Records extension points and late cycles."""

    def __init__(self) -> None:
        self.points: list[tuple[str, str]] = []
        self.durations: dict[str, float] = {}
        self.late_cycles: list[str] = []

    def extension_point(self, point: str, status: str, profile: str, seconds: float) -> None:
        self.points.append((point, status))
        self.durations[point] = seconds

    def cycle_over_budget(self, profile: str, result: str) -> None:
        self.late_cycles.append(result)


class Handle:
    """The part of `framework.Handle` that the plugins of these tests use."""

    def __init__(self, world: World) -> None:
        self.profile_name = PROFILE
        self.clock = world.clock
        self.table = world.cache.table
        self.nominator = world.nominations
        self.listers = StoreListers()
        self.subscriptions = SubscriptionBoard()
        self.feature_gates: Mapping[str, bool] = {}
        self.forbidden: set[tuple[str, str]] = set()
        self._shared: dict[str, Any] = {}

    def shared(self, name: str, make: Callable[[], Any]) -> Any:
        return self._shared.setdefault(name, make())

    def may(self, verb: str, resource: str) -> bool:
        return (verb, resource) not in self.forbidden


def profile(points: Mapping[str, Sequence[str]], **given: Any) -> ResolvedProfile:
    """Return a profile with these plugins; other extension points have none."""
    complete = {point.yaml: tuple(points.get(point.yaml, ())) for point in EXTENSION_POINTS}
    fields: dict[str, Any] = {
        "scheduler_name": PROFILE,
        "percentage_of_nodes_to_score": None,
        "plugins": tuple(dict.fromkeys(name for names in complete.values() for name in names)),
        "weights": {},
        "args": {},
    }
    return ResolvedProfile(points=complete, **{**fields, **given})


def plugin(plugin_name: str, **methods: Any) -> type[Any]:
    """A plugin class; functions become methods without `self`, other values class attributes."""
    members: dict[str, Any] = {
        key: staticmethod(value) if callable(value) else value for key, value in methods.items()
    }
    return type(plugin_name, (), {"name": plugin_name, "__init__": _ignore, **members})


def _ignore(self: object, args: object, handle: object) -> None: ...


QUEUE_SORT = plugin("Sort", sort_key=lambda info: info.timestamp)


class Calls:
    """Makes functions that record their calls."""

    def __init__(self) -> None:
        self.made: list[str] = []

    def __call__(self, name: str, result: Any = None) -> Callable[..., Any]:
        """A function that is recorded as `name` and returns `result`, or raises it."""

        def called(*arguments: Any) -> Any:
            self.made.append(name)
            if isinstance(result, Exception):
                raise result
            return result

        return called

    def take(self) -> list[str]:
        """Return the calls since the last time."""
        made, self.made = self.made, []
        return made


class World:
    """Cache, nominations and one engine over the given plugins."""

    def __init__(
        self,
        *plugins: type[Any],
        weights: Mapping[str, int] | None = None,
        percentage: int | None = None,
        global_percentage: int = 0,
        reuse: bool = True,
        seed: int = 0,
        last_filter: Callable[[World], Any] | None = None,
        cycle_seconds: float = float("inf"),
        tie_breaking: str = "Random",
    ) -> None:
        """`cycle_seconds` is the budget of a cycle, in the time of `clock`."""
        self.clock = Clock()
        self.cache = Cache()
        self.nominations = Nominations(self.cache.table.note_nominations)
        self.metrics = Metrics()
        self.signatures = PodSignatures()
        classes = [*plugins, QUEUE_SORT]
        points = {
            point.yaml: [each.name for each in classes if point.implemented_by(each)]
            for point in EXTENSION_POINTS
        }
        given = weights or {}
        resolved = profile(
            points,
            weights={name: given.get(name, 0) for name in points[SCORE.yaml]},
            percentage_of_nodes_to_score=percentage,
            tie_breaking=tie_breaking,
        )
        handle: Any = Handle(self)
        last = () if last_filter is None else (last_filter(self),)
        self.framework = Framework(resolved, Registry(classes), handle, last_filters=last)
        self._global_percentage = global_percentage
        self.budget = CycleBudget(self.clock.monotonic, cycle_seconds)
        self.plugin_errors: list[str] = []
        self.engine = self.another_engine(reuse=reuse, seed=seed)

    def another_engine(self, *, reuse: bool, seed: int = 0) -> Engine:
        """One more engine over the same cache and plugins."""
        return Engine(
            self.cache,
            {PROFILE: self.framework},
            self.nominations,
            clock=self.clock,
            random=random.Random(seed),
            metrics=self.metrics,
            percentage_of_nodes_to_score=self._global_percentage,
            reuse=reuse,
            cycle_budget=self.budget,
            on_plugin_error=lambda plugin, point, pod, error: self.plugin_errors.append(
                f"{plugin} {point} {pod.metadata.name}: {error}"
            ),
        )

    @property
    def algorithm(self) -> SchedulingAlgorithm:
        return self.engine.algorithms[PROFILE]

    def pod(self, name: str = "p", *, nominated: str = "", **spec: Any) -> Pod:
        """A pod of this profile, interned; `spec` in Kubernetes' names."""
        raw = {
            "metadata": {"name": name, "namespace": "default", "uid": name},
            "spec": {"containers": [{"name": "c"}], "schedulerName": PROFILE, **spec},
            "status": {"nominatedNodeName": nominated},
        }
        pod = msgspec.convert(raw, Pod)
        self.signatures.intern(pod)
        return pod

    def nodes(self, *names: str) -> None:
        """Add nodes with room for everything."""
        for name in names:
            self.node(name)

    def node(self, name: str, **parts: Any) -> None:
        """Add or change a node."""
        allocatable = parts.pop("allocatable", {"cpu": "8", "memory": "32Gi", "pods": "110"})
        raw = {
            "metadata": {"name": name, "labels": parts.pop("labels", {})},
            "spec": parts.pop("spec", {}),
            "status": {"allocatable": allocatable, **parts},
        }
        self.cache.set_node(msgspec.convert(raw, Node))

    def attempt(self, pod: Pod | None = None) -> Attempt:
        """One scheduling attempt."""
        return self.engine.attempt(QueuedPodInfo(self.pod() if pod is None else pod, 0.0))

    def chosen(self, pod: Pod | None = None) -> str:
        """The node of an attempt that must succeed; the pod is not left behind."""
        attempt = self.attempt(pod)
        assert attempt.failure is None, attempt.failure
        self.engine.abandon(attempt)
        return attempt.node_name

    def failure_message(self, pod: Pod | None = None) -> str:
        """The message of an attempt that must fail."""
        attempt = self.attempt(pod)
        assert attempt.failure is not None
        assert attempt.result is None
        return attempt.failure.message

    def requests(self, milli: int) -> dict[str, Any]:
        """Spec fields of a pod that requests CPU."""
        resources = {"requests": {"cpu": f"{milli}m"}}
        return {"containers": [{"name": "c", "resources": resources}]}


def new_state() -> CycleState:
    """The state of one attempt."""
    return CycleState()


def narrowing(*names: str) -> Callable[..., PreFilterResult]:
    return lambda *_: PreFilterResult(frozenset(names))


def answering(status: Status | None) -> Callable[..., Status | None]:
    return lambda *_: status


def three_nodes(*plugins: type[Any], **options: Any) -> World:
    world = World(*plugins, **options)
    world.nodes("node1", "node2", "node3")
    return world


def raising(text: str = "boom") -> Callable[..., Any]:
    def fail(*_: Any) -> Any:
        raise ValueError(text)

    return fail
