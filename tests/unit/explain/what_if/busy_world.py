"""A world in which every stateful in-tree plugin has something to lose, and random questions."""

from __future__ import annotations

import random
from typing import Any, Final

import msgspec

from plugins.volume_binding.plugin import VolumeBinding
from scheduler import offline

JsonObject = dict[str, Any]
ZONE: Final = "topology.kubernetes.io/zone"
NODES: Final = 4
CLAIMED: Final = "default/assumed"
"""A claim that VolumeBinding has assumed to be bound, as between Reserve and the watch."""

HOSTILE: Final[tuple[Any, ...]] = (
    None, True, -1, 2**63, 1e300, "", "\x1b[2J", "\u202e", "9" * 50, "1e18", "x" * 300,
    [], {}, [[]], {"a": None},
    [{"name": "c", "resources": {"requests": {"cpu": "9e18", "x.y/z": "1"}}}],
)  # fmt: skip
PATHS: Final = (
    "/metadata/uid", "/metadata/name", "/metadata/namespace", "/metadata/labels", "/metadata",
    "/metadata/labels/app", "/metadata/annotations", "/metadata/deletionTimestamp",
    "/metadata/resourceVersion", "/metadata/ownerReferences", "/spec", "/spec/nodeName",
    "/spec/containers", "/spec/volumes", "/spec/priority", "/spec/schedulerName",
    "/spec/topologySpreadConstraints", "/spec/affinity", "/spec/unschedulable", "/spec/taints",
    "/spec/volumeName", "/spec/claimRef", "/spec/capacity", "/spec/drivers", "/spec/hard",
    "/spec/storageClassName", "/status", "/status/phase", "/status/allocatable",
    "/status/allocatable/cpu", "/status/disruptionsAllowed", "/volumeBindingMode", "/value",
    "/provisioner", "", "/", "x",
)  # fmt: skip


def manifest(kind: str, name: str, version: str = "v1", **parts: Any) -> JsonObject:
    """An object of any kind; all but those of the cluster are in `default`."""
    metadata = {"name": name, **parts.pop("metadata", {})}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **parts}


def claim(name: str, storage_class: str, volume: str = "") -> JsonObject:
    """A claim, bound if it has a volume."""
    spec: JsonObject = {
        "accessModes": ["ReadWriteOnce"], "storageClassName": storage_class,
        "resources": {"requests": {"storage": "1Gi"}},
    }  # fmt: skip
    annotations = {"pv.kubernetes.io/bind-completed": "yes"} if volume else {}
    status = {"phase": "Bound" if volume else "Pending"}
    metadata = {"namespace": "default", "annotations": annotations}
    spec |= {"volumeName": volume} if volume else {}
    return manifest("PersistentVolumeClaim", name, metadata=metadata, spec=spec, status=status)


def volume(name: str, storage_class: str, claimed: str = "") -> JsonObject:
    """A volume, reserved for a claim if it has one."""
    spec: JsonObject = {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class, "csi": {"driver": "disk", "volumeHandle": name},
    }  # fmt: skip
    if claimed:
        spec["claimRef"] = {"namespace": "default", "name": claimed}
    phase = "Bound" if claimed else "Available"
    return manifest("PersistentVolume", name, spec=spec, status={"phase": phase})


def mounting(name: str, *claims: str, **fields: Any) -> JsonObject:
    """A pod with these claims."""
    volumes = [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims]
    return offline.pod(name, spec={"volumes": volumes}, **fields)


def objects() -> list[JsonObject]:
    """Nodes, pods and volumes in every state; two quotas, one of them used up."""
    storage = {"version": "storage.k8s.io/v1", "provisioner": "disk"}
    found = [
        manifest("StorageClass", "late", volumeBindingMode="WaitForFirstConsumer", **storage),
        manifest("StorageClass", "now", volumeBindingMode="Immediate", **storage),
        volume("v-bound", "late", "bound"), *(volume(f"v-{i}", "late") for i in range(3)),
        claim("bound", "late", "v-bound"), claim("assumed", "late"), claim("free", "late"),
        claim("immediate", "now"),
        manifest("ResourceQuota", "q", metadata={"namespace": "held"},
                 spec={"hard": {"deferred.kubestow.io/requests.cpu-millis": "1k"}}),
        manifest("PodDisruptionBudget", "b", "policy/v1", metadata={"namespace": "default"},
                 spec={"selector": {"matchLabels": {"app": "web"}}},
                 status={"disruptionsAllowed": 1}),
    ]  # fmt: skip
    for index in range(NODES):
        labels = {ZONE: "ab"[index % 2]}
        found.append(offline.node(f"n{index}", cpu=4, labels=labels))
        drivers = [{"name": "disk", "nodeID": f"n{index}", "allocatable": {"count": 1 + index}}]
        found.append(
            manifest("CSINode", f"n{index}", "storage.k8s.io/v1", spec={"drivers": drivers})
        )
        found += (offline.pod(f"web-{index}-{i}", labels={"app": "web"}, node=f"n{index}")
                  for i in range(2))  # fmt: skip
    spread = {
        "maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }  # fmt: skip
    found += (
        mounting("disk", "bound", node="n1"),
        mounting("waits", "immediate"),
        offline.pod("big", cpu=40, priority=9, spec={"topologySpreadConstraints": [spread]}),
        *(offline.pod(f"held-{i}", cpu="700m", namespace="held") for i in range(3)),
    )
    return found


def busy_world() -> offline.World:
    """The world, with one live assumption about a claim and one about a volume."""
    world = offline.World(seed=5)
    world.add_all(objects())
    world.schedule()
    (framework,) = world._assembly.scheduling.engine.frameworks.values()
    plugin = framework.plugins["VolumeBinding"]
    assert isinstance(plugin, VolumeBinding)
    matcher = plugin._matcher
    known = matcher.claims.watched("assumed", "default")
    spare = matcher.volumes.watched("v-0")
    assert known is not None
    assert spare is not None
    assert matcher.claims.assume(msgspec.structs.replace(known))
    assert matcher.volumes.assume(msgspec.structs.replace(spare))
    return world


def random_change(chance: random.Random, world: offline.World) -> JsonObject:
    """A change of any object, sensible or not."""
    stores = world._assembly.tables.stores
    plural = chance.choice(sorted(name for name, store in stores.items() if store.by_keys()))
    kind, key = chance.choice(
        sorted((type(each).__name__, key) for key, each in stores[plural].by_keys().items())
    )
    change: JsonObject = {"kind": kind, "name": key}
    match chance.randrange(6):
        case 0 | 1:
            return {**change, "action": "remove"}
        case 2:
            made = chance.choice(objects())
            made["metadata"] |= chance.choice([{}, {"name": "new"}, {"uid": uid(chance, world)}])
            name = made["metadata"]["name"]
            return {"action": "add", "kind": made["kind"], "name": name, "value": made}
    value = chance.choice([*HOSTILE, uid(chance, world), "n1", "2", {"app": "db"}])
    return {**change, "action": "set", "path": chance.choice(PATHS), "value": value}


def uid(chance: random.Random, world: offline.World) -> str:
    """Return the UID of one of the pods."""
    pods = world._assembly.tables.stores["pods"].list()
    return chance.choice(sorted(str(each.uid) for each in pods))


def random_question(chance: random.Random, world: offline.World) -> JsonObject:
    """A question, which may be nonsense."""
    question: JsonObject = {"copies": chance.randint(1, 9)}
    if chance.random() < 0.5:
        question["pod"] = chance.choice(["default/big", "default/waits", "held/held-2"])
    else:
        pod = mounting(
            chance.choice(["fresh", "web-0-0"]), *chance.choice([(), ("free",), ("bound",)])
        )
        pod["metadata"]["uid"] = uid(chance, world)
        question["manifest"] = pod
    question["changes"] = [random_change(chance, world) for _ in range(chance.randint(0, 4))]
    if chance.random() < 0.3:
        question["fields"] = {chance.choice(PATHS): chance.choice(HOSTILE)}
    if chance.random() < 0.3:
        question["drop_nodes"] = [chance.choice(["n0", f"{ZONE}=a"])]
    if chance.random() < 0.3:
        question["add_nodes"] = [{"like": "n2", "count": chance.randint(1, 3)}]
    if chance.random() < 0.2:
        question["remove_pods"] = [chance.choice(["web-0-0", "disk", "big"])]
    return question
