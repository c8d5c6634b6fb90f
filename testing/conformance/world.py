"""The world of one vector: cache, nominations, listers and engine, built in process.

Objects are decoded from JSON as the service decodes them, and only those pods count that count in a
cluster. kube-scheduler's own defaults are in force, for the vectors were made with them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from config import Configuration, FeatureGates, load_configuration
from plugins import DEFAULT_PLUGINS, in_tree
from plugins.default_preemption import DefaultPreemption, DefaultPreemptionArgs
from scheduler.api import Pod, PodSignatures
from scheduler.api.node import (
    Node,
)
from scheduler.api.policy import (
    PodDisruptionBudget,
)
from scheduler.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from scheduler.api.workloads import (
    Namespace,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
)
from scheduler.cache import Cache
from scheduler.engine import Engine, Evaluator, Framework, SchedulingAlgorithm, WaitingPods
from scheduler.engine.metrics import NoMetrics
from scheduler.engine.what_if import FrameworkWhatIf
from scheduler.framework import Lister, Nominator, Registry, WaitingPod, plugin_names
from scheduler.framework.plugin_names import UPSTREAM_NAMES
from scheduler.framework.preemption import PreemptionRules
from scheduler.queue.nominator import QueueNominator
from testing.conformance.reading import Vector

MISSING: Final = UPSTREAM_NAMES - {plugin.name for plugin in in_tree()}
"""Plugins of kube-scheduler that do not exist here."""

KINDS: Final[Mapping[str, tuple[str, type[Any]]]] = {
    "nodes": ("nodes", Node),
    "namespaces": ("namespaces", Namespace),
    "persistentVolumeClaims": ("persistentvolumeclaims", PersistentVolumeClaim),
    "persistentVolumes": ("persistentvolumes", PersistentVolume),
    "storageClasses": ("storageclasses", StorageClass),
    "csiNodes": ("csinodes", CSINode),
    "csiDrivers": ("csidrivers", CSIDriver),
    "csiStorageCapacities": ("csistoragecapacities", CSIStorageCapacity),
    "volumeAttachments": ("volumeattachments", VolumeAttachment),
    "services": ("services", Service),
    "replicationControllers": ("replicationcontrollers", ReplicationController),
    "replicaSets": ("replicasets", ReplicaSet),
    "statefulSets": ("statefulsets", StatefulSet),
    "podDisruptionBudgets": ("poddisruptionbudgets", PodDisruptionBudget),
}
"""Key in `input.objects` to (resource plural, type), pods apart."""

_TERMINAL = frozenset(("Succeeded", "Failed"))


class StoppedClock:
    """A clock that stands still. Nothing in a vector depends on the time of day."""

    def now(self) -> float:
        """Some wall clock time."""
        return 1_750_000_000.0

    def monotonic(self) -> float:
        """Zero."""
        return 0.0


class ObjectLister:
    """A lister over the vector's objects of one kind."""

    def __init__(self, objects: Iterable[Any] = ()) -> None:
        self._objects = {(each.metadata.namespace, each.metadata.name): each for each in objects}

    def get(self, name: str, namespace: str = "") -> Any | None:
        """One object, or None."""
        return self._objects.get((namespace, name))

    def list(self, namespace: str | None = None) -> Iterable[Any]:
        """All objects, or those of a namespace."""
        return [
            each
            for each in self._objects.values()
            if namespace is None or each.metadata.namespace == namespace
        ]


class ObjectListers:
    """Listers by plural; kinds that the vector does not mention are empty."""

    def __init__(self) -> None:
        self._listers: dict[str, ObjectLister] = {}

    def add(self, plural: str, objects: Iterable[Any]) -> None:
        """Serve a kind."""
        self._listers[plural] = ObjectLister(objects)

    def __getitem__(self, plural: str) -> Lister:
        return self._listers.get(plural) or self._listers.setdefault(plural, ObjectLister())


class Unavailable:
    """A part of the Handle that a vector has no use for; it raises when it is used."""

    def __init__(self, part: str) -> None:
        self._part = part

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{self._part}.{name} is not available in a conformance run")


OUR_FEATURES: Final = ("PodTopologySpreadFallbackMode", "ResourceQuotaDeferredEnforcement")
"""What kube-scheduler does not have."""


class ForgetfulSubscriptions:
    """Accepts subscriptions; in a vector nothing ever changes."""

    def on_object(self, plural: str, callback: Any) -> None:
        """Accept."""

    def on_nomination(self, callback: Any) -> None:
        """Accept."""

    def on_bind(self, callback: Any) -> None:
        """Accept."""

    def on_synced(self, callback: Any) -> None:
        """Everything is known from the start."""
        callback()

    def on_time(self, work: Any) -> None:
        """Accept."""


class VectorHandle:
    """Implements `framework.Handle` over a World."""

    def __init__(self, world: World, profile_name: str, gates: Mapping[str, bool]) -> None:
        self.profile_name = profile_name
        self.clock = StoppedClock()
        self.table = world.cache.table
        self.listers = world.listers
        self.nominator: Nominator = world.nominator
        self.api: Any = Unavailable("api")
        self.events: Any = Unavailable("events")
        self.metrics: Any = Unavailable("metrics")
        self.subscriptions = ForgetfulSubscriptions()
        self.feature_gates = gates
        #: Set once the profile's plugins exist.
        self.preemption: Any = Unavailable("preemption")
        self.what_if: Any = Unavailable("what_if")

    def may(self, verb: str, resource: str) -> bool:
        """All is permitted."""
        return True

    def activate(self, pods: Iterable[Pod]) -> None:
        """There is no queue."""

    def recheck(self, uids: Iterable[str]) -> None:
        """There is no queue."""

    def wake(self, uids: Iterable[str], plugin: str) -> None:
        """There is no queue."""

    def relabel(self, pod: Pod, reason: str, message: str) -> None:
        """Do nothing: nothing is written."""

    def shared(self, name: str, make: Callable[[], Any]) -> Any:
        """One profile at a time."""
        return make()

    def waiting_pods(self) -> Iterable[WaitingPod]:
        """None."""
        return ()

    def waiting_pod(self, uid: str) -> WaitingPod | None:
        """None."""
        return None

    def preempt_binding(self, uid: str, message: str) -> bool:
        """Return False: no pod is being bound."""
        return False

    def run_in_background(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Evictions are suppressed, as they were when the vectors were made."""
        work.close()


class World:
    """Everything a vector's input describes, ready to schedule the incoming pod."""

    def __init__(self, vector: Vector) -> None:
        self._input = vector["input"]
        self.cache = Cache()
        self.listers = ObjectListers()
        self._signatures = PodSignatures()
        self._pods: dict[tuple[str, str], Pod] = {}
        self.nominator = QueueNominator(lambda space, name: self._pods.get((space, name)))
        self.nominator.subscribe_nodes(self.cache.table.note_nominations)
        #: The incoming pod.
        self.pod = self.incoming()
        self._add_objects(self._input.get("objects") or {})
        self.configuration = _configuration(self._input.get("config"))
        self.frameworks = self._frameworks()
        self.engine = self._engine(reuse=True)
        name = self.pod.spec.scheduler_name
        self.framework: Framework = self.frameworks[name]
        #: The pod's algorithm, with reuse and (`plain`) without.
        self.algorithm: SchedulingAlgorithm = self.engine.algorithms[name]
        self.plain: SchedulingAlgorithm = self._engine(reuse=False).algorithms[name]

    def incoming(self, suffix: str = "", *, nominated: bool = True) -> Pod:
        """Decode the incoming pod; with a suffix, a sibling with the same signature."""
        pod: Pod = self._decode(self._input["pod"], Pod)
        if suffix:
            pod.metadata.uid += suffix
            pod.metadata.name += suffix
        if not nominated:
            pod.status.nominated_node_name = ""
        self._signatures.intern(pod)
        return pod

    def preemption_rules(self) -> PreemptionRules | None:
        """Return DefaultPreemption's rules for the search; None if the profile lacks it."""
        plugin = self.framework.plugins.get(plugin_names.DEFAULT_PREEMPTION)
        return plugin.rules if isinstance(plugin, DefaultPreemption) else None

    def names(self, rows: Iterable[int]) -> list[str]:
        """Node names of rows, sorted."""
        return sorted(self.cache.table.names[row] for row in rows)

    def _add_objects(self, objects: Mapping[str, Sequence[Any]]) -> None:
        for key, listed in objects.items():
            if key == "pods":
                continue
            plural, kind = KINDS[key]
            decoded = [self._decode(each, kind) for each in listed]
            self.listers.add(plural, decoded)
            if key == "nodes":
                for node in decoded:
                    self.cache.set_node(node)
        pods = [self._decode(each, Pod) for each in objects.get("pods", ())]
        self.listers.add("pods", [*pods, self.pod])
        for pod in [*pods, self.pod]:
            self._pods[pod.metadata.namespace, pod.metadata.name] = pod
        for pod in pods:
            self._add_pod(pod)
        self.nominator.add_nominated_pod(self.pod, None)

    def _add_pod(self, pod: Pod) -> None:
        if pod.status.phase in _TERMINAL:
            return
        self._signatures.intern(pod)
        if pod.spec.node_name:
            self.cache.add_pod(pod)
        elif pod.status.nominated_node_name:
            self.nominator.add_nominated_pod(pod, None)

    def _decode(self, raw: Any, kind: type[Any]) -> Any:
        return msgspec.json.decode(msgspec.json.encode(raw), type=kind)

    def _frameworks(self) -> dict[str, Framework]:
        registry = Registry(in_tree())
        found = {}
        for profile in self.configuration.profiles:
            name = profile.scheduler_name
            handle = VectorHandle(self, name, self.configuration.feature_gates)
            found[name] = Framework(profile, registry, handle)
            handle.what_if = FrameworkWhatIf(found[name], self.cache.table)
            handle.preemption = Evaluator(
                found[name],
                self.cache.table,
                self.nominator,
                self.listers,
                random=random.Random(0),
                own_schedulers=(),
            )
        return found

    def _engine(self, *, reuse: bool) -> Engine:
        return Engine(
            self.cache,
            self.frameworks,
            self.nominator,
            clock=StoppedClock(),
            random=random.Random(0),
            metrics=NoMetrics(),
            percentage_of_nodes_to_score=self.configuration.effective.percentage_of_nodes_to_score,
            reuse=reuse,
            waiting_pods=WaitingPods(),
        )


def _configuration(given: Any | None) -> Configuration:
    """kube-scheduler's: without our features, and pods of all schedulers may be victims."""
    configuration = load_configuration(
        None if given is None else msgspec.json.encode(given).decode(),
        registry=Registry(in_tree()),
        default_plugins=DEFAULT_PLUGINS,
        tolerate_missing=True,
        upstream=True,
        feature_gates=FeatureGates(dict.fromkeys(OUR_FEATURES, False)),
    )
    for profile in configuration.profiles:
        arguments = profile.args.get(plugin_names.DEFAULT_PREEMPTION)
        if isinstance(arguments, DefaultPreemptionArgs):
            arguments.victim_schedulers = "All"
    return configuration
