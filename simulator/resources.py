"""The table of resources: what the server serves, under which names, and how each row behaves.

Adding a kind means adding a line. A row is data; defaulting and validation of a kind are its
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

_REGARDING: Final = (
    *("kind", "namespace", "name", "uid"),
    *("apiVersion", "resourceVersion", "fieldPath"),
)
_EVENT_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    **{f"involvedObject.{name}": ("involvedObject", name) for name in _REGARDING},
    "reason": ("reason",),
    "reportingComponent": ("reportingComponent",),
    "source": ("source", "component"),
    "type": ("type",),
}
_EVENTS_V1_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    **_EVENT_FIELDS,
    **{f"regarding.{name}": ("involvedObject", name) for name in _REGARDING},
    "reportingController": ("reportingComponent",),
}


def _paths(names: str) -> dict[str, Any]:
    """Return the fields of these names, which are their paths."""
    return {"fields": {name: tuple(name.split(".")) for name in names.split()}}


_MORE: Final[Mapping[str, Mapping[str, Any]]] = {
    "v1 events": {"fields": _EVENT_FIELDS},
    "v1 namespaces": {
        **_paths("status.phase"),
        "verbs": ("create", "delete", "get", "list", "patch", "update", "watch"),
    },
    "v1 nodes": _paths("spec.unschedulable"),
    "v1 pods": _paths(
        "spec.nodeName spec.restartPolicy spec.schedulerName spec.serviceAccountName"
        " spec.hostNetwork status.phase status.podIP status.nominatedNodeName"
    ),
    "v1 secrets": _paths("type"),
    "apiextensions.k8s.io/v1 customresourcedefinitions": {
        "subresources": ("status",),
        "generation": True,
    },
    "batch/v1 jobs": {"fields": {"status.successful": ("status", "succeeded")}},
    "events.k8s.io/v1 events": {
        "storage": "events",
        "fields": _EVENTS_V1_FIELDS,
        "view": EVENTS_V1_VIEW,
    },
    "resource.k8s.io/v1 resourceclaims": {"merge_rules": CLAIM_RULES},
    "resource.k8s.io/v1 resourceslices": _paths("spec.driver spec.nodeName"),
}
"""What the lines of the table do not say."""

_LISTS: Final = {
    "short": "short_names",
    "sub": "subresources",
    "in": "categories",
    "verbs": "verbs",
}


def _rows(table: str) -> tuple[Resource, ...]:
    """Read lines of an apiVersion, plural and kind, and what differs from most resources."""

    def row(version: str, plural: str, kind: str, *options: str) -> Resource:
        given = dict(each.partition("=")[::2] for each in options)
        lists = {_LISTS[name]: tuple(given[name].split(",")) for name in _LISTS if name in given}
        more = {
            "generation": "generation" in given,
            **lists,
            **_MORE.get(f"{version} {plural}", {}),
        }
        group, _, version = version.rpartition("/")
        return Resource(group, version, plural, kind, "cluster" not in given, **more)

    return tuple(row(*line.split()) for line in table.strip().splitlines())


RESOURCES: Final = _rows("""
v1 bindings Binding verbs=create
v1 configmaps ConfigMap short=cm
v1 endpoints Endpoints short=ep
v1 events Event short=ev
v1 limitranges LimitRange short=limits
v1 namespaces Namespace cluster short=ns sub=finalize,status
v1 nodes Node cluster short=no sub=status
v1 persistentvolumeclaims PersistentVolumeClaim short=pvc sub=status
v1 persistentvolumes PersistentVolume cluster short=pv sub=status
v1 pods Pod short=po sub=binding,ephemeralcontainers,eviction,resize,status in=all generation
v1 replicationcontrollers ReplicationController short=rc sub=scale,status in=all generation
v1 resourcequotas ResourceQuota short=quota sub=status
v1 secrets Secret
v1 serviceaccounts ServiceAccount short=sa
v1 services Service short=svc sub=status in=all
apps/v1 daemonsets DaemonSet short=ds sub=status in=all generation
apps/v1 deployments Deployment short=deploy sub=scale,status in=all generation
apps/v1 replicasets ReplicaSet short=rs sub=scale,status in=all generation
apps/v1 statefulsets StatefulSet short=sts sub=scale,status in=all generation
apiextensions.k8s.io/v1 customresourcedefinitions CustomResourceDefinition cluster short=crd,crds
authentication.k8s.io/v1 tokenreviews TokenReview cluster verbs=create
authorization.k8s.io/v1 selfsubjectaccessreviews SelfSubjectAccessReview cluster verbs=create
authorization.k8s.io/v1 subjectaccessreviews SubjectAccessReview cluster verbs=create
batch/v1 cronjobs CronJob short=cj sub=status in=all generation
batch/v1 jobs Job sub=status in=all generation
coordination.k8s.io/v1 leases Lease
events.k8s.io/v1 events Event short=ev
policy/v1 poddisruptionbudgets PodDisruptionBudget short=pdb sub=status generation
node.k8s.io/v1 runtimeclasses RuntimeClass cluster
rbac.authorization.k8s.io/v1 clusterrolebindings ClusterRoleBinding cluster
rbac.authorization.k8s.io/v1 clusterroles ClusterRole cluster
rbac.authorization.k8s.io/v1 rolebindings RoleBinding
rbac.authorization.k8s.io/v1 roles Role
scheduling.k8s.io/v1 priorityclasses PriorityClass cluster short=pc generation
resource.k8s.io/v1 deviceclasses DeviceClass cluster generation
resource.k8s.io/v1 devicetaintrules DeviceTaintRule cluster generation
resource.k8s.io/v1 resourceclaims ResourceClaim sub=status
resource.k8s.io/v1 resourceclaimtemplates ResourceClaimTemplate
resource.k8s.io/v1 resourceslices ResourceSlice cluster generation
storage.k8s.io/v1 csidrivers CSIDriver cluster
storage.k8s.io/v1 csinodes CSINode cluster
storage.k8s.io/v1 csistoragecapacities CSIStorageCapacity
storage.k8s.io/v1 storageclasses StorageClass cluster short=sc
storage.k8s.io/v1 volumeattachments VolumeAttachment cluster sub=status
""")

WORKLOAD_RESOURCES: Final = _rows("""
scheduling.k8s.io/v1beta1 podgroups PodGroup sub=status generation
scheduling.k8s.io/v1beta1 workloads Workload generation
""")
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
