"""Manifests as people write them, of every kind that is read: drawn, and picked by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any, Final

from tests.unit.api.stored.surroundings import NAMESPACES, JsonObject

_AMOUNTS: Final[dict[str, tuple[Any, ...]]] = {
    "cpu": ("1", 2, "500m", 0.25, "1.5", "100u", "0", 3, "1e0"),
    "memory": ("1Gi", "512Mi", "1G", 1073741824, "1.5Gi", "128974848", "129e6", "2Mi"),
    "ephemeral-storage": ("1Gi", "500M"),
    "nvidia.com/gpu": (1, "2", "1"),
    "hugepages-2Mi": ("4Mi", "8Mi"),
    "example.com/fpga": ("1", 3),
}
URI: Final = "https://account.blob.core.windows.net/container/disk.vhd"
_LABELS: Final[tuple[JsonObject, ...]] = (
    {},
    {"app": "w"},
    {"app": "w", "rev": "2", "tenant": "t"},
    {"rev": "1"},
)
_SELECTORS: Final[tuple[Any, ...]] = (
    None,
    {},
    {"matchLabels": {"app": "w"}},
    {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
    {"matchLabels": {"app": "w"}, "matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]},
)
_TOLERATIONS: Final[tuple[JsonObject, ...]] = (
    {"operator": "Exists"},
    {"key": "kata", "operator": "Equal", "value": "x", "effect": "NoSchedule"},
    {"key": "kata", "value": "x", "effect": "NoSchedule"},
    {"key": "a", "operator": "Exists"},
    {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
    {
        "key": "node.kubernetes.io/unreachable",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 5,
    },
    {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoSchedule"},
    {"key": "node.kubernetes.io/unreachable", "operator": "Exists"},
)
_VOLUMES: Final[tuple[JsonObject, ...]] = (
    {"name": "v"},
    {"name": "v", "emptyDir": {}},
    {"name": "v", "persistentVolumeClaim": {"claimName": "data"}},
    {"name": "v", "rbd": {"monitors": ["m"], "image": "i"}},
    {
        "name": "v",
        "iscsi": {"targetPortal": "1.2.3.4", "iqn": "iqn.2001-04.com.example:x", "lun": 0},
    },
    {"name": "v", "azureDisk": {"diskName": "d", "diskURI": URI}},
    {"name": "v", "csi": {"driver": "inline.example.com"}},
    {"name": "v", "gcePersistentDisk": {"pdName": "d"}},
    {"name": "v", "awsElasticBlockStore": {"volumeID": "vol-1"}},
    {"name": "v", "image": {"reference": "quay.io/x/y:1"}},
    {"name": "v", "hostPath": {"path": "/x"}},
    {"name": "v", "configMap": {"name": "c"}},
    {
        "name": "v",
        "ephemeral": {
            "volumeClaimTemplate": {
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1Gi"}},
                }
            }
        },
    },
)


def drawn_pods(count: int) -> Iterator[JsonObject]:
    """Yield pods with some of the fields that are completed, the same ones in every run."""
    for number in range(count):
        yield _Drawing(Random(number)).pod(f"drawn-{number}")


class _Drawing:
    """One pod."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def _often(self, chance: float) -> bool:
        return self._random.random() < chance

    def pod(self, name: str) -> JsonObject:
        random = self._random
        spec: JsonObject = {
            "containers": [self._container(f"c{i}") for i in range(random.randint(1, 3))]
        }
        if self._often(0.3):
            spec["initContainers"] = [self._init(f"i{i}") for i in range(random.randint(1, 2))]
        options: dict[str, tuple[float, Callable[[], Any]]] = {
            "hostNetwork": (0.2, lambda: random.choice([True, False])),
            "priorityClassName": (0.4, self._class),
            "preemptionPolicy": (0.05, lambda: "PreemptLowerPriority"),
            "runtimeClassName": (0.3, lambda: random.choice(["kata", "wide", "pinned", "bare"])),
            "nodeSelector": (0.2, lambda: {"zone": "a"}),
            "tolerations": (0.4, lambda: random.sample(_TOLERATIONS, random.randint(0, 4))),
            "affinity": (0.4, self._affinity),
            "topologySpreadConstraints": (0.3, self._spread),
            "volumes": (0.3, lambda: [random.choice(_VOLUMES)]),
            "resources": (0.3, self._pod_level),
            "schedulingGates": (0.1, lambda: random.choice([[], [{"name": "x.io/a"}]])),
            "schedulingGroup": (0.1, lambda: {"podGroupName": "g"}),
            "terminationGracePeriodSeconds": (0.1, lambda: random.choice([0, 5])),
            "activeDeadlineSeconds": (0.1, lambda: 60),
            "schedulerName": (0.2, lambda: random.choice(["kubestow", ""])),
            "hostUsers": (0.1, lambda: random.choice([True, False])),
            "serviceAccountName": (0.1, lambda: "sa"),
            "restartPolicy": (0.2, lambda: random.choice(["Never", "OnFailure"])),
        }
        spec |= {field: draw() for field, (chance, draw) in options.items() if self._often(chance)}
        metadata = {
            "name": name,
            "namespace": random.choice(NAMESPACES),
            "labels": random.choice(_LABELS),
        }
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    def _class(self) -> str:
        return self._random.choice(["urgent", "patient", "", "system-node-critical"])

    def _amounts(self, names: tuple[str, ...], most: int) -> JsonObject:
        random = self._random
        chosen = random.sample(names, random.randint(0, most))
        return {name: random.choice(_AMOUNTS[name]) for name in chosen}

    def _resources(self) -> JsonObject | None:
        limits = self._amounts(tuple(_AMOUNTS), 3)
        both = {name: limits[name] for name in limits if self._often(0.4)}
        requests = {**self._amounts(("cpu", "memory"), 2), **both}
        if "hugepages-2Mi" in limits and self._often(0.9):
            limits.setdefault("memory", "1Gi")
        found = {"limits": limits, "requests": requests}
        for name in ("limits", "requests"):
            if self._often(0.3):
                del found[name]
        return None if self._often(0.1) else found

    def _container(self, name: str) -> JsonObject:
        made: JsonObject = {
            "name": name,
            "image": self._random.choice(["x", "x:1", "a/b@sha256:0"]),
        }
        made["image"] = made["image"].replace("sha256:0", "sha256:" + "0" * 64)
        if self._often(0.8):
            made["resources"] = self._resources()
        if self._often(0.3):
            made["ports"] = [
                {"containerPort": 8000 + self._random.randint(0, 900)},
                {"containerPort": 9000 + self._random.randint(0, 900), "protocol": "UDP"},
            ][: self._random.randint(1, 2)]
        return made

    def _init(self, name: str) -> JsonObject:
        made = self._container(name)
        if self._often(0.4):
            made["restartPolicy"] = "Always"
        return made

    def _pod_level(self) -> JsonObject:
        found = {
            "limits": self._amounts(("cpu", "memory", "hugepages-2Mi"), 2),
            "requests": self._amounts(("cpu", "memory"), 2),
        }
        for name in ("limits", "requests"):
            if self._often(0.3):
                del found[name]
        return found

    def _keys(self) -> JsonObject:
        found: JsonObject = {}
        if self._often(0.5):
            found["matchLabelKeys"] = self._random.choice([["rev"], ["rev", "tenant"], ["absent"]])
        elif self._often(0.5):
            found["mismatchLabelKeys"] = ["tenant"]
        return found

    def _term(self) -> JsonObject:
        term = {"topologyKey": "zone", "labelSelector": self._random.choice(_SELECTORS)}
        if term["labelSelector"] is not None:
            term |= self._keys()
        if self._often(0.2):
            term["namespaceSelector"] = {}
        return term

    def _affinity(self) -> JsonObject:
        found: JsonObject = {}
        for name in ("podAffinity", "podAntiAffinity"):
            if self._often(0.6):
                own = found[name] = {}
                if self._often(0.6):
                    own["requiredDuringSchedulingIgnoredDuringExecution"] = [self._term()]
                if self._often(0.5):
                    preferred = [{"weight": 5, "podAffinityTerm": self._term()}]
                    own["preferredDuringSchedulingIgnoredDuringExecution"] = preferred
        return found

    def _spread(self) -> list[JsonObject]:
        made: JsonObject = {
            "maxSkew": 1,
            "topologyKey": "zone",
            "whenUnsatisfiable": self._random.choice(["DoNotSchedule", "ScheduleAnyway"]),
            "labelSelector": self._random.choice(_SELECTORS),
        }
        if made["labelSelector"] is not None and self._often(0.5):
            made["matchLabelKeys"] = ["rev"]
        return [made]


def _object(api_version: str, kind: str, name: str, **fields: Any) -> JsonObject:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **fields}


def _claim(**spec: Any) -> JsonObject:
    own = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec}
    return _object("v1", "PersistentVolumeClaim", "data", spec=own)


def _volume(**spec: Any) -> JsonObject:
    own = {
        "capacity": {"storage": "10Gi"},
        "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": "/x"},
        **spec,
    }
    return _object("v1", "PersistentVolume", "pv", spec=own)


def _devices(*requests: JsonObject) -> JsonObject:
    return {"devices": {"requests": list(requests)}}


_REQUESTS: Final[tuple[JsonObject, ...]] = (
    {"name": "r", "exactly": {"deviceClassName": "gpu"}},
    {"name": "r", "exactly": {"deviceClassName": "gpu", "count": 2}},
    {"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}},
    {
        "name": "r",
        "exactly": {"deviceClassName": "gpu", "tolerations": [{"key": "a", "value": "b"}]},
    },
    {"name": "r", "firstAvailable": [{"name": "a", "deviceClassName": "gpu"}]},
    {
        "name": "r",
        "firstAvailable": [
            {"name": "a", "deviceClassName": "gpu", "count": 4},
            {"name": "b", "deviceClassName": "cpu", "tolerations": [{"operator": "Exists"}]},
        ],
    },
    {
        "name": "r",
        "exactly": {"deviceClassName": "gpu", "capacity": {"requests": {"memory": "1Gi"}}},
    },
)


def picked() -> Iterator[JsonObject]:
    """Yield objects of every kind that scheduling reads besides pods."""
    yield from _nodes()
    yield from _storage()
    yield from _device_objects()
    yield from _others()


def _nodes() -> Iterator[JsonObject]:
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    yield _object("v1", "Node", "n")
    statuses: tuple[JsonObject, ...] = (
        {},
        {"capacity": amounts},
        {"capacity": amounts, "allocatable": {"cpu": "3"}},
        {"capacity": amounts, "allocatable": {}},
        {"capacity": amounts, "allocatable": None},
        {"capacity": {}},
        {"allocatable": amounts},
        {"capacity": {"cpu": "3500m", "nvidia.com/gpu": 4}},
    )
    for status in statuses:
        yield _object("v1", "Node", "n", status=status)
    yield _object("v1", "Node", "n", spec={"taints": [{"key": "a", "effect": "NoExecute"}]})
    yield _object("v1", "Node", "n", spec={"unschedulable": True}, status={"capacity": amounts})


def _storage() -> Iterator[JsonObject]:
    yield _claim()
    yield _claim(storageClassName="plain")
    yield _claim(storageClassName="")
    yield _claim(storageClassName=None, volumeMode="Block")
    yield _claim(volumeName="pv")
    yield _claim(selector={"matchLabels": {"a": "b"}})
    annotated = _claim()
    annotated["metadata"]["annotations"] = {"volume.beta.kubernetes.io/storage-class": "plain"}
    yield annotated
    yield _volume()
    yield _volume(volumeMode="Block", persistentVolumeReclaimPolicy="Delete")
    yield _volume(claimRef={"namespace": "default", "name": "data"})
    yield _volume(hostPath=None, csi={"driver": "d.example.com", "volumeHandle": "h"})
    yield _volume(hostPath=None, azureDisk={"diskName": "d", "diskURI": URI})
    yield _object("storage.k8s.io/v1", "StorageClass", "s", provisioner="p.example.com")
    yield _object(
        "storage.k8s.io/v1", "StorageClass", "s", provisioner="p", volumeBindingMode="Immediate",
        allowedTopologies=[{"matchLabelExpressions": [{"key": "zone", "values": ["a"]}]}],
    )  # fmt: skip
    for spec in ({}, {"attachRequired": False}, {"storageCapacity": True}):
        yield _object("storage.k8s.io/v1", "CSIDriver", "d.example.com", spec=spec)
    more: tuple[JsonObject, ...] = ({"topologyKeys": None}, {"allocatable": {"count": 5}})
    for each in more:
        drivers = [{"name": "d.example.com", "nodeID": "n", **each}]
        yield _object("storage.k8s.io/v1", "CSINode", "n", spec={"drivers": drivers})
    yield _object(
        "storage.k8s.io/v1", "CSIStorageCapacity", "c", storageClassName="plain", capacity="1Gi"
    )
    attached = {"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "pv"}}
    yield _object("storage.k8s.io/v1", "VolumeAttachment", "a", spec=attached)


def _device_objects() -> Iterator[JsonObject]:
    version = "resource.k8s.io/v1"
    for request in _REQUESTS:
        yield _object(version, "ResourceClaim", "c", spec=_devices(request))
        yield _object(version, "ResourceClaimTemplate", "t", spec={"spec": _devices(request)})
    yield _object(version, "ResourceClaim", "c", spec={})
    yield _object(version, "DeviceClass", "d", spec={})
    selectors = [{"cel": {"expression": 'device.driver == "d.example.com"'}}]
    yield _object(version, "DeviceClass", "d", spec={"selectors": selectors})
    yield _object(version, "DeviceClass", "d", spec={"extendedResourceName": "example.com/gpu"})
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    slices: tuple[JsonObject, ...] = (
        {"nodeName": "n", "devices": [{"name": "d"}]},
        {"allNodes": True, "devices": [{"name": "d", "capacity": {"memory": {"value": "1Gi"}}}]},
        {"nodeName": "n", "devices": [{"name": "d", "allowMultipleAllocations": True}]},
        {"nodeName": "n", "devices": [{"name": "d", "bindsToNode": True}]},
        {
            "nodeName": "n",
            "devices": [
                {"name": "d", "bindingConditions": ["Ready"], "bindingFailureConditions": ["Bad"]}
            ],
        },
        {
            "perDeviceNodeSelection": True,
            "devices": [{"name": "d", "nodeName": "n"}, {"name": "e", "allNodes": True}],
        },
        {"nodeName": "n", "sharedCounters": [{"name": "s", "counters": {"c": {"value": "1"}}}]},
        {
            "nodeName": "n",
            "devices": [
                {
                    "name": "d",
                    "consumesCounters": [{"counterSet": "s", "counters": {"c": {"value": "1"}}}],
                }
            ],
        },
        {
            "nodeName": "n",
            "devices": [
                {"name": "d", "attributes": {"a": {"bool": True}, "b": {"version": "1.0.0"}}}
            ],
        },
        {"nodeName": "n", "devices": [{"name": "d", "attributes": {"a": {"ints": [1, 2]}}}]},
    )
    for each in slices:
        spec = {"driver": "d.example.com", "pool": pool, **each}
        yield _object(version, "ResourceSlice", "s", spec=spec)


def _others() -> Iterator[JsonObject]:
    labels = {"app": "w"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "c", "image": "x"}]},
    }
    yield _object("v1", "Namespace", "space")
    yield {
        **_object("v1", "Namespace", "space"),
        "metadata": {"name": "space", "labels": {"a": "b"}},
    }
    yield _object("v1", "Service", "s", spec={"selector": labels, "ports": [{"port": 80}]})
    yield _object("v1", "Service", "s", spec={"clusterIP": "None"})
    yield _object("v1", "ReplicationController", "r", spec={"template": template})
    yield _object("v1", "ReplicationController", "r", spec={"template": template, "selector": {}})
    selector = {"matchLabels": labels}
    workload = {"selector": selector, "template": template}
    yield _object("apps/v1", "ReplicaSet", "r", spec=workload)
    yield _object("apps/v1", "StatefulSet", "s", spec={**workload, "serviceName": "s"})
    yield _object("policy/v1", "PodDisruptionBudget", "b", spec={"selector": selector})
    yield _object("policy/v1", "PodDisruptionBudget", "b", spec={"minAvailable": 1, "selector": {}})
    yield _object("scheduling.k8s.io/v1", "PriorityClass", "p", value=5)
    yield _object("scheduling.k8s.io/v1", "PriorityClass", "p", preemptionPolicy="Never")
    yield _object("v1", "ResourceQuota", "q", spec={"hard": {"cpu": "4", "requests.memory": "1Gi"}})
    yield _object(
        "v1", "ResourceQuota", "q", spec={"hard": {"pods": "4"}, "scopes": ["Terminating"]}
    )
    for item in (
        {"max": {"cpu": "4"}},
        {"max": {"cpu": "4"}, "min": {"cpu": "1", "memory": "1Mi"}},
        {"max": {"cpu": "4"}, "default": {"cpu": "2"}},
        {"defaultRequest": {"cpu": "1"}, "default": {"cpu": "2", "memory": "1Gi"}},
    ):
        limits = [{"type": "Container", **item}]
        yield _object("v1", "LimitRange", "l", spec={"limits": limits})
    yield _object("v1", "LimitRange", "l", spec={"limits": [{"type": "Pod", "max": {"cpu": "4"}}]})
    yield _object("node.k8s.io/v1", "RuntimeClass", "r", handler="h")
    fixed = {"overhead": {"podFixed": {"cpu": "1"}}, "scheduling": {"tolerations": [{"key": "a"}]}}
    yield _object("node.k8s.io/v1", "RuntimeClass", "r", handler="h", **fixed)
