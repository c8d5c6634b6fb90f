"""Nodes and pods of nine kinds, each with another wish, drawn from a seed."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final

from benchmarks.templates import HOSTNAME, IMAGE, ZONE, Object
from benchmarks.volume_templates import volume

ZONES: Final = ("a", "b", "c")
NAMESPACE: Final = "default"


def node(source: random.Random, index: int) -> Object:
    """Return a node of one of three zones and four sizes."""
    name = f"node-{index:04d}"
    cpu = source.choice((4, 8, 16, 32))
    resources = {"cpu": str(cpu), "memory": f"{4 * cpu}Gi", "pods": "110"}
    spec: Object = {}
    if source.random() < 0.1:
        effect = source.choice(("NoSchedule", "PreferNoSchedule"))
        spec["taints"] = [{"key": "dedicated", "value": "batch", "effect": effect}]
    labels = {HOSTNAME: name, ZONE: ZONES[index % 3], "disk": source.choice(("ssd", "hdd"))}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def _spread(key: str, when: str, app: str) -> Object:
    return {
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": key,
                "whenUnsatisfiable": when,
                "labelSelector": {"matchLabels": {"app": app}},
            }
        ]
    }


def _term(app: str, key: str) -> Object:
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}


def _prefers(key: str, values: list[str], weight: int) -> Object:
    expression = {"key": key, "operator": "In", "values": values}
    preference = {"matchExpressions": [expression]}
    preferred = [{"weight": weight, "preference": preference}]
    affinity = {"preferredDuringSchedulingIgnoredDuringExecution": preferred}
    return {"affinity": {"nodeAffinity": affinity}}


def _anti_affinity(app: str) -> Object:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [_term(app, HOSTNAME)]}
    return {"affinity": {"podAntiAffinity": required}}


def _near(app: str) -> Object:
    preferred = [{"weight": 50, "podAffinityTerm": _term(app, ZONE)}]
    affinity = {"preferredDuringSchedulingIgnoredDuringExecution": preferred}
    return {"affinity": {"podAffinity": affinity}}


KINDS: Final[dict[str, Callable[[int], Object]]] = {
    "plain": lambda _: {},
    "selector": lambda _: {"nodeSelector": {"disk": "ssd"}},
    "tolerant": lambda _: {"tolerations": [{"key": "dedicated", "operator": "Exists"}]},
    "preference": lambda _: _prefers("disk", ["hdd"], 30),
    "zones": lambda _: _spread(ZONE, "DoNotSchedule", "zones"),
    "hosts": lambda _: _spread(HOSTNAME, "ScheduleAnyway", "hosts"),
    "apart": lambda _: _anti_affinity("apart"),
    "near": lambda _: _near("plain"),
    "volume": lambda index: {
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": f"pvc-{index}"}}]
    },
}
"""The spec of each kind, beside containers, by the number of the pod."""


def pod(source: random.Random, index: int, scheduler: str) -> tuple[str, Object]:
    """Return the kind of a pod, and the pod."""
    kind = source.choice(tuple(KINDS))
    requests = {
        "cpu": f"{source.choice((100, 250, 500, 1000))}m",
        "memory": f"{source.choice((128, 256, 512, 1024))}Mi",
    }
    container = {"name": "main", "image": IMAGE, "resources": {"requests": requests}}
    spec = {"schedulerName": scheduler, "containers": [container], **KINDS[kind](index)}
    metadata = {"name": f"{kind}-{index:05d}", "namespace": NAMESPACE, "labels": {"app": kind}}
    return kind, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def storage(index: int) -> tuple[Any, Any]:
    """Return the claim of a pod and the volume bound to it."""
    claim, persistent, _ = volume("csi", NAMESPACE, index)
    return claim, persistent
