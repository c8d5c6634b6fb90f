"""Shared by the queue's tests: a clock moved by hand, pods, plugins with fixed results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from typing import Any

from scheduler.api.meta import ObjectMeta
from scheduler.api.pod import Pod, PodSchedulingGate, PodSpec, PodStatus
from scheduler.framework import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    QueuedPodInfo,
    QueueingHint,
    Status,
    unresolvable,
)
from scheduler.queue import QueueOptions, QueueProfiles, SchedulingQueue, build_hint_map
from scheduler.queue.backoff_queue import SortKey
from scheduler.queue.metrics import QueueMetrics

PROFILE = "kubestow"
NODE_ADD = ClusterEvent("Node", ActionType.ADD)
NODE_LABEL = ClusterEvent("Node", ActionType.UPDATE_NODE_LABEL)
WILDCARD = ClusterEvent("*", ActionType.ALL, "UnschedulableTimeout")
QUEUE, SKIP = QueueingHint.QUEUE, QueueingHint.SKIP
_SIGNATURE_IDS = count(1)


@dataclass(frozen=True)
class _Signature:
    """The part of a signature that the queue reads."""

    id: int


class FakeClock:
    """A wall clock and a monotonic clock that stand still."""

    def __init__(self, wall: float = 1_000.0) -> None:
        self.wall = wall
        self.mono = 50.0

    def now(self) -> float:
        return self.wall

    def monotonic(self) -> float:
        return self.mono

    def step(self, seconds: float) -> None:
        """Time passes."""
        self.wall += seconds
        self.mono += seconds


def make_pod(
    name: str,
    priority: int = 0,
    *,
    uid: str = "",
    gates: Sequence[str] = (),
    profile: str = PROFILE,
    labels: Mapping[str, str] | None = None,
    nominated: str = "",
    annotations: Mapping[str, str] | None = None,
    signature: object = None,
    version: str = "",
    namespace: str = "default",
) -> Pod:
    """Return a pending pod, whose UID follows from its name."""
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            uid=uid or f"uid-{name}",
            resource_version=version,
            labels=dict(labels or {}),
            annotations=dict(annotations or {}),
        ),
        spec=PodSpec(
            scheduler_name=profile,
            priority=priority,
            scheduling_gates=tuple(PodSchedulingGate(name=gate) for gate in gates),
        ),
        status=PodStatus(nominated_node_name=nominated),
        interned=None if signature is None else _signature_of(signature),
    )


@cache
def _signature_of(mark: object) -> object:
    """Return a signature with an id of its own, or `mark` itself if it is one."""
    return mark if hasattr(mark, "id") else _Signature(next(_SIGNATURE_IDS))


def priority_sort(info: QueuedPodInfo) -> Any:
    return (-info.pod.priority, info.timestamp)


def returning(result: QueueingHint | Exception) -> Callable[[Pod, Any, Any], QueueingHint]:
    """Return a hint that always returns or raises the same."""

    def hint(pod: Pod, old: Any, new: Any) -> QueueingHint:
        if isinstance(result, Exception):
            raise result
        return result

    return hint


class FilterDouble:
    """Stands for a rejecting plugin; registers events with hints and records the calls."""

    def __init__(
        self,
        name: str,
        registered: Iterable[tuple[ClusterEvent, Any]] = (),
        *,
        per_signature: bool = False,
    ) -> None:
        self.name = name
        self.registered = list(registered)
        self.per_signature = per_signature
        self.calls: list[tuple[str, Any, Any]] = []

    def filter(self, state: Any, pod: Pod, node: Any) -> Status | None:
        return None

    def events_to_register(self) -> list[ClusterEventWithHint]:
        return [
            ClusterEventWithHint(event, self._counted(result), self.per_signature)
            for event, result in self.registered
        ]

    def _counted(self, result: Any) -> Callable[[Pod, Any, Any], QueueingHint]:
        hint = result if callable(result) else returning(result)

        def counted(pod: Pod, old: Any, new: Any) -> QueueingHint:
            self.calls.append((pod.metadata.name, old, new))
            found: QueueingHint = hint(pod, old, new)
            return found

        return counted


class GateDouble(FilterDouble):
    """A PreEnqueue plugin with its results in `closed`: pod name -> status or exception."""

    def __init__(self, name: str, registered: Iterable[tuple[ClusterEvent, Any]] = ()) -> None:
        super().__init__(name, registered)
        self.closed: dict[str, Status | Exception] = {}
        self.runs: list[str] = []

    def pre_enqueue(self, pod: Pod) -> Status | None:
        self.runs.append(pod.metadata.name)
        result = self.closed.get(pod.metadata.name)
        if isinstance(result, Exception):
            raise result
        return result


class HoldingGate(GateDouble):
    """A gate with the method `held`, which may raise."""

    holding: set[str] | Exception = set()

    def held(self, changed: object) -> set[str]:
        if isinstance(self.holding, Exception):
            raise self.holding
        return self.holding


class SchedulingGatesDouble:
    """Behaves as the in-tree plugin."""

    name = "SchedulingGates"

    def pre_enqueue(self, pod: Pod) -> Status | None:
        gates = [gate.name for gate in pod.spec.scheduling_gates]
        return unresolvable(f"waiting for scheduling gates: {gates}") if gates else None

    def events_to_register(self) -> list[ClusterEventWithHint]:
        event = ClusterEvent("Pod", ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)
        return [
            ClusterEventWithHint(event, lambda pod, old, new: QUEUE if new.uid == pod.uid else SKIP)
        ]


@dataclass
class Recorder(QueueMetrics):
    """Sums up the metrics that the queue reports."""

    incoming: Counter[tuple[str, str]] = field(default_factory=Counter)
    pending: Counter[str] = field(default_factory=Counter)
    unschedulable: Counter[tuple[str, str]] = field(default_factory=Counter)
    inflight: Counter[str] = field(default_factory=Counter)
    errors: Counter[tuple[str, str]] = field(default_factory=Counter)
    hints: list[tuple[str, str, QueueingHint | None, float]] = field(default_factory=list)
    runs: list[tuple[str, str, float]] = field(default_factory=list)
    plugins: list[tuple[str, str, float]] = field(default_factory=list)

    def incoming_pods(self, queue: str, event: str) -> None:
        self.incoming[str(queue), event] += 1

    def pending_pods(self, queue: str, delta: int) -> None:
        self.pending[str(queue)] += delta

    def unschedulable_pods(self, plugin: str, profile: str, delta: int) -> None:
        self.unschedulable[plugin, profile] += delta

    def inflight_events(self, event: str, delta: int) -> None:
        self.inflight[event] += delta

    def hint_error(self, plugin: str, event: str) -> None:
        self.errors[plugin, event] += 1

    def hint_duration(
        self, plugin: str, event: str, hint: QueueingHint | None, seconds: float
    ) -> None:
        self.hints.append((plugin, event, hint, seconds))

    def pre_enqueue_duration(self, profile: str, status: str, seconds: float) -> None:
        self.runs.append((profile, status, seconds))

    def plugin_duration(self, plugin: str, status: str, seconds: float) -> None:
        self.plugins.append((plugin, status, seconds))


def _gates(profiles: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    return {
        name: [plugin for plugin in found if hasattr(plugin, "pre_enqueue")]
        for name, found in profiles.items()
    }


class World:
    """A queue on a clock moved by hand, validated after every step that goes through here."""

    def __init__(
        self,
        *plugins: Any,
        profiles: dict[str, Sequence[Any]] | None = None,
        sort_key: SortKey = priority_sort,
        timer: Callable[[], float] | None = None,
        **options: Any,
    ) -> None:
        """Take the plugins of the only profile, or `profiles`; `options` are `QueueOptions`."""
        self.clock = FakeClock()
        self.metrics = Recorder()
        self.pods: dict[str, Pod] = {}
        self.ready: list[float] = []
        self.problems: list[tuple[str, str, str, Exception]] = []
        self.profiles = {PROFILE: plugins} if profiles is None else profiles
        self.hints = {name: build_hint_map(found) for name, found in self.profiles.items()}
        self.queue = SchedulingQueue(
            self.clock,
            sort_key,
            _gates(self.profiles),
            self.hints,
            pod_lister=lambda namespace, name: self.pods.get(f"{namespace}/{name}"),
            options=QueueOptions(**options),
            metrics=self.metrics,
            timer=timer,
            on_plugin_error=lambda plugin, what, pod, error: self.problems.append(
                (plugin, what, pod.metadata.name, error)
            ),
        )

    def replace(
        self,
        profiles: dict[str, Sequence[Any]],
        changed: Collection[str],
        sort_key: SortKey | None = None,
    ) -> list[str]:
        """Replace plugins; return the names of the pods whose profile is gone."""
        self.profiles = profiles
        self.hints = {
            name: build_hint_map(found) if name in changed else self.hints[name]
            for name, found in profiles.items()
        }
        gone = self.queue.replace_profiles(
            QueueProfiles(_gates(profiles), self.hints, sort_key), changed
        )
        self.queue.validate()
        return [pod.metadata.name for pod in gone]

    def add(self, *pods: Pod) -> None:
        for pod in pods:
            self.pods[pod.key] = pod
            self.queue.add(pod)
            self.queue.validate()

    def update(self, old: Pod | None, new: Pod) -> None:
        self.pods[new.key] = new
        self.queue.update(old, new)
        self.queue.validate()

    def delete(self, pod: Pod) -> None:
        self.pods.pop(pod.key, None)
        self.queue.delete(pod)
        self.queue.validate()

    def pop(self) -> QueuedPodInfo:
        info = self.queue.pop()
        assert info is not None, "nothing to pop"
        self.queue.validate()
        return info

    def pop_names(self) -> list[str]:
        """Pop until nothing is left; every attempt ends at once."""
        names = []
        while (info := self.queue.pop()) is not None:
            names.append(info.pod.metadata.name)
            self.queue.done(info.uid)
        self.queue.validate()
        return names

    def fail(self, info: QueuedPodInfo, *plugins: str, pending: Sequence[str] = ()) -> str:
        """End an attempt as the failure handler does; no plugin means an error."""
        info.clear_rejectors()
        info.unschedulable_plugins = set(plugins) | set(pending)
        info.pending_plugins = set(pending)
        info.pod = self.pods.get(info.pod.key, info.pod)
        place = self.queue.add_unschedulable_if_not_present(info)
        self.queue.validate()
        return str(place)

    def rejected(self, pod: Pod, *plugins: str, pending: Sequence[str] = ()) -> QueuedPodInfo:
        """Add, pop and reject a pod; no other pod may be active."""
        self.add(pod)
        info = self.pop()
        assert info.uid == pod.uid
        self.fail(info, *plugins, pending=pending)
        return info

    def happen(self, event: ClusterEvent, old: Any = None, new: Any = None, **more: Any) -> int:
        moved = self.queue.move_all_to_active_or_backoff(event, old, new, **more)
        self.queue.validate()
        return moved

    def pass_time(self, seconds: float) -> None:
        """Time passes, and the due work is done."""
        self.clock.step(seconds)
        self.queue.run_due()
        self.queue.validate()

    def place(self, name: str) -> str:
        """Return the pod's state; empty when it is not in the queue."""
        view = self.queue.view("default", name)
        return "" if view is None else str(view.place)

    def places(self) -> dict[str, str]:
        return {view.name: str(view.place) for view in self.queue.views()}


def gated_by(
    status: Status | Exception, *events: tuple[ClusterEvent, object]
) -> tuple[World, GateDouble]:
    """Return a world whose pod "a" is gated with this status."""
    gate = GateDouble("G", events)
    gate.closed["a"] = status
    world = World(gate, FilterDouble("P", [(NODE_ADD, QUEUE)]), max_in_unschedulable=None)
    world.add(make_pod("a"))
    return world, gate
