"""The table of resources: the path of each kind in the API and the type it decodes to.

Decoding is strict first, because that is fast, and lenient second: Go encodes an empty slice
without `omitempty` as null (CSINode `spec.drivers`, Pod `spec.containers` in bookmarks), so on
failure nulls are dropped and the object is decoded again. An object that fails both ways is
malformed. Unread fields that nest too deep to be skipped are emptied first.
"""

from __future__ import annotations

from typing import Any, Final, Generic, Protocol, TypeVar
from urllib.parse import quote

import msgspec

from scheduler.api.decoding import prune
from scheduler.api.devices import (
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from scheduler.api.meta import Named, ObjectMeta
from scheduler.api.node import Node
from scheduler.api.pod import Pod
from scheduler.api.policy import (
    CoreEvent,
    Event,
    Lease,
    LimitRange,
    PodDisruptionBudget,
    PriorityClass,
    ResourceQuota,
    RuntimeClass,
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


class KubernetesObject(Protocol):
    """Anything with `metadata`."""

    metadata: ObjectMeta


T = TypeVar("T", bound=KubernetesObject)


class Resource(Generic[T]):
    """One resource of the API server.

    `decode` turns the JSON of one object into `type`; `encode` adds the apiVersion and kind that
    structs leave out. Encoding a struct that was decoded loses the fields it does not know: never
    `replace` with one.
    """

    def __init__(
        self,
        group: str,
        version: str,
        plural: str,
        type: type[T],  # noqa: A002  (the table reads better with it)
        *,
        kind: str = "",
        namespaced: bool = True,
    ) -> None:
        self.group = group
        self.version = version
        #: Identifies the resource in this process, such as in the listers of plugins.
        self.plural = plural
        #: Whether the API server promises a resourceVersion for its lists.
        self.versioned = True
        #: The name in paths and RBAC rules.
        self.api_plural = plural
        self.type = type
        self.kind = kind or type.__name__
        self.namespaced = namespaced
        self.api_version = f"{group}/{version}" if group else version
        self._prefix = f"/apis/{group}/{version}" if group else f"/api/{version}"
        self._decoder: msgspec.json.Decoder[T] = msgspec.json.Decoder(type)
        self._head = f'{{"apiVersion":"{self.api_version}","kind":"{self.kind}"'.encode()

    def __repr__(self) -> str:
        return f"Resource({self.plural}.{self.version}.{self.group or 'core'})"

    def collection_path(self, namespace: str = "") -> str:
        """Return the path of all objects, or of those in one namespace."""
        if namespace and self.namespaced:
            return f"{self._prefix}/namespaces/{quote(namespace, safe='')}/{self.plural}"
        return f"{self._prefix}/{self.plural}"

    def path(self, name: str, namespace: str = "", subresource: str = "") -> str:
        """Return the path of one object.

        Raises:
            ValueError: a namespaced resource without namespace, or no name.
        """
        if not name or (self.namespaced and not namespace):
            raise ValueError(f"{self.plural} {namespace!r}/{name!r}: name or namespace is missing")
        path = f"{self.collection_path(namespace)}/{quote(name, safe='')}"
        return f"{path}/{subresource}" if subresource else path

    def key(self, item: T) -> str:
        """Return `namespace/name`, or the name of a cluster-scoped object."""
        return self.key_of(item.metadata.namespace, item.metadata.name)

    def key_of(self, namespace: str, name: str) -> str:
        """Return the key of the object of this name."""
        return f"{namespace}/{name}" if self.namespaced else name

    def decode(self, data: bytes | msgspec.Raw) -> T:
        """Decode one object.

        Raises:
            ValueError: malformed even if nulls count as absent (`msgspec.DecodeError` is one).
        """
        try:
            return self._decode(data)
        except RecursionError:
            return self._decode(prune(data))

    def _decode(self, data: bytes | msgspec.Raw) -> T:
        try:
            return self._decoder.decode(data)
        except msgspec.ValidationError:
            return msgspec.convert(_without_nulls(msgspec.json.decode(data)), self.type)

    def encode(self, item: T) -> bytes:
        """Return the JSON of `item` with its apiVersion and kind."""
        # Never "{}": metadata is written even when it is empty.
        return self._head + b"," + msgspec.json.encode(item)[1:]


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


PODS: Final = Resource("", "v1", "pods", Pod)
NODES: Final = Resource("", "v1", "nodes", Node, namespaced=False)
NAMESPACES: Final = Resource("", "v1", "namespaces", Namespace, namespaced=False)
SERVICES: Final = Resource("", "v1", "services", Service)
REPLICATION_CONTROLLERS: Final = Resource("", "v1", "replicationcontrollers", ReplicationController)
REPLICA_SETS: Final = Resource("apps", "v1", "replicasets", ReplicaSet)
STATEFUL_SETS: Final = Resource("apps", "v1", "statefulsets", StatefulSet)
PERSISTENT_VOLUMES: Final = Resource(
    "", "v1", "persistentvolumes", PersistentVolume, namespaced=False
)
PERSISTENT_VOLUME_CLAIMS: Final = Resource(
    "", "v1", "persistentvolumeclaims", PersistentVolumeClaim
)
STORAGE_CLASSES: Final = Resource(
    "storage.k8s.io", "v1", "storageclasses", StorageClass, namespaced=False
)
CSI_NODES: Final = Resource("storage.k8s.io", "v1", "csinodes", CSINode, namespaced=False)
CSI_DRIVERS: Final = Resource("storage.k8s.io", "v1", "csidrivers", CSIDriver, namespaced=False)
CSI_STORAGE_CAPACITIES: Final = Resource(
    "storage.k8s.io", "v1", "csistoragecapacities", CSIStorageCapacity
)
VOLUME_ATTACHMENTS: Final = Resource(
    "storage.k8s.io", "v1", "volumeattachments", VolumeAttachment, namespaced=False
)
RESOURCE_CLAIMS: Final = Resource("resource.k8s.io", "v1", "resourceclaims", ResourceClaim)
RESOURCE_CLAIM_TEMPLATES: Final = Resource(
    "resource.k8s.io", "v1", "resourceclaimtemplates", ResourceClaimTemplate
)
DEVICE_CLASSES: Final = Resource(
    "resource.k8s.io", "v1", "deviceclasses", DeviceClass, namespaced=False
)
DEVICE_TAINT_RULES: Final = Resource(
    "resource.k8s.io", "v1", "devicetaintrules", DeviceTaintRule, namespaced=False
)
RESOURCE_SLICES: Final = Resource(
    "resource.k8s.io", "v1", "resourceslices", ResourceSlice, namespaced=False
)
POD_DISRUPTION_BUDGETS: Final = Resource(
    "policy", "v1", "poddisruptionbudgets", PodDisruptionBudget
)
PRIORITY_CLASSES: Final = Resource(
    "scheduling.k8s.io", "v1", "priorityclasses", PriorityClass, namespaced=False
)
RESOURCE_QUOTAS: Final = Resource("", "v1", "resourcequotas", ResourceQuota)
LIMIT_RANGES: Final = Resource("", "v1", "limitranges", LimitRange)
RUNTIME_CLASSES: Final = Resource(
    "node.k8s.io", "v1", "runtimeclasses", RuntimeClass, namespaced=False
)
LEASES: Final = Resource("coordination.k8s.io", "v1", "leases", Lease)
EVENTS: Final = Resource("events.k8s.io", "v1", "events", Event)
CORE_EVENTS: Final = Resource("", "v1", "events", CoreEvent, kind="Event")
"""The same objects in the form that has field selectors by source; not in the table below."""
NODE_CLAIMS: Final = Resource(
    "karpenter.sh", "v1", "nodeclaims", Named, kind="NodeClaim", namespaced=False
)
"""Karpenter's machines; not in the table below, because few clusters have them."""

RESOURCES: Final[dict[str, Resource[Any]]] = {
    resource.plural: resource
    for resource in (
        PODS,
        NODES,
        NAMESPACES,
        SERVICES,
        REPLICATION_CONTROLLERS,
        REPLICA_SETS,
        STATEFUL_SETS,
        PERSISTENT_VOLUMES,
        PERSISTENT_VOLUME_CLAIMS,
        STORAGE_CLASSES,
        CSI_NODES,
        CSI_DRIVERS,
        CSI_STORAGE_CAPACITIES,
        VOLUME_ATTACHMENTS,
        RESOURCE_CLAIMS,
        RESOURCE_CLAIM_TEMPLATES,
        DEVICE_CLASSES,
        DEVICE_TAINT_RULES,
        RESOURCE_SLICES,
        POD_DISRUPTION_BUDGETS,
        PRIORITY_CLASSES,
        RESOURCE_QUOTAS,
        LIMIT_RANGES,
        RUNTIME_CLASSES,
        LEASES,
        EVENTS,
    )
}
"""Every known resource by plural; plurals are unique here."""
