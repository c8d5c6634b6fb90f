"""The smallest valid object of each kind that is watched or read, to build hostile ones on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from devtools.hostile.case import SCHEDULER_NAME, JsonObject

NAMESPACE: Final = "hostile"
IMAGE: Final = "registry.example/none:1"


def _meta(name: str, *, namespaced: bool = True) -> JsonObject:
    return {"name": name, "namespace": NAMESPACE} if namespaced else {"name": name}


def pod(name: str, *, scheduler_name: str = SCHEDULER_NAME, **spec: Any) -> JsonObject:
    """A pod of one container that asks for 10m CPU, for nothing else and for any node."""
    container = {
        "name": "main",
        "image": IMAGE,
        "resources": {"requests": {"cpu": "10m"}},
        **spec.pop("container", {}),
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _meta(name),
        "spec": {"schedulerName": scheduler_name, "containers": [container], **spec},
    }


def node(name: str, **parts: Any) -> JsonObject:
    """A node with room for 110 pods."""
    size = {"cpu": "8", "memory": "16Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {**_meta(name, namespaced=False), "labels": {"kubernetes.io/hostname": name}},
        "status": {"capacity": size, "allocatable": size},
        **parts,
    }


def namespace(name: str) -> JsonObject:
    """A namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": _meta(name, namespaced=False)}


def service(name: str, selector: Mapping[str, str] | None = None) -> JsonObject:
    """A headless Service."""
    spec = {"clusterIP": "None", "ports": [{"port": 80}], "selector": selector or {"app": name}}
    return {"apiVersion": "v1", "kind": "Service", "metadata": _meta(name), "spec": spec}


def replication_controller(name: str, labels: Mapping[str, str] | None = None) -> JsonObject:
    """A ReplicationController without replicas."""
    labels = labels or {"app": name}
    return {
        "apiVersion": "v1",
        "kind": "ReplicationController",
        "metadata": _meta(name),
        "spec": {"replicas": 0, "selector": labels, "template": _template(labels)},
    }


def replica_set(name: str, labels: Mapping[str, str] | None = None) -> JsonObject:
    """A ReplicaSet without replicas."""
    return _workload("ReplicaSet", name, labels or {"app": name})


def stateful_set(name: str, labels: Mapping[str, str] | None = None) -> JsonObject:
    """A StatefulSet without replicas."""
    made = _workload("StatefulSet", name, labels or {"app": name})
    made["spec"]["serviceName"] = "none"
    return made


def _workload(kind: str, name: str, labels: Mapping[str, str]) -> JsonObject:
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": _meta(name),
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": _template(labels),
        },
    }


def _template(labels: Mapping[str, str]) -> JsonObject:
    spec = {"containers": [{"name": "main", "image": IMAGE}]}
    return {"metadata": {"labels": labels}, "spec": spec}


def persistent_volume(name: str, **spec: Any) -> JsonObject:
    """A CSI volume that any node can reach."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": _meta(name, namespaced=False),
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "csi": {"driver": "csi.example", "volumeHandle": name},
            **spec,
        },
    }


def persistent_volume_claim(name: str, **spec: Any) -> JsonObject:
    """A claim for which no provisioner exists."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": _meta(name),
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "hostile",
            **spec,
        },
    }


def storage_class(name: str, **parts: Any) -> JsonObject:
    """A class whose volumes are bound once a pod uses them."""
    return {
        **_storage("StorageClass", name),
        "provisioner": "csi.example",
        "volumeBindingMode": "WaitForFirstConsumer",
        **parts,
    }


def csi_node(name: str, drivers: list[JsonObject] | None = None) -> JsonObject:
    """The drivers of a node."""
    one = {"name": "csi.example", "nodeID": name, "allocatable": {"count": 16}}
    return {**_storage("CSINode", name), "spec": {"drivers": drivers or [one]}}


def csi_driver(name: str) -> JsonObject:
    """A driver that reports capacity."""
    return {
        **_storage("CSIDriver", f"{name}.example"),
        "spec": {"attachRequired": True, "storageCapacity": True},
    }


def csi_storage_capacity(name: str, **parts: Any) -> JsonObject:
    """Return the free capacity of a class on some nodes."""
    made = _storage("CSIStorageCapacity", name, namespaced=True)
    return {**made, "storageClassName": "hostile", "capacity": "1Gi", **parts}


def volume_attachment(name: str, **spec: Any) -> JsonObject:
    """A volume on a node."""
    return {
        **_storage("VolumeAttachment", name),
        "spec": {
            "attacher": "csi.example",
            "nodeName": "hostile",
            "source": {"persistentVolumeName": name},
            **spec,
        },
    }


def _storage(kind: str, name: str, *, namespaced: bool = False) -> JsonObject:
    metadata = _meta(name, namespaced=namespaced)
    return {"apiVersion": "storage.k8s.io/v1", "kind": kind, "metadata": metadata}


def device_request(name: str, **exactly: Any) -> JsonObject:
    """A request of one device of a class that does not exist."""
    return {"name": name, "exactly": {"deviceClassName": "hostile.example", **exactly}}


def resource_claim(name: str, **devices: Any) -> JsonObject:
    """A claim of one device."""
    return _devices("ResourceClaim", name, spec={"devices": _claimed(devices)})


def resource_claim_template(name: str, **devices: Any) -> JsonObject:
    """A template of such a claim."""
    spec = {"spec": {"devices": _claimed(devices)}}
    return _devices("ResourceClaimTemplate", name, spec=spec)


def device_class(name: str, **spec: Any) -> JsonObject:
    """A class of all devices."""
    return _devices("DeviceClass", name, namespaced=False, spec=spec)


def resource_slice(name: str, **spec: Any) -> JsonObject:
    """A slice with one device for all nodes; its pool is named after it."""
    offered = {
        "driver": "hostile.example",
        "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
        "allNodes": True,
        "devices": [{"name": "d"}],
        **spec,
    }
    return _devices("ResourceSlice", name, namespaced=False, spec=offered)


def _claimed(devices: Mapping[str, Any]) -> JsonObject:
    return {"requests": [device_request("r")], **devices}


def _devices(kind: str, name: str, *, namespaced: bool = True, spec: JsonObject) -> JsonObject:
    metadata = _meta(name, namespaced=namespaced)
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": kind,
        "metadata": metadata,
        "spec": spec,
    }


def disruption_budget(name: str, selector: JsonObject | None = None) -> JsonObject:
    """A budget of the pods that a label selector matches."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": _meta(name),
        "spec": {"minAvailable": 1, "selector": selector or {"matchLabels": {"app": name}}},
    }


def priority_class(name: str, value: int = 0) -> JsonObject:
    """A priority class."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": _meta(name, namespaced=False),
        "value": value,
    }


def limit_range(name: str, limits: Sequence[Any] = ()) -> JsonObject:
    """A LimitRange."""
    return {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": _meta(name),
        "spec": {"limits": list(limits)},
    }


def runtime_class(name: str, **more: Any) -> JsonObject:
    """A runtime class."""
    return {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": _meta(name, namespaced=False),
        "handler": "h",
        **more,
    }


def device_taint_rule(name: str, **spec: Any) -> JsonObject:
    """A rule for devices of a driver that does not exist."""
    rule = {
        "deviceSelector": {"driver": "none.example"},
        "taint": {"key": "k", "effect": "NoSchedule"},
        **spec,
    }
    return _devices("DeviceTaintRule", name, namespaced=False, spec=rule)


def resource_quota(name: str, hard: Mapping[str, Any] | None = None) -> JsonObject:
    """A quota."""
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": _meta(name),
        "spec": {"hard": hard or {"example.com/none": "0"}},
    }


def lease(name: str, **spec: Any) -> JsonObject:
    """A lease without a holder."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": _meta(name),
        "spec": {"leaseDurationSeconds": 15, **spec},
    }


def event(name: str, **parts: Any) -> JsonObject:
    """A core/v1 Event of cluster-autoscaler: it could not make room for a pod."""
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": _meta(name),
        "involvedObject": {"kind": "Pod", "namespace": NAMESPACE, "name": "ordinary"},
        "reason": "NotTriggerScaleUp",
        "message": "pod didn't trigger scale-up",
        "source": {"component": "cluster-autoscaler"},
        "type": "Normal",
        "count": 1,
        **parts,
    }


TEMPLATES: Final[Mapping[str, Callable[[str], JsonObject]]] = {
    "pods": pod,
    "nodes": node,
    "namespaces": namespace,
    "services": service,
    "replicationcontrollers": replication_controller,
    "replicasets": replica_set,
    "statefulsets": stateful_set,
    "persistentvolumes": persistent_volume,
    "persistentvolumeclaims": persistent_volume_claim,
    "storageclasses": storage_class,
    "csinodes": csi_node,
    "csidrivers": csi_driver,
    "csistoragecapacities": csi_storage_capacity,
    "volumeattachments": volume_attachment,
    "resourceclaims": resource_claim,
    "resourceclaimtemplates": resource_claim_template,
    "deviceclasses": device_class,
    "devicetaintrules": device_taint_rule,
    "resourceslices": resource_slice,
    "poddisruptionbudgets": disruption_budget,
    "priorityclasses": priority_class,
    "resourcequotas": resource_quota,
    "leases": lease,
    "limitranges": limit_range,
    "runtimeclasses": runtime_class,
    "events": event,
}
"""The smallest object of each kind, by plural."""
