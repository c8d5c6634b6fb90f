"""The table of resources: what the server serves, under which names, and how each row behaves.

Adding a kind means adding a row. A row is data; defaulting and validation of a kind are its
strategy (`simulator.strategies`), printing its columns (`simulator.printing`). Two rows that name
the same `storage` are two views of the same objects (core/v1 and events.k8s.io/v1 Events).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from scheduler.api.stored.merging import CLAIM_RULES, MergeRule
from simulator.objects import JsonObject

STANDARD_VERBS: Final = (
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
)
METADATA_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "metadata.name": ("metadata", "name"),
    "metadata.namespace": ("metadata", "namespace"),
}


@dataclass(frozen=True, slots=True)
class View:
    """Conversion between an API version and the stored form; identity for most."""

    show: Callable[[JsonObject], JsonObject]
    read: Callable[[JsonObject], JsonObject]


@dataclass(frozen=True, slots=True)
class Resource:
    """One row. Two rows are the same resource when they are the same object."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = STANDARD_VERBS
    storage: str = ""
    fields: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    merge_rules: Mapping[str, MergeRule] = field(default_factory=dict)
    generation: bool = False
    """Whether `metadata.generation` counts changes of the spec."""
    view: View | None = None
    schema: Mapping[str, Any] | None = None
    """`openAPIV3Schema` of a custom resource."""
    columns: tuple[Any, ...] = ()
    """Columns of its tables (`simulator.printing.Column`), if a definition gives them."""

    @property
    def singular(self) -> str:
        """The lower-case kind, as kubectl accepts it."""
        return self.kind.lower()

    @property
    def table(self) -> str:
        """The name of its table in the store."""
        return self.storage or self.qualified

    @property
    def qualified(self) -> str:
        """`plural.group`, or the plural alone for the core group."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def group_version(self) -> str:
        """`apiVersion` of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def has_status(self) -> bool:
        """Whether status is written through its own subresource only."""
        return "status" in self.subresources

    @property
    def selectable(self) -> Mapping[str, tuple[str, ...]]:
        """Field selectors it understands, with the path of each in the stored object."""
        names = METADATA_FIELDS if self.namespaced else {"metadata.name": ("metadata", "name")}
        return {**names, **self.fields}


_EVENT_NAMES: Final = (
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
)


def _renamed(obj: JsonObject, api_version: str, names: Mapping[str, str]) -> JsonObject:
    renamed = {names.get(key, key): value for key, value in obj.items()}
    renamed["apiVersion"] = api_version
    return renamed


EVENTS_V1_VIEW: Final = View(
    show=lambda obj: _renamed(obj, "events.k8s.io/v1", dict(_EVENT_NAMES)),
    read=lambda obj: _renamed(obj, "v1", {new: old for old, new in _EVENT_NAMES}),
)
"""events.k8s.io/v1 over Events stored in their core/v1 form."""

_EVENT_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    **{
        f"involvedObject.{name}": ("involvedObject", name)
        for name in (
            "kind",
            "namespace",
            "name",
            "uid",
            "apiVersion",
            "resourceVersion",
            "fieldPath",
        )
    },
    "reason": ("reason",),
    "reportingComponent": ("reportingComponent",),
    "source": ("source", "component"),
    "type": ("type",),
}
_EVENTS_V1_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    **_EVENT_FIELDS,
    **{
        f"regarding.{name}": ("involvedObject", name)
        for name in (
            "kind",
            "namespace",
            "name",
            "uid",
            "apiVersion",
            "resourceVersion",
            "fieldPath",
        )
    },
    "reportingController": ("reportingComponent",),
}
_POD_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "spec.nodeName": ("spec", "nodeName"),
    "spec.restartPolicy": ("spec", "restartPolicy"),
    "spec.schedulerName": ("spec", "schedulerName"),
    "spec.serviceAccountName": ("spec", "serviceAccountName"),
    "spec.hostNetwork": ("spec", "hostNetwork"),
    "status.phase": ("status", "phase"),
    "status.podIP": ("status", "podIP"),
    "status.nominatedNodeName": ("status", "nominatedNodeName"),
}
_POD_SUBRESOURCES: Final = ("binding", "ephemeralcontainers", "eviction", "resize", "status")
_CREATE: Final = ("create",)
_ALL: Final = ("all",)

RESOURCES: Final[tuple[Resource, ...]] = (
    Resource("", "v1", "bindings", "Binding", verbs=_CREATE),
    Resource("", "v1", "configmaps", "ConfigMap", short_names=("cm",)),
    Resource("", "v1", "endpoints", "Endpoints", short_names=("ep",)),
    Resource("", "v1", "events", "Event", short_names=("ev",), fields=_EVENT_FIELDS),
    Resource("", "v1", "limitranges", "LimitRange", short_names=("limits",)),
    Resource(
        "",
        "v1",
        "namespaces",
        "Namespace",
        namespaced=False,
        short_names=("ns",),
        subresources=("finalize", "status"),
        fields={"status.phase": ("status", "phase")},
        verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
    ),
    Resource(
        "",
        "v1",
        "nodes",
        "Node",
        namespaced=False,
        short_names=("no",),
        subresources=("status",),
        fields={"spec.unschedulable": ("spec", "unschedulable")},
    ),
    Resource(
        "",
        "v1",
        "persistentvolumeclaims",
        "PersistentVolumeClaim",
        short_names=("pvc",),
        subresources=("status",),
    ),
    Resource(
        "",
        "v1",
        "persistentvolumes",
        "PersistentVolume",
        namespaced=False,
        short_names=("pv",),
        subresources=("status",),
    ),
    Resource(
        "",
        "v1",
        "pods",
        "Pod",
        short_names=("po",),
        subresources=_POD_SUBRESOURCES,
        categories=_ALL,
        fields=_POD_FIELDS,
        generation=True,
    ),
    Resource(
        "",
        "v1",
        "replicationcontrollers",
        "ReplicationController",
        short_names=("rc",),
        subresources=("scale", "status"),
        categories=_ALL,
        generation=True,
    ),
    Resource(
        "",
        "v1",
        "resourcequotas",
        "ResourceQuota",
        short_names=("quota",),
        subresources=("status",),
    ),
    Resource("", "v1", "secrets", "Secret", fields={"type": ("type",)}),
    Resource("", "v1", "serviceaccounts", "ServiceAccount", short_names=("sa",)),
    Resource(
        "",
        "v1",
        "services",
        "Service",
        short_names=("svc",),
        subresources=("status",),
        categories=_ALL,
    ),
    Resource(
        "apps",
        "v1",
        "daemonsets",
        "DaemonSet",
        short_names=("ds",),
        subresources=("status",),
        categories=_ALL,
        generation=True,
    ),
    Resource(
        "apps",
        "v1",
        "deployments",
        "Deployment",
        short_names=("deploy",),
        subresources=("scale", "status"),
        categories=_ALL,
        generation=True,
    ),
    Resource(
        "apps",
        "v1",
        "replicasets",
        "ReplicaSet",
        short_names=("rs",),
        subresources=("scale", "status"),
        categories=_ALL,
        generation=True,
    ),
    Resource(
        "apps",
        "v1",
        "statefulsets",
        "StatefulSet",
        short_names=("sts",),
        subresources=("scale", "status"),
        categories=_ALL,
        generation=True,
    ),
    Resource(
        "apiextensions.k8s.io",
        "v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        namespaced=False,
        short_names=("crd", "crds"),
        subresources=("status",),
        generation=True,
    ),
    Resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", False, verbs=_CREATE),
    Resource(
        "authorization.k8s.io",
        "v1",
        "selfsubjectaccessreviews",
        "SelfSubjectAccessReview",
        False,
        verbs=_CREATE,
    ),
    Resource(
        "authorization.k8s.io",
        "v1",
        "subjectaccessreviews",
        "SubjectAccessReview",
        False,
        verbs=_CREATE,
    ),
    Resource(
        "batch",
        "v1",
        "cronjobs",
        "CronJob",
        short_names=("cj",),
        subresources=("status",),
        categories=_ALL,
        generation=True,
    ),
    Resource(
        "batch",
        "v1",
        "jobs",
        "Job",
        subresources=("status",),
        categories=_ALL,
        generation=True,
        fields={"status.successful": ("status", "succeeded")},
    ),
    Resource("coordination.k8s.io", "v1", "leases", "Lease"),
    Resource(
        "events.k8s.io",
        "v1",
        "events",
        "Event",
        short_names=("ev",),
        storage="events",
        fields=_EVENTS_V1_FIELDS,
        view=EVENTS_V1_VIEW,
    ),
    Resource(
        "policy",
        "v1",
        "poddisruptionbudgets",
        "PodDisruptionBudget",
        short_names=("pdb",),
        subresources=("status",),
        generation=True,
    ),
    Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", False),
    Resource("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", False),
    Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", False),
    Resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding"),
    Resource("rbac.authorization.k8s.io", "v1", "roles", "Role"),
    Resource(
        "scheduling.k8s.io",
        "v1",
        "priorityclasses",
        "PriorityClass",
        False,
        ("pc",),
        generation=True,
    ),
    Resource("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", False, generation=True),
    Resource(
        "resource.k8s.io", "v1", "devicetaintrules", "DeviceTaintRule", False, generation=True
    ),
    Resource(
        "resource.k8s.io",
        "v1",
        "resourceclaims",
        "ResourceClaim",
        subresources=("status",),
        merge_rules=CLAIM_RULES,
    ),
    Resource("resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate"),
    Resource(
        "resource.k8s.io",
        "v1",
        "resourceslices",
        "ResourceSlice",
        False,
        fields={"spec.driver": ("spec", "driver"), "spec.nodeName": ("spec", "nodeName")},
        generation=True,
    ),
    Resource("storage.k8s.io", "v1", "csidrivers", "CSIDriver", False),
    Resource("storage.k8s.io", "v1", "csinodes", "CSINode", False),
    Resource("storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity"),
    Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", False, ("sc",)),
    Resource(
        "storage.k8s.io",
        "v1",
        "volumeattachments",
        "VolumeAttachment",
        False,
        subresources=("status",),
    ),
)


WORKLOAD_RESOURCES: Final = (
    Resource(
        "scheduling.k8s.io",
        "v1beta1",
        "podgroups",
        "PodGroup",
        subresources=("status",),
        generation=True,
    ),
    Resource("scheduling.k8s.io", "v1beta1", "workloads", "Workload", generation=True),
)
"""Served with the feature gate GenericWorkload."""


class ResourceTable:
    """Rows by path and by kind.

    More rows may be given at construction, or added as a CustomResourceDefinition would; a later
    row of a name wins.
    """

    def __init__(self, more: tuple[Resource, ...] = ()) -> None:
        self._by_path = {(row.group, row.version, row.plural): row for row in (*RESOURCES, *more)}
        self._by_kind = {(row.group_version, row.kind): row for row in self._by_path.values()}

    def __iter__(self) -> Iterator[Resource]:
        return iter(self._by_path.values())

    def add(self, row: Resource) -> None:
        """Add a resource."""
        self._by_path[row.group, row.version, row.plural] = row
        self._by_kind[row.group_version, row.kind] = row

    def remove(self, row: Resource) -> None:
        """Remove a resource that was added."""
        self._by_path.pop((row.group, row.version, row.plural), None)
        self._by_kind.pop((row.group_version, row.kind), None)

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        """Return the row of a request path."""
        return self._by_path.get((group, version, plural))

    def of_kind(self, api_version: str, kind: str) -> Resource:
        """Return the row of an object. Raises LookupError, naming the kind."""
        row = self._by_kind.get((api_version, kind))
        if row is None:
            raise LookupError(
                f"no resource serves {api_version} {kind}; see simulator/resources.py"
            )
        return row

    def group_versions(self) -> list[tuple[str, str]]:
        """Return every (group, version), the core group first."""
        return sorted({(row.group, row.version) for row in self._by_path.values()})

    def rows(self, group: str, version: str) -> list[Resource]:
        """Return the rows of one group version, by name."""
        found = [row for row in self if (row.group, row.version) == (group, version)]
        return sorted(found, key=lambda row: row.plural)
