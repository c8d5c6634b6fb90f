"""Random worlds: what stands before the first pod comes in, and the pods that then come in.

Two sources: `drawn` makes everything up; `crossed` takes the objects of one recorded conformance
vector and lets the pods of others of its family come in.
"""

from __future__ import annotations

import copy
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from benchmarks.fuzz.drawing import APPS, FPGA, IGNORED, IMAGES, REGION, SPACES, ZONES, Draw
from benchmarks.fuzz.pods import pod, running
from benchmarks.fuzz.profiles import DEFAULT, GPU, HOSTNAME, ZONE
from benchmarks.fuzz.volumes import storage
from devtools.conformance.reading import Vector, find_files
from devtools.conformance.upstream_faults import FAULTS

Object = dict[str, Any]

FAMILIES: Final = (
    "spread", "interpod", "volumes", "taints", "nodeaffinity", "resources", "images", "ports",
    "preemption", "nominated", "extremes", "features", "mixed", "changing",
)  # fmt: skip
CROSSED: Final = "crossed-"
"""Before the name of a family of vectors."""


@dataclass(frozen=True, slots=True)
class World:
    """Objects to create, and the pods that arrive one after the other."""

    objects: dict[str, list[Object]]
    incoming: tuple[Object, ...]
    #: Pods that come first, and stay if a node is nominated for them.
    nominees: tuple[Object, ...] = ()
    #: Draws what changes between pods, if anything does.
    changes: Draw | None = field(default=None, compare=False)


def drawn(family: str, seed: int, pods: int) -> World:
    """Everything made up."""
    draw = Draw(seed, family)
    nodes = draw.number(1, 40 if draw.chance(0.1) else 12)
    objects: dict[str, list[Object]] = {
        "nodes": [_node(draw, index) for index in range(nodes)],
        "namespaces": [_namespace(draw, name) for name in sorted(set(SPACES))],
        "pods": [running(draw, index, nodes) for index in range(_population(draw, nodes))],
        "services": [_service(draw, index) for index in range(draw.number(0, 4))],
        "podDisruptionBudgets": [_budget(draw, index) for index in range(draw.number(0, 4))],
        **_controllers(draw),
    }
    if draw.about("volumes") > 0.1:
        objects.update(storage(draw, nodes))
    incoming = tuple(pod(draw, f"in-{index}", nodes, incoming=True) for index in range(pods))
    nominees = [
        pod(draw, f"nominee-{index}", nodes, incoming=True)
        for index in range(5 if family == "nominated" else 0)
    ]
    for each in nominees:
        each["spec"] |= {"schedulerName": DEFAULT, "priority": draw.one(50, 1000, 2000)}
        each["spec"].pop("preemptionPolicy", None)
    changes = Draw(-seed, family) if family == "changing" else None
    return World(objects, incoming, tuple(nominees), changes)


def _population(draw: Draw, nodes: int) -> int:
    return draw.number(3 * nodes, 7 * nodes) if draw.crowded else draw.number(0, 4 * nodes)


def change(draw: Draw, objects: Mapping[str, Sequence[Object]]) -> tuple[str, str, Object, Object]:
    """Something that happens: verb, kind, the object it happens to, and the body if any."""
    nodes = len(objects["nodes"])
    kind = draw.one("pods", "pods", "nodes", "nodes", "namespaces", *objects)
    if kind == "pods" and draw.chance(0.4):
        return "POST", kind, {}, running(draw, draw.number(1000, 10**6), max(nodes, 1))
    if not objects[kind]:
        return "", kind, {}, {}
    target = draw.one(*objects[kind])
    if kind == "nodes" and draw.chance(0.8):
        fresh = _node(draw, 0)
        name = target["metadata"]["name"]
        old = dict.fromkeys(target["metadata"].get("labels", {}))
        labels = fresh["metadata"]["labels"] | {HOSTNAME: name}
        body: Object = draw.one(
            {"metadata": {"labels": {**old, **labels}}},
            {"spec": {"taints": fresh["spec"].get("taints")}},
            {"spec": {"unschedulable": draw.chance(0.5)}},
            {"status": fresh["status"]},
        )
        return "PATCH", kind, target, body
    if kind == "namespaces":
        return "PATCH", kind, target, {"metadata": {"labels": {"env": draw.one("live", "test")}}}
    if kind == "pods" and draw.chance(0.3):
        return "PATCH", kind, target, {"metadata": {"labels": draw.labels()}}
    return "DELETE", kind, target, {"gracePeriodSeconds": 0}


class MutatedWorld:
    """Recorded vectors by family, without those that hold a fault or have several profiles."""

    def __init__(self, directory: Path) -> None:
        self._vectors: dict[str, list[Vector]] = defaultdict(list)
        #: To be added to kube-scheduler's configuration.
        self.profiles: list[Object] = []
        for file in find_files([directory], []):
            if not file.unit:
                self._vectors[file.family] += [each for each in file.vectors() if self._takes(each)]

    @property
    def families(self) -> list[str]:
        """Families of vectors, as families of worlds."""
        return [CROSSED + name for name in sorted(self._vectors)]

    def world(self, family: str, seed: int, pods: int) -> World:
        """The objects of one vector, and pods of its family, each as it is or a little changed."""
        chance = random.Random(f"{family} {seed}")
        vectors = self._vectors[family.removeprefix(CROSSED)]
        objects = {
            kind: list(each) for kind, each in chance.choice(vectors)["input"]["objects"].items()
        }
        objects["pods"] = [each for each in objects.get("pods", []) if each["spec"].get("nodeName")]
        found = []
        for index in range(pods):
            each = copy.deepcopy(chance.choice(vectors)["input"]["pod"])
            each["metadata"]["name"] = f"in-{index}"
            each["spec"].pop("nodeName", None)
            each["spec"].pop("schedulingGates", None)
            each.pop("status", None)
            each["metadata"].pop("uid", None)
            if chance.random() < 0.5:
                other = chance.choice(vectors)["input"]["pod"]["spec"]
                name = chance.choice(sorted(set(other) - {"containers", "volumes"}))
                each["spec"][name] = copy.deepcopy(other[name])
                each["spec"].pop("nodeName", None)
                each["spec"].pop("schedulingGates", None)
            found.append(each)
        return World(objects, tuple(found))

    def _takes(self, vector: Vector) -> bool:
        if vector["id"] in FAULTS:
            return False
        given = vector["input"]
        config = given.get("config")
        if config is None:
            return True
        if len(config.get("profiles", ())) != 1 or set(config) - {"apiVersion", "kind", "profiles"}:
            return False
        name = f"vector-{len(self.profiles)}"
        self.profiles.append({**config["profiles"][0], "schedulerName": name})
        given["pod"]["spec"]["schedulerName"] = name
        return True


def _node(draw: Draw, index: int) -> Object:
    name = f"node-{index:02d}"
    labels, resources = _node_labels(draw, name), _node_resources(draw)
    spec: Object = {}
    if draw.chance(0.06):
        spec["unschedulable"] = True
    if draw.dwells("taints") or draw.chance(0.1):
        taints = {}
        for _ in range(draw.number(1, 3)):
            taint = _taint(draw)
            taints[taint["key"], taint["effect"]] = taint
        spec["taints"] = list(taints.values())
    status: Object = {
        "capacity": resources, "allocatable": resources,
        "conditions": [{"type": "Ready", "status": "True"}],
    }  # fmt: skip
    if draw.dwells("images"):
        status["images"] = [_image(draw, name) for name in draw.some(IMAGES)]
    if draw.dwells("features"):
        status["declaredFeatures"] = sorted(
            draw.some(["RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport"])
        )
    return {
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
        "spec": spec, "status": status,
    }  # fmt: skip


def _node_labels(draw: Draw, name: str) -> dict[str, str]:
    labels: dict[str, str] = {}
    if draw.chance(0.97):
        labels[HOSTNAME] = name
    if draw.chance(0.9):
        labels[ZONE] = draw.one(*ZONES)
    if draw.chance(0.6):
        labels[REGION] = draw.one("r1", "r2")
    if draw.chance(0.3):
        labels["rack"] = draw.one("", "r1", "r2")
    if draw.chance(0.7):
        labels["disk"] = draw.one("ssd", "hdd")
    if draw.chance(0.5):
        labels["gen"] = draw.one("1", "2", "3", "x", "", "0x3", "9223372036854775808")
    return labels


def _node_resources(draw: Draw) -> dict[str, str]:
    resources = {
        "cpu": draw.one("1", "2", "4", "4", "8", "0", "3500m"),
        "memory": draw.one("2Gi", "4Gi", "8Gi", "16Gi", "7900000Ki", "0"),
        "pods": draw.one("3", "5", "10", "110", "0") if draw.chance(0.3) else "110",
    }
    if draw.family == "extremes" and draw.chance(0.6):
        resources["cpu"] = draw.one("1n", "1e9", "1e12", "1500u")
        resources["memory"] = draw.one("1n", "1Pi", "30Pi", "45P", "1Ti")
        resources["ephemeral-storage"] = draw.one("500m", "5Gi", "1Pi")
    if draw.chance(0.02):
        resources.pop(draw.one("cpu", "memory", "pods"))
    if draw.chance(0.5):
        resources["ephemeral-storage"] = draw.one("10Gi", "50Gi", "0")
    if draw.chance(0.4):
        resources[draw.one(GPU, GPU, FPGA)] = draw.one("0", "2", "4", "8")
    if draw.chance(0.1):
        resources[IGNORED] = "1"
    if draw.chance(0.15):
        resources["hugepages-2Mi"] = draw.one("64Mi", "1Gi", "0")
    return resources


def _taint(draw: Draw) -> Object:
    found: Object = {
        "key": draw.one("dedicated", "spot", "node.kubernetes.io/unschedulable"),
        "effect": draw.one("NoSchedule", "PreferNoSchedule", "NoExecute"),
    }
    if draw.chance(0.6):
        found["value"] = draw.one("x", "y")
    return found


def _image(draw: Draw, name: str) -> Object:
    full = name if ":" in name else f"{name}:latest"
    names = [draw.one(full, full, name), f"{name.split(':', maxsplit=1)[0]}@sha256:{'a' * 64}"]
    return {
        "names": names[: draw.number(1, 2)],
        "sizeBytes": draw.one(0, 1, 10 << 20, 23 << 20, 300 << 20, 900 << 20, 5 << 30),
    }


def _namespace(draw: Draw, name: str) -> Object:
    labels = {}
    if draw.chance(0.7):
        labels["env"] = draw.one("live", "test")
    if draw.chance(0.5):
        labels["team"] = draw.one("red", "blue")
    return {"metadata": {"name": name, "labels": labels}}


def _service(draw: Draw, index: int) -> Object:
    spec: Object = {"ports": [{"port": 80}]}
    if draw.chance(0.9):
        spec["selector"] = {"app": draw.one(*APPS)}
        if draw.chance(0.2):
            spec["selector"]["tier"] = "front"
    return {"metadata": {"name": f"service-{index}", "namespace": draw.one(*SPACES)}, "spec": spec}


def _controllers(draw: Draw) -> dict[str, list[Object]]:
    found: dict[str, list[Object]] = {}
    for kind in ("replicaSets", "statefulSets", "replicationControllers"):
        made = []
        for space in sorted(set(SPACES)):
            for name in draw.some(APPS, 2):
                labels = {"app": name} | ({"tier": "back"} if draw.chance(0.3) else {})
                simple = kind == "replicationControllers"
                spec: Object = {
                    "replicas": 0,
                    "selector": labels if simple else {"matchLabels": labels},
                    "template": {
                        "metadata": {"labels": labels},
                        "spec": {"containers": [{"name": "c", "image": "i"}]},
                    },
                }
                if kind == "statefulSets":
                    spec["serviceName"] = "x"
                made.append({"metadata": {"name": name, "namespace": space}, "spec": spec})
        found[kind] = made
    return found


def _budget(draw: Draw, index: int) -> Object:
    spec: Object = {"minAvailable": 1}
    selector = draw.selector()
    if selector is not None:
        spec["selector"] = selector
    return {
        "metadata": {"name": f"budget-{index}", "namespace": draw.one(*SPACES)},
        "spec": spec,
        "status": {
            "disruptionsAllowed": draw.one(0, 0, 1, 2), "currentHealthy": 1, "desiredHealthy": 1,
            "expectedPods": 1,
        },
    }  # fmt: skip
