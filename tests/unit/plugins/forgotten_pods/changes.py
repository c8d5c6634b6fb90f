"""Changes of a small world: nodes, pods, namespaces, quotas, volumes and devices come, go, change.

A change is data. What it cannot do to the world, as an API server would refuse it, it leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from scheduler import offline
from scheduler.api import Pod
from scheduler.client.resources import PODS
from scheduler.offline.editing import WorldError
from scheduler.offline.world import World

Change = tuple[str, Mapping[str, Any]]
"""The name of a function of `DO`, and its arguments."""

ZONE: Final = "topology.kubernetes.io/zone"
DRIVER: Final = "gpu.example.com"
CSI: Final = "csi.example.com"


def apply(world: World, change: Change) -> None:
    """Make one change; one that is impossible is skipped."""
    name, arguments = change
    try:
        DO[name](world, **arguments)
    except WorldError:
        # There is no such object, or its pod has a node by now.
        return


def _pod(
    world: World,
    *,
    name: str,
    namespace: str,
    spec: dict[str, Any],
    ports: Sequence[Any] = (),
    gpus: int = 0,
    **more: Any,
) -> None:
    if world._assembly.tables.stores["pods"].by_key(f"{namespace}/{name}") is not None:
        return
    resources = {"example.com/gpu": gpus} if gpus else None
    made = offline.pod(name, namespace=namespace, spec=spec, resources=resources, **more)
    made["spec"]["containers"][0]["ports"] = list(ports)
    world.add(made)


def _node(world: World, *, gpus: int = 0, **more: Any) -> None:
    world.add(offline.node(resources={"example.com/gpu": gpus} if gpus else None, **more))


def _no_node(world: World, name: str) -> None:
    """Its pods stay, until the garbage collector removes them."""
    world.remove("Node", name)


def _no_pod(world: World, name: str, namespace: str) -> None:
    world.remove("Pod", name, namespace)


def _relabel(world: World, name: str, namespace: str, labels: dict[str, str]) -> None:
    pod = world.pod(f"{namespace}/{name}")
    metadata = msgspec.structs.replace(pod.metadata, labels=labels)
    world._put_item(PODS, _newer(pod, metadata=metadata))


def _tolerate(world: World, name: str, namespace: str, tolerations: list[Any]) -> None:
    """Tolerations can be added to a pod, never removed."""
    pod = world.pod(f"{namespace}/{name}")
    made = offline.pod(spec={"tolerations": tolerations})
    _, decoded = world._decoded(made)
    added = (*pod.spec.tolerations, *decoded.spec.tolerations)
    world._put_item(PODS, _newer(pod, spec=msgspec.structs.replace(pod.spec, tolerations=added)))


def _open_gates(world: World, name: str, namespace: str) -> None:
    pod = world.pod(f"{namespace}/{name}")
    world._put_item(PODS, _newer(pod, spec=msgspec.structs.replace(pod.spec, scheduling_gates=())))


def _newer(pod: Pod, **parts: Any) -> Pod:
    return msgspec.structs.replace(pod, interned=None, **parts)


def _object(world: World, version: str, kind: str, name: str, **parts: Any) -> None:
    namespace = parts.pop("namespace", "")
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    metadata |= parts.pop("metadata", {})
    world.add({"apiVersion": version, "kind": kind, "metadata": metadata, **parts})


def _namespace(world: World, name: str, labels: dict[str, str]) -> None:
    labels = {"kubernetes.io/metadata.name": name, **labels}
    _object(world, "v1", "Namespace", name, metadata={"labels": labels})


def _quota(world: World, namespace: str, cpu: int | None) -> None:
    if cpu is None:
        world.remove("ResourceQuota", "quota", namespace)
        return
    hard = {"deferred.kubestow.io/requests.cpu-millis": str(cpu)}
    _object(
        world, "v1", "ResourceQuota", "quota", namespace=namespace,
        spec={"hard": hard}, status={"hard": hard},
    )  # fmt: skip


def _claim(
    world: World, name: str, namespace: str, storage: str, volume: str, modes: list[str]
) -> None:
    """Bound for good if it names a volume; nothing else of a claim can change."""
    stores = world._assembly.tables.stores
    known = stores["persistentvolumeclaims"].by_key(f"{namespace}/{name}")
    if known is not None:
        if known.spec.volume_name:
            return
        storage, modes = known.spec.storage_class_name, list(known.spec.access_modes)
    if any(each.spec.volume_name == volume for each in stores["persistentvolumeclaims"].list()):
        volume = ""
    bound = {"pv.kubernetes.io/bind-completed": "yes"} if volume else {}
    _object(
        world, "v1", "PersistentVolumeClaim", name, namespace=namespace,
        metadata={"annotations": bound},
        spec={
            "accessModes": modes, "storageClassName": storage, "volumeName": volume,
            "resources": {"requests": {"storage": "1Gi"}},
        },
        status={"phase": "Bound" if volume else "Pending"},
    )  # fmt: skip


def _no_claim(world: World, name: str, namespace: str) -> None:
    """A claim that a running pod uses is protected."""
    pods = world._assembly.tables.stores["pods"].list(namespace)
    used = {
        volume.persistent_volume_claim.claim_name
        for pod in pods
        if pod.spec.node_name
        for volume in pod.spec.volumes
        if volume.persistent_volume_claim is not None
    }
    if name not in used:
        world.remove("PersistentVolumeClaim", name, namespace)


def _volume(world: World, name: str, storage: str, zone: str, zone_label: str) -> None:
    spec: dict[str, Any] = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce", "ReadWriteOncePod"],
        "storageClassName": storage,
        "csi": {"driver": CSI, "volumeHandle": name},
    }
    if zone:
        expression = {"key": ZONE, "operator": "In", "values": [zone]}
        terms = [{"matchExpressions": [expression]}]
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    labels = {ZONE: zone_label} if zone_label else {}
    _object(
        world, "v1", "PersistentVolume", name, metadata={"labels": labels}, spec=spec,
        status={"phase": "Available"},
    )  # fmt: skip


def _storage_class(world: World, name: str, provisioner: str, zones: list[str]) -> None:
    """The provisioner of a class cannot change."""
    known = world._assembly.tables.stores["storageclasses"].by_key(name)
    if known is not None:
        provisioner = known.provisioner
    topologies = [{"matchLabelExpressions": [{"key": ZONE, "values": zones}]}] if zones else []
    _object(
        world, "storage.k8s.io/v1", "StorageClass", name,
        provisioner=provisioner, allowedTopologies=topologies,
        volumeBindingMode="Immediate" if name == "now" else "WaitForFirstConsumer",
    )  # fmt: skip


def _csi_node(world: World, name: str, count: int) -> None:
    driver = {"name": CSI, "nodeID": name, "allocatable": {"count": count}}
    _object(world, "storage.k8s.io/v1", "CSINode", name, spec={"drivers": [driver]})


def _driver(world: World, capacity: bool) -> None:
    _object(world, "storage.k8s.io/v1", "CSIDriver", CSI, spec={"storageCapacity": capacity})


def _capacity(world: World, storage: str, zone: str, size: str) -> None:
    _object(
        world, "storage.k8s.io/v1", "CSIStorageCapacity", f"{storage}-{zone}",
        namespace="default", storageClassName=storage, capacity=size,
        nodeTopology={"matchLabels": {ZONE: zone}},
    )  # fmt: skip


def _attachment(world: World, node: str, volume: str) -> None:
    _object(
        world, "storage.k8s.io/v1", "VolumeAttachment", f"{node}-{volume}",
        spec={"attacher": CSI, "nodeName": node, "source": {"persistentVolumeName": volume}},
    )  # fmt: skip


def _device_class(world: World, name: str, extended: bool = False) -> None:
    expression = f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].kind == "{name}"'
    spec: dict[str, Any] = {"selectors": [{"cel": {"expression": expression}}]}
    if extended:
        spec["extendedResourceName"] = "example.com/gpu"
    _object(world, "resource.k8s.io/v1", "DeviceClass", name, spec=spec)


def _slice(world: World, node: str, devices: int, tainted: bool = False) -> None:
    taints = [{"key": "bad", "effect": "NoSchedule"}] if tainted else []
    made = [
        {"name": f"dev-{number}", "attributes": {"kind": {"string": kind}}, "taints": taints}
        for number, kind in enumerate(("gpu", "net")[:devices])
    ]
    _object(
        world, "resource.k8s.io/v1", "ResourceSlice", node,
        spec={
            "driver": DRIVER, "nodeName": node, "devices": made,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
        },
    )  # fmt: skip


def _device_claim(world: World, name: str, namespace: str, kind: str, count: int) -> None:
    stores = world._assembly.tables.stores
    if stores["resourceclaims"].by_key(f"{namespace}/{name}") is not None:
        return
    request = {"name": "r", "exactly": {"deviceClassName": kind, "count": count}}
    _object(
        world, "resource.k8s.io/v1", "ResourceClaim", name, namespace=namespace,
        spec={"devices": {"requests": [request]}},
    )  # fmt: skip


def _remover(kind: str, argument: str = "name") -> Callable[..., None]:
    def remove(world: World, **arguments: str) -> None:
        world.remove(kind, arguments[argument], arguments.get("namespace", ""))

    return remove


def _no_capacity(world: World, storage: str, zone: str, size: str) -> None:
    world.remove("CSIStorageCapacity", f"{storage}-{zone}", "default")


def _no_attachment(world: World, node: str, volume: str) -> None:
    world.remove("VolumeAttachment", f"{node}-{volume}")


DO: Final[Mapping[str, Callable[..., None]]] = {
    "pod": _pod,
    "node": _node,
    "no_node": _no_node,
    "no_pod": _no_pod,
    "relabel": _relabel,
    "tolerate": _tolerate,
    "namespace": _namespace,
    "quota": _quota,
    "claim": _claim,
    "no_claim": _no_claim,
    "volume": _volume,
    "storage_class": _storage_class,
    "csi_node": _csi_node,
    "no_csi_node": _remover("CSINode"),
    "no_volume": _remover("PersistentVolume"),
    "no_storage_class": _remover("StorageClass"),
    "driver": _driver,
    "capacity": _capacity,
    "no_capacity": _no_capacity,
    "attachment": _attachment,
    "no_attachment": _no_attachment,
    "no_device_class": _remover("DeviceClass"),
    "open_gates": _open_gates,
    "device_class": _device_class,
    "slice": _slice,
    "no_slice": _remover("ResourceSlice", "node"),
    "device_claim": _device_claim,
    "no_device_claim": _remover("ResourceClaim"),
}
