"""Short ways to write volumes, claims and classes, and a cluster that has them."""

from __future__ import annotations

from typing import Any

import msgspec

from scheduler.api import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    StorageClass,
    VolumeAttachment,
)
from tests.unit.plugins.clusters import Cluster, pod

BOUND = {"pv.kubernetes.io/bind-completed": "yes"}
SELECTED = "volume.kubernetes.io/selected-node"
MIGRATED = "storage.alpha.kubernetes.io/migrated-plugins"
PLURALS: dict[type[Any], str] = {
    PersistentVolume: "persistentvolumes",
    PersistentVolumeClaim: "persistentvolumeclaims",
    StorageClass: "storageclasses",
    CSINode: "csinodes",
    CSIDriver: "csidrivers",
    CSIStorageCapacity: "csistoragecapacities",
    VolumeAttachment: "volumeattachments",
    Pod: "pods",
}


def add(cluster: Cluster, *objects: Any) -> None:
    """Let the cluster's listers show objects, each in place of one of the same name."""
    for each in objects:
        cluster.add_object(PLURALS[type(each)], each)


def using(*claims: str, **metadata: Any) -> Pod:
    """An interned pod with these claims."""
    volumes = [
        {"name": f"v{i}", "persistentVolumeClaim": {"claimName": name}}
        for i, name in enumerate(claims)
    ]
    return pod({"volumes": volumes}, metadata=metadata)


def ephemeral(*volumes: str, **metadata: Any) -> Pod:
    """An interned pod with generic ephemeral volumes of these names."""
    template: dict[str, Any] = {"volumeClaimTemplate": {"spec": {}}}
    made = [{"name": name, "ephemeral": template} for name in volumes]
    return pod({"volumes": made}, metadata=metadata)


def with_volumes(*volumes: dict[str, Any]) -> Pod:
    """An interned pod with in-line volumes, given without their names."""
    named = [{"name": f"v{i}", **each} for i, each in enumerate(volumes)]
    return pod({"volumes": named})


def claim(
    name: str = "c",
    volume: str = "",
    *,
    class_name: str | None = None,
    size: str | None = "1Gi",
    modes: tuple[str, ...] = ("ReadWriteOnce",),
    phase: str = "",
    version: str = "1",
    spec: dict[str, Any] | None = None,
    **metadata: Any,
) -> PersistentVolumeClaim:
    """A claim; bound for good when `volume` is given, unless `annotations` say otherwise."""
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", **metadata}
    metadata.setdefault("annotations", BOUND if volume else {})
    requests = {} if size is None else {"storage": size}
    body = {
        "metadata": {**metadata, "resourceVersion": version},
        "spec": {
            "accessModes": modes,
            "volumeName": volume,
            "storageClassName": class_name,
            "resources": {"requests": requests},
            **(spec or {}),
        },
        "status": {"phase": phase},
    }
    return msgspec.convert(body, PersistentVolumeClaim)


def owned(name: str, pod_uid: str = "u", **more: Any) -> PersistentVolumeClaim:
    """A claim that a pod controls."""
    owner = {"kind": "Pod", "name": "p", "uid": pod_uid, "controller": True}
    return claim(name, ownerReferences=[owner], **more)


def volume(
    name: str = "v",
    *,
    class_name: str = "",
    size: str = "1Gi",
    nodes: dict[str, list[str]] | None = None,
    claimed_by: str = "",
    phase: str = "Available",
    modes: tuple[str, ...] = ("ReadWriteOnce",),
    version: str = "1",
    spec: dict[str, Any] | None = None,
    **metadata: Any,
) -> PersistentVolume:
    """A volume; `nodes` are labels and their values that a node must have."""
    body: dict[str, Any] = {
        "metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": version, **metadata},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": modes,
            "storageClassName": class_name,
            **(spec or {}),
        },
        "status": {"phase": phase},
    }
    if nodes is not None:
        body["spec"]["nodeAffinity"] = {"required": required(nodes)}
    if claimed_by:
        body["spec"]["claimRef"] = {
            "namespace": "default",
            "name": claimed_by,
            "uid": f"uid-{claimed_by}",
        }
    return msgspec.convert(body, PersistentVolume)


def required(labels: dict[str, list[str]]) -> dict[str, Any]:
    """A node selector of one term."""
    expressions = [{"key": k, "operator": "In", "values": v} for k, v in labels.items()]
    return {"nodeSelectorTerms": [{"matchExpressions": expressions}]}


def storage_class(
    name: str = "wait",
    provisioner: str = "csi.example.com",
    mode: str | None = "WaitForFirstConsumer",
    topologies: list[dict[str, list[str]]] | None = None,
) -> StorageClass:
    """A class; `topologies` are alternatives of label values."""
    terms = [
        {"matchLabelExpressions": [{"key": k, "values": v} for k, v in each.items()]}
        for each in topologies or ()
    ]
    body = {
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": mode,
        "allowedTopologies": terms,
    }
    return msgspec.convert(body, StorageClass)


def csi_node(name: str, limits: dict[str, int | None] | None = None, migrated: str = "") -> CSINode:
    """A CSINode with drivers and how many volumes each can attach."""
    drivers = [
        {"name": driver, "nodeID": name, "allocatable": {"count": count}}
        for driver, count in (limits or {}).items()
    ]
    annotations = {MIGRATED: migrated} if migrated else {}
    body = {"metadata": {"name": name, "annotations": annotations}, "spec": {"drivers": drivers}}
    return msgspec.convert(body, CSINode)


def csi_driver(name: str = "csi.example.com", **spec: Any) -> CSIDriver:
    """A CSIDriver."""
    return msgspec.convert({"metadata": {"name": name}, "spec": spec}, CSIDriver)


def capacity(
    name: str = "cap",
    class_name: str = "wait",
    topology: dict[str, str] | None = None,
    **amounts: str,
) -> CSIStorageCapacity:
    """A capacity object for nodes with labels; None for no node at all."""
    body = {
        "metadata": {"name": name, "namespace": "kube-system"},
        "storageClassName": class_name,
        "nodeTopology": None if topology is None else {"matchLabels": topology},
        **amounts,
    }
    return msgspec.convert(body, CSIStorageCapacity)


def attachment(name: str, node: str, volume_name: str, attacher: str) -> VolumeAttachment:
    """A VolumeAttachment."""
    source = {"persistentVolumeName": volume_name}
    body = {
        "metadata": {"name": name},
        "spec": {"attacher": attacher, "nodeName": node, "source": source},
    }
    return msgspec.convert(body, VolumeAttachment)


def csi(handle: str, driver: str = "csi.example.com") -> dict[str, Any]:
    """The CSI source of a volume's spec."""
    return {"csi": {"driver": driver, "volumeHandle": handle}}
