"""The world of one vector: an offline world (`scheduler.offline`) with the vector's objects.

Nothing is queued or carried out: the incoming pod is attempted directly, and evictions are dropped,
as they were when the vectors were made. kube-scheduler's own defaults are in force, for the vectors
were made with them.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from config import Configuration, FeatureGates, load_configuration
from devtools.conformance.reading import Vector
from plugins import DEFAULT_PLUGINS, in_tree
from plugins.default_preemption import DefaultPreemption, DefaultPreemptionArgs
from scheduler import offline
from scheduler.api import Pod
from scheduler.engine import Engine, Framework, SchedulingAlgorithm
from scheduler.engine.metrics import NoMetrics
from scheduler.framework import Registry, plugin_names
from scheduler.framework.plugin_names import UPSTREAM_NAMES
from scheduler.framework.preemption import PreemptionRules

MISSING: Final = UPSTREAM_NAMES - {plugin.name for plugin in in_tree()}
"""Plugins of kube-scheduler that do not exist here."""

KINDS: Final[Mapping[str, tuple[str, str]]] = {
    "nodes": ("v1", "Node"),
    "namespaces": ("v1", "Namespace"),
    "persistentVolumeClaims": ("v1", "PersistentVolumeClaim"),
    "persistentVolumes": ("v1", "PersistentVolume"),
    "storageClasses": ("storage.k8s.io/v1", "StorageClass"),
    "csiNodes": ("storage.k8s.io/v1", "CSINode"),
    "csiDrivers": ("storage.k8s.io/v1", "CSIDriver"),
    "csiStorageCapacities": ("storage.k8s.io/v1", "CSIStorageCapacity"),
    "volumeAttachments": ("storage.k8s.io/v1", "VolumeAttachment"),
    "services": ("v1", "Service"),
    "replicationControllers": ("v1", "ReplicationController"),
    "replicaSets": ("apps/v1", "ReplicaSet"),
    "statefulSets": ("apps/v1", "StatefulSet"),
    "podDisruptionBudgets": ("policy/v1", "PodDisruptionBudget"),
    "resourceSlices": ("resource.k8s.io/v1", "ResourceSlice"),
    "deviceTaintRules": ("resource.k8s.io/v1", "DeviceTaintRule"),
    "deviceClasses": ("resource.k8s.io/v1", "DeviceClass"),
    "resourceClaims": ("resource.k8s.io/v1", "ResourceClaim"),
    "pods": ("v1", "Pod"),
}
"""Key in `input.objects` to (apiVersion, kind)."""

GATES: Final[dict[str, bool]] = {
    "PodTopologySpreadFallbackMode": False,
    "ResourceQuotaDeferredEnforcement": False,
}
"""Gates of what kube-scheduler does not have."""


class World:
    """Everything a vector's input describes, ready to schedule the incoming pod."""

    def __init__(self, vector: Vector) -> None:
        self._input = vector["input"]
        #: As the vector has them.
        self.objects: Mapping[str, Sequence[Any]] = self._input.get("objects") or {}
        registry = Registry(in_tree())
        self.configuration = _configuration(self._input.get("config"), registry)
        #: The world behind this one.
        self.offline = offline.World(configuration=self.configuration, registry=registry)
        parts = self.offline._assembly
        parts.background.dropped = True
        self.cache = parts.state.cache
        self.nominator = parts.scheduling.queue.nominator
        self.frameworks = parts.profiles.frameworks
        self.engine = parts.scheduling.engine
        self._add_objects(self.objects)
        self.offline._settle()
        #: The incoming pod.
        self.pod = self.offline.pod(self.offline.add(_whole("pods", self._input["pod"])))
        self._remove_namespaces()
        if not self.pod.spec.node_name:
            # With one (NodeName's vectors) it would count as bound there: listers alone show it.
            self.offline._settle()
        name = self.pod.spec.scheduler_name
        self.framework: Framework = self.frameworks[name]
        #: The pod's algorithm, with reuse and (`plain`) without.
        self.algorithm: SchedulingAlgorithm = self.engine.algorithms[name]
        self.plain: SchedulingAlgorithm = self._engine_without_reuse().algorithms[name]

    def incoming(self, suffix: str = "", *, nominated: bool = True) -> Pod:
        """Decode the incoming pod; with a suffix, a sibling with the same signature."""
        _, decoded = self.offline._decoded(_whole("pods", self._input["pod"]))
        pod: Pod = decoded
        if suffix:
            pod.metadata.uid += suffix
            pod.metadata.name += suffix
        if not nominated:
            pod.status.nominated_node_name = ""
        self.offline._assembly.state.signatures.intern(pod)
        return pod

    @property
    def now(self) -> float:
        """The time of the attempts, in seconds since the epoch."""
        return self.offline._assembly.clock.now()

    def preemption_rules(self) -> PreemptionRules | None:
        """Return DefaultPreemption's rules for the search; None if the profile lacks it."""
        plugin = self.framework.plugins.get(plugin_names.DEFAULT_PREEMPTION)
        return plugin.rules if isinstance(plugin, DefaultPreemption) else None

    def names(self, rows: Iterable[int]) -> list[str]:
        """Node names of rows, sorted."""
        return sorted(self.cache.table.names[row] for row in rows)

    def _add_objects(self, objects: Mapping[str, Sequence[Any]]) -> None:
        for key, listed in objects.items():
            if key != "pods":
                self.offline.add_all(_whole(key, each) for each in listed)
        self.offline.add_all(_whole("pods", each) for each in objects.get("pods", ()))

    def _engine_without_reuse(self) -> Engine:
        return Engine(
            self.cache,
            self.frameworks,
            self.nominator,
            clock=self.offline._assembly.clock,
            random=random.Random(0),
            metrics=NoMetrics(),
            percentage_of_nodes_to_score=self.configuration.effective.percentage_of_nodes_to_score,
            reuse=False,
        )

    def _remove_namespaces(self) -> None:
        """Remove the namespaces of pods that a world adds, but the vector lacks."""
        given = {each["metadata"]["name"] for each in self.objects.get("namespaces", ())}
        listed = self.offline._assembly.state.listers["namespaces"].list()
        for name in [each.metadata.name for each in listed if each.metadata.name not in given]:
            self.offline.remove("Namespace", name)


def _whole(key: str, obj: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object with what the vectors leave out, as one that is stored. Raises KeyError.

    kube-scheduler decided on the objects as they are: nothing may be filled in.
    """
    version, kind = KINDS[key]
    metadata = {"uid": obj["metadata"]["name"], "creationTimestamp": _CREATED, **obj["metadata"]}
    return {"apiVersion": version, "kind": kind, **obj, "metadata": metadata}


_CREATED: Final = "2026-01-01T00:00:00Z"


def _configuration(given: Any | None, registry: Registry) -> Configuration:
    """kube-scheduler's: without our features, and pods of all schedulers may be victims."""
    configuration = load_configuration(
        None if given is None else msgspec.json.encode(given).decode(),
        registry=registry,
        default_plugins=DEFAULT_PLUGINS,
        tolerate_missing=True,
        upstream=True,
        feature_gates=FeatureGates(GATES),
    )
    for profile in configuration.profiles:
        arguments = profile.args.get(plugin_names.DEFAULT_PREEMPTION)
        if isinstance(arguments, DefaultPreemptionArgs):
            arguments.victim_schedulers = "All"
    return configuration
