"""Rows of the requeueing table, and the manifests and requests that they consist of.

A row is independent of server and scheduler: manifests name no namespace and no scheduler;
`request` adds both. So the same row runs on the embedded server and on a real one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

Json = dict[str, Any]

GPU: Final = "example.com/gpu"
OTHER_GPU: Final = "example.com/othergpu"
ZONE: Final = "topology.kubernetes.io/zone"
BETA_ZONE: Final = "failure-domain.beta.kubernetes.io/zone"
NOT_READY: Final = "node.kubernetes.io/not-ready"

Mode = Literal["H", "B", "N"]
"""H: with hints only; B: with and without; N: without."""


# -- actions on the cluster ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Create:
    """Create an object."""

    manifest: Json


@dataclass(frozen=True, slots=True)
class Patch:
    """Send a merge patch."""

    kind: str
    name: str
    body: Json
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete an object at once."""

    kind: str
    name: str


Action = Create | Patch | Delete
Request = tuple[str, str, Json]
"""Method, path, body."""


@dataclass(frozen=True, slots=True)
class Place:
    """The API path of a kind's objects."""

    prefix: str
    plural: str
    namespaced: bool = False


_STORAGE: Final = "/apis/storage.k8s.io/v1"
PLACES: Final[Mapping[str, Place]] = {
    "Pod": Place("/api/v1", "pods", namespaced=True),
    "Node": Place("/api/v1", "nodes"),
    "PersistentVolume": Place("/api/v1", "persistentvolumes"),
    "PersistentVolumeClaim": Place("/api/v1", "persistentvolumeclaims", namespaced=True),
    "StorageClass": Place(_STORAGE, "storageclasses"),
    "CSINode": Place(_STORAGE, "csinodes"),
    "CSIDriver": Place(_STORAGE, "csidrivers"),
    "CSIStorageCapacity": Place(_STORAGE, "csistoragecapacities", namespaced=True),
    "VolumeAttachment": Place(_STORAGE, "volumeattachments"),
    "DeviceClass": Place("/apis/resource.k8s.io/v1", "deviceclasses"),
}


def request(action: Action, namespace: str, scheduler: str) -> Request:
    """Return the request of an action; pods get `scheduler` as their scheduler name."""
    kind = action.manifest["kind"] if isinstance(action, Create) else action.kind
    place = PLACES[kind]
    path = place.prefix + (f"/namespaces/{namespace}" if place.namespaced else "")
    path += f"/{place.plural}"
    if isinstance(action, Create):
        manifest = action.manifest
        if kind == "Pod":
            manifest = {**manifest, "spec": {**manifest["spec"], "schedulerName": scheduler}}
        return "POST", path, manifest
    path += f"/{action.name}"
    if isinstance(action, Delete):
        return "DELETE", path, {"gracePeriodSeconds": 0, "kind": "DeleteOptions",
                                "apiVersion": "v1"}  # fmt: skip
    return "PATCH", f"{path}/{action.subresource}".rstrip("/"), action.body


# -- rows ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row of the table.

    Every pending pod is tried once and rejected; then the trigger is done; then exactly the pods in
    `requeued` must have moved. In mode B they must move without hints, too, and others may:
    kubestow then queues for every registered event.
    """

    number: str
    #: Besides PrioritySort and DefaultBinder; empty: the default profile.
    plugins: tuple[str, ...]
    #: Nodes, volumes, and pods that have a node.
    initial: Sequence[Json]
    pending: Sequence[Json]
    trigger: Sequence[Action] = ()
    requeued: frozenset[str] = frozenset()
    mode: Mode = "H"
    #: Pod -> plugins that reject it; if absent, some of `plugins` and no others.
    rejected_by: Mapping[str, frozenset[str]] = field(default_factory=dict)
    feature_gates: Mapping[str, bool] = field(default_factory=dict)
    #: Features without an object or plugin of their own that the row needs; never present.
    needs: str = ""

    @property
    def kinds(self) -> frozenset[str]:
        """Kinds of all objects in the row."""
        found = {each["kind"] for each in (*self.initial, *self.pending)}
        for action in self.trigger:
            found.add(action.manifest["kind"] if isinstance(action, Create) else action.kind)
        return frozenset(found)

    @property
    def pod_names(self) -> tuple[str, ...]:
        """The pending pods."""
        return tuple(each["metadata"]["name"] for each in self.pending)


# -- manifests -------------------------------------------------------------------------------------


def node(
    name: str = "node1",
    cpu: str = "4",
    *,
    pods: int = 32,
    taint: str = "",
    gpu: int = 0,
    features: Sequence[str] = (),
    unschedulable: bool = False,
    **labels: str,
) -> Json:
    size: Json = {"cpu": cpu, "memory": "4Gi", "pods": str(pods)}
    if gpu:
        size[GPU] = str(gpu)
    made: Json = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {},
        "status": {"capacity": size, "allocatable": dict(size)},
    }
    if taint:
        made["spec"]["taints"] = taints(taint)
    if unschedulable:
        made["spec"]["unschedulable"] = True
    if features:
        made["status"]["declaredFeatures"] = list(features)
    return made


def taints(key: str) -> list[Json]:
    return [{"key": key, "value": "v", "effect": "NoSchedule"}]


def tolerations(key: str) -> list[Json]:
    return [{"key": key, "operator": "Exists", "effect": "NoSchedule"}]


def allocatable(name: str = "node1", **amounts: str | None) -> Patch:
    """Return a change of a node's resources; `gpu` stands for the extended resource."""
    size = {GPU if key == "gpu" else key: value for key, value in amounts.items()}
    return Patch("Node", name, {"status": {"capacity": size, "allocatable": size}}, "status")


def relabelled(kind: str, name: str, **labels: str | None) -> Patch:
    return Patch(kind, name, {"metadata": {"labels": labels}})


def tainted(name: str, key: str) -> Patch:
    return Patch("Node", name, {"spec": {"taints": taints(key) if key else None}})


def pod(
    name: str,
    *,
    on: str = "",
    cpu: str = "",
    resources: Mapping[str, str] | None = None,
    labels: str = "",
    affinity: str = "",
    anti: str = "",
    group: str = "",
    node_name: str = "",
    spread: tuple[str, str, int] | None = None,
    tolerate: str = "",
    port: int = 0,
    claim: str = "",
    volumes: Sequence[Json] = (),
    **spec: object,
) -> Json:
    """A pod; bound if it is `on` a node.

    `labels` are names separated by blanks; `affinity` and `anti` are written `label@topologyKey`;
    `group` is a required node label; `node_name` is required by a field selector; `spread` is
    label, topology key and minDomains.
    """
    requests = {**({"cpu": cpu} if cpu else {}), **(resources or {})}
    container: Json = {"name": "c", "image": "i"}
    if requests:
        limits = {key: value for key, value in requests.items() if "/" in key}
        container["resources"] = {"requests": requests, **({"limits": limits} if limits else {})}
    if port:
        container["ports"] = [{"containerPort": port, "hostPort": port}]
    body: Json = {"containers": [container], **spec}
    mounts = list(volumes)
    if claim:
        mounts.append({"name": "claim", "persistentVolumeClaim": {"claimName": claim}})
    if mounts:
        body["volumes"] = mounts
    if on:
        body["nodeName"] = on
    if tolerate:
        body["tolerations"] = tolerations(tolerate)
    rules = _affinity(affinity, anti, group, node_name)
    if rules:
        body["affinity"] = rules
    if spread:
        body["topologySpreadConstraints"] = [_spread(*spread)]
    metadata = {"name": name, "labels": dict.fromkeys(labels.split(), "x")}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": body}


_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def _affinity(affinity: str, anti: str, group: str, node_name: str) -> Json:
    rules: Json = {}
    if affinity:
        rules["podAffinity"] = {_REQUIRED: [_term(affinity)]}
    if anti:
        rules["podAntiAffinity"] = {_REQUIRED: [_term(anti)]}
    term: Json = {}
    if group:
        term["matchExpressions"] = [{"key": "group", "operator": "In", "values": [group]}]
    if node_name:
        term["matchFields"] = [{"key": "metadata.name", "operator": "In", "values": [node_name]}]
    if term:
        rules["nodeAffinity"] = {_REQUIRED: {"nodeSelectorTerms": [term]}}
    return rules


def _term(text: str) -> Json:
    label, key = text.split("@")
    return {"labelSelector": _exists(label), "topologyKey": key}


def _exists(label: str) -> Json:
    return {"matchExpressions": [{"key": label, "operator": "Exists"}]}


def _spread(label: str, key: str, min_domains: int) -> Json:
    return {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": _exists(label),
        "minDomains": min_domains,
    }


def volume(
    name: str,
    *,
    labels: Mapping[str, str] | None = None,
    on: tuple[str, str] | None = None,
    driver: str = "",
) -> Json:
    """Return a PersistentVolume; `on` is the node label it requires."""
    spec: Json = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
    if driver:
        spec["csi"] = {"driver": driver, "volumeHandle": name}
    else:
        spec["hostPath"] = {"path": "/tmp"}
    if on:
        spec["nodeAffinity"] = node_affinity(*on)
    metadata = {"name": name, "labels": dict(labels or {})}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": spec}


def node_affinity(key: str, value: str) -> Json:
    expression = {"key": key, "operator": "In", "values": [value]}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}


BIND_COMPLETED: Final = {"pv.kubernetes.io/bind-completed": "yes"}


def claim(
    name: str, volume_name: str = "", *, mode: str = "ReadWriteOnce", storage_class: str = ""
) -> Json:
    """Return a claim, bound if it names a volume."""
    spec: Json = {
        "accessModes": [mode],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": storage_class,
    }
    metadata: Json = {"name": name}
    if volume_name:
        spec["volumeName"] = volume_name
        metadata["annotations"] = BIND_COMPLETED
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def storage_class(
    name: str = "sc1", *, delayed: bool = False, zone: str = "", **labels: str
) -> Json:
    made = _storage("StorageClass", name, provisioner="example.com/p")
    made["metadata"]["labels"] = labels
    if delayed:
        made["volumeBindingMode"] = "WaitForFirstConsumer"
    if zone:
        made["allowedTopologies"] = topologies(zone)
    return made


def topologies(zone: str) -> list[Json]:
    return [{"matchLabelExpressions": [{"key": ZONE, "values": [zone]}]}]


def csi_node(name: str, migrated: str = "", **limits: int) -> Json:
    """Return a CSINode; `limits` are counts by driver, dots written as underscores."""
    drivers = [
        {"name": driver.replace("_", "."), "nodeID": name, "allocatable": {"count": count}}
        for driver, count in limits.items()
    ]
    made = _storage("CSINode", name, spec={"drivers": drivers})
    if migrated:
        made["metadata"]["annotations"] = {MIGRATED: migrated}
    return made


MIGRATED: Final = "storage.alpha.kubernetes.io/migrated-plugins"


def csi_driver(name: str, *, capacity: bool) -> Json:
    return _storage("CSIDriver", name, spec={"storageCapacity": capacity})


def csi_capacity(name: str, amount: str) -> Json:
    return _storage("CSIStorageCapacity", name, storageClassName="sc1", capacity=amount)


def attachment(name: str, attacher: str) -> Json:
    source = {"persistentVolumeName": "pv1"}
    spec = {"attacher": attacher, "nodeName": "node1", "source": source}
    return _storage("VolumeAttachment", name, spec=spec)


def device_class(resource: str = "") -> Json:
    spec = {"extendedResourceName": resource} if resource else {}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "class1"},
        "spec": spec,
    }


def _storage(kind: str, name: str, **fields: object) -> Json:
    return {"apiVersion": "storage.k8s.io/v1", "kind": kind, "metadata": {"name": name}, **fields}
