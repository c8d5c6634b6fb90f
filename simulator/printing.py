"""Table printing: the columns that `kubectl get` shows, by kind.

A column is a name and a function from the stored object and the time to its cell. Kinds without an
entry get Name and Age. Column names and order as kube-apiserver v1.37 gives them; descriptions are
left empty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from simulator.objects import JsonObject, dig, parse_time
from simulator.selectors import selector_text

Cell: TypeAlias = str | int | bool
NONE: Final = "<none>"
UNKNOWN: Final = "<unknown>"


class Column(NamedTuple):
    """One column. `priority` 1 shows with `-o wide` only."""

    name: str
    cell: Callable[[JsonObject, float], Cell]
    type: str = "string"
    format: str = ""
    priority: int = 0


def human_duration(seconds: float) -> str:
    """Write a duration as kubectl prints ages: at most two units, coarser as it grows."""
    total = int(seconds)
    if total < 0:
        return "<invalid>" if total < -1 else "0s"
    minutes, hours, days = total // 60, total // 3600, total // 86400
    if total < 120:
        return f"{total}s"
    if minutes < 10:
        return f"{minutes}m{total % 60}s" if total % 60 else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    if hours < 192:
        return f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"
    return f"{days}d" if days < 730 else f"{days // 365}y"


def _since(text: str | None, now: float) -> str:
    moment = parse_time(text)
    return UNKNOWN if moment is None else human_duration(now - moment)


def _age(obj: JsonObject, now: float) -> str:
    return _since(dig(obj, "metadata", "creationTimestamp"), now)


def _name(obj: JsonObject, _now: float) -> str:
    return str(dig(obj, "metadata", "name") or "")


def _at(*path: str, empty: Cell = "") -> Callable[[JsonObject, float], Cell]:
    def cell(obj: JsonObject, _now: float) -> Cell:
        value = dig(obj, *path)
        return empty if value is None else value

    return cell


def _of(path: tuple[str, ...], part: str) -> Callable[[JsonObject, float], str]:
    """Return names or images of the containers of a template, comma separated."""

    def cell(obj: JsonObject, _now: float) -> str:
        containers = dig(obj, *path, "containers") or []
        return ",".join(str(container.get(part, "")) for container in containers)

    return cell


NAME: Final = Column("Name", _name, format="name")
AGE: Final = Column("Age", _age)


def pod_status(pod: JsonObject) -> str:
    """Return the STATUS column of a pod: its phase, or a more specific reason."""
    status = pod.get("status") or {}
    reason = str(status.get("reason") or status.get("phase") or "")
    for condition in status.get("conditions") or []:
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            reason = "SchedulingGated"
    for container in status.get("containerStatuses") or []:
        state = container.get("state") or {}
        detail = dig(state, "waiting", "reason") or dig(state, "terminated", "reason")
        if detail:
            reason = str(detail)
    if dig(pod, "metadata", "deletionTimestamp"):
        return "Unknown" if reason == "NodeLost" else "Terminating"
    return reason


def _pod_ready(pod: JsonObject, _now: float) -> str:
    statuses = dig(pod, "status", "containerStatuses") or []
    ready = sum(1 for status in statuses if status.get("ready"))
    return f"{ready}/{len(dig(pod, 'spec', 'containers') or [])}"


def _pod_restarts(pod: JsonObject, _now: float) -> str:
    statuses = dig(pod, "status", "containerStatuses") or []
    return str(sum(int(status.get("restartCount") or 0) for status in statuses))


def _readiness_gates(pod: JsonObject, _now: float) -> str:
    gates = dig(pod, "spec", "readinessGates") or []
    if not gates:
        return NONE
    true = {
        condition.get("type")
        for condition in dig(pod, "status", "conditions") or []
        if condition.get("status") == "True"
    }
    return f"{sum(1 for gate in gates if gate.get('conditionType') in true)}/{len(gates)}"


def _node_status(node: JsonObject, _now: float) -> str:
    ready = "Unknown"
    for condition in dig(node, "status", "conditions") or []:
        if condition.get("type") == "Ready":
            ready = "Ready" if condition.get("status") == "True" else "NotReady"
    return ready + (",SchedulingDisabled" if dig(node, "spec", "unschedulable") else "")


def _node_roles(node: JsonObject, _now: float) -> str:
    prefix = "node-role.kubernetes.io/"
    labels = dig(node, "metadata", "labels") or {}
    return ",".join(sorted(key[len(prefix) :] for key in labels if key.startswith(prefix))) or NONE


def _address(kind: str) -> Callable[[JsonObject, float], str]:
    def cell(node: JsonObject, _now: float) -> str:
        for address in dig(node, "status", "addresses") or []:
            if address.get("type") == kind:
                return str(address.get("address"))
        return NONE

    return cell


def _selector(obj: JsonObject, _now: float) -> str:
    return selector_text(dig(obj, "spec", "selector"))


def _map_selector(obj: JsonObject, _now: float) -> str:
    return selector_text({"matchLabels": dig(obj, "spec", "selector") or {}})


def _ports(service: JsonObject, _now: float) -> str:
    ports = dig(service, "spec", "ports") or []
    return ",".join(f"{port.get('port')}/{port.get('protocol', 'TCP')}" for port in ports) or NONE


def _data_size(obj: JsonObject, _now: float) -> int:
    return len(obj.get("data") or {}) + len(obj.get("binaryData") or {})


def _fraction(have: tuple[str, ...], want: tuple[str, ...]) -> Callable[[JsonObject, float], str]:
    def cell(obj: JsonObject, _now: float) -> str:
        return f"{dig(obj, *have) or 0}/{dig(obj, *want) or 0}"

    return cell


def _job_status(job: JsonObject, _now: float) -> str:
    held = {
        condition.get("type")
        for condition in dig(job, "status", "conditions") or []
        if condition.get("status") == "True"
    }
    for name in ("Complete", "Failed", "Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if name in held:
            return name
    return "Terminating" if dig(job, "metadata", "deletionTimestamp") else "Running"


def _job_duration(job: JsonObject, now: float) -> str:
    start = parse_time(dig(job, "status", "startTime"))
    if start is None:
        return ""
    end = parse_time(dig(job, "status", "completionTime"))
    return human_duration((now if end is None else end) - start)


def _event_object(event: JsonObject, _now: float) -> str:
    about = event.get("involvedObject") or {}
    return f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}"


def _event_source(event: JsonObject, _now: float) -> str:
    source = event.get("source") or {}
    parts = [source.get("component"), source.get("host")]
    if not any(parts):
        parts = [event.get("reportingComponent"), event.get("reportingInstance")]
    return ", ".join(part for part in parts if part)


def _event_first(event: JsonObject, now: float) -> str:
    return _since(event.get("firstTimestamp") or event.get("eventTime"), now)


def _event_last(event: JsonObject, now: float) -> str:
    series = dig(event, "series", "lastObservedTime")
    return _since(series or event.get("lastTimestamp") or event.get("eventTime"), now)


def _event_count(event: JsonObject, _now: float) -> int:
    return int(dig(event, "series", "count") or event.get("count") or 1)


def _amounts(*want: str) -> Callable[[JsonObject, float], str]:
    """Return a quota's `used/hard` pairs, of limits or of all the rest."""

    def cell(quota: JsonObject, _now: float) -> str:
        used = dig(quota, "status", "used") or {}
        pairs = [
            f"{key}: {used.get(key, 0)}/{hard}"
            for key, hard in sorted((dig(quota, "status", "hard") or {}).items())
            if key.startswith("limits.") == ("limits" in want)
        ]
        return ", ".join(pairs)

    return cell


_MODES: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def _access(*path: str) -> Callable[[JsonObject, float], str]:
    def cell(obj: JsonObject, _now: float) -> str:
        return ",".join(_MODES.get(mode, mode) for mode in dig(obj, *path) or [])

    return cell


def _claim(volume: JsonObject, _now: float) -> str:
    ref = dig(volume, "spec", "claimRef")
    return f"{ref.get('namespace', '')}/{ref.get('name', '')}" if isinstance(ref, dict) else ""


def _attached_volume(attachment: JsonObject, _now: float) -> str:
    return str(dig(attachment, "spec", "source", "persistentVolumeName") or "")


def _count(*path: str) -> Callable[[JsonObject, float], Cell]:
    return _at(*path, empty=0)


def _integer(name: str, *path: str) -> Column:
    return Column(name, _count(*path), type="integer")


_TEMPLATE: Final = ("spec", "template", "spec")
_CONTAINERS: Final = Column("Containers", _of(_TEMPLATE, "name"), priority=1)
_IMAGES: Final = Column("Images", _of(_TEMPLATE, "image"), priority=1)
_WIDE: Final = (_CONTAINERS, _IMAGES, Column("Selector", _selector, priority=1))
_REPLICAS: Final = (
    NAME,
    _integer("Desired", "spec", "replicas"),
    _integer("Current", "status", "replicas"),
    _integer("Ready", "status", "readyReplicas"),
    AGE,
    _CONTAINERS,
    _IMAGES,
)
_EVENTS: Final = (
    Column("Last Seen", _event_last),
    Column("Type", _at("type")),
    Column("Reason", _at("reason")),
    Column("Object", _event_object),
    Column("Subobject", _at("involvedObject", "fieldPath"), priority=1),
    Column("Source", _event_source, priority=1),
    Column("Message", lambda event, _now: str(event.get("message") or "").strip()),
    Column("First Seen", _event_first, priority=1),
    Column("Count", _event_count, priority=1),
    Column("Name", _name, format="name", priority=1),
)

COLUMNS: Final[Mapping[str, tuple[Column, ...]]] = {
    "customresourcedefinitions.apiextensions.k8s.io": (
        NAME,
        Column(
            "Created At",
            lambda definition, _now: str(
                dig(definition, "metadata", "creationTimestamp") or UNKNOWN
            ),
            "date",
        ),
    ),
    "pods": (
        NAME,
        Column("Ready", _pod_ready),
        Column("Status", lambda pod, _now: pod_status(pod)),
        Column("Restarts", _pod_restarts),
        AGE,
        Column("IP", _at("status", "podIP", empty=NONE), priority=1),
        Column("Node", _at("spec", "nodeName", empty=NONE), priority=1),
        Column("Nominated Node", _at("status", "nominatedNodeName", empty=NONE), priority=1),
        Column("Readiness Gates", _readiness_gates, priority=1),
    ),
    "nodes": (
        NAME,
        Column("Status", _node_status),
        Column("Roles", _node_roles),
        AGE,
        Column("Version", _at("status", "nodeInfo", "kubeletVersion")),
        Column("Internal-IP", _address("InternalIP"), priority=1),
        Column("External-IP", _address("ExternalIP"), priority=1),
        Column("OS-Image", _at("status", "nodeInfo", "osImage", empty=UNKNOWN), priority=1),
        Column(
            "Kernel-Version", _at("status", "nodeInfo", "kernelVersion", empty=UNKNOWN), priority=1
        ),
        Column(
            "Container-Runtime",
            _at("status", "nodeInfo", "containerRuntimeVersion", empty=UNKNOWN),
            priority=1,
        ),
    ),
    "namespaces": (NAME, Column("Status", _at("status", "phase")), AGE),
    "services": (
        NAME,
        Column("Type", _at("spec", "type")),
        Column("Cluster-IP", _at("spec", "clusterIP", empty=NONE)),
        Column("External-IP", lambda _obj, _now: NONE),
        Column("Port(s)", _ports),
        AGE,
        Column("Selector", _map_selector, priority=1),
    ),
    "replicationcontrollers": (*_REPLICAS, Column("Selector", _map_selector, priority=1)),
    "configmaps": (NAME, Column("Data", _data_size), AGE),
    "secrets": (NAME, Column("Type", _at("type")), Column("Data", _data_size), AGE),
    "events": _EVENTS,
    "persistentvolumes": (
        NAME,
        Column("Capacity", _at("spec", "capacity", "storage")),
        Column("Access Modes", _access("spec", "accessModes")),
        Column("Reclaim Policy", _at("spec", "persistentVolumeReclaimPolicy")),
        Column("Status", _at("status", "phase")),
        Column("Claim", _claim),
        Column("StorageClass", _at("spec", "storageClassName")),
        AGE,
    ),
    "persistentvolumeclaims": (
        NAME,
        Column("Status", _at("status", "phase")),
        Column("Volume", _at("spec", "volumeName")),
        Column("Capacity", _at("status", "capacity", "storage")),
        Column("Access Modes", _access("status", "accessModes")),
        Column("StorageClass", _at("spec", "storageClassName")),
        AGE,
    ),
    "resourcequotas": (
        NAME,
        Column("Request", _amounts("requests")),
        Column("Limit", _amounts("limits")),
        AGE,
    ),
    "deployments.apps": (
        NAME,
        Column("Ready", _fraction(("status", "readyReplicas"), ("spec", "replicas"))),
        Column("Up-to-date", lambda o, _now: str(dig(o, "status", "updatedReplicas") or 0)),
        Column("Available", lambda o, _now: str(dig(o, "status", "availableReplicas") or 0)),
        AGE,
        *_WIDE,
    ),
    "replicasets.apps": (*_REPLICAS, Column("Selector", _selector, priority=1)),
    "statefulsets.apps": (
        NAME,
        Column("Ready", _fraction(("status", "readyReplicas"), ("spec", "replicas"))),
        AGE,
        _CONTAINERS,
        _IMAGES,
    ),
    "daemonsets.apps": (
        NAME,
        _integer("Desired", "status", "desiredNumberScheduled"),
        _integer("Current", "status", "currentNumberScheduled"),
        _integer("Ready", "status", "numberReady"),
        _integer("Up-to-date", "status", "updatedNumberScheduled"),
        _integer("Available", "status", "numberAvailable"),
        AGE,
        *_WIDE,
    ),
    "jobs.batch": (
        NAME,
        Column("Status", _job_status),
        Column("Completions", _fraction(("status", "succeeded"), ("spec", "completions"))),
        Column("Duration", _job_duration),
        AGE,
        *_WIDE,
    ),
    "storageclasses.storage.k8s.io": (
        NAME,
        Column("Provisioner", _at("provisioner")),
        Column("ReclaimPolicy", _at("reclaimPolicy")),
        Column("VolumeBindingMode", _at("volumeBindingMode")),
        AGE,
    ),
    "csinodes.storage.k8s.io": (
        NAME,
        Column("Drivers", lambda o, _now: len(dig(o, "spec", "drivers") or []), type="integer"),
        AGE,
    ),
    "volumeattachments.storage.k8s.io": (
        NAME,
        Column("Attacher", _at("spec", "attacher")),
        Column("PV", _attached_volume),
        Column("Node", _at("spec", "nodeName")),
        Column("Attached", _at("status", "attached", empty=False), type="boolean"),
        AGE,
    ),
    "poddisruptionbudgets.policy": (
        NAME,
        Column("Min Available", lambda o, _now: str(dig(o, "spec", "minAvailable") or "N/A")),
        Column("Max Unavailable", lambda o, _now: str(dig(o, "spec", "maxUnavailable") or "N/A")),
        _integer("Allowed Disruptions", "status", "disruptionsAllowed"),
        AGE,
    ),
    "priorityclasses.scheduling.k8s.io": (
        NAME,
        _integer("Value", "value"),
        Column("Global-Default", _at("globalDefault", empty=False), type="boolean"),
        AGE,
        Column("PreemptionPolicy", _at("preemptionPolicy")),
    ),
    "leases.coordination.k8s.io": (
        NAME,
        Column("Holder", _at("spec", "holderIdentity")),
        AGE,
    ),
}
"""Columns by table; `PLAIN_COLUMNS` for the rest."""
PLAIN_COLUMNS: Final = (NAME, AGE)


def table(
    name: str,
    objects: Iterable[JsonObject],
    now: float,
    *,
    metadata: JsonObject | None = None,
    include: str = "Metadata",
    with_columns: bool = True,
    columns: tuple[Column, ...] = (),
) -> JsonObject:
    """Build a `meta.k8s.io/v1` Table of objects.

    `include` is None, Metadata or Object, as in requests; `columns` are those of a definition.
    """
    columns = columns or COLUMNS.get(name, PLAIN_COLUMNS)
    made: dict[str, Any] = {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata or {},
        "columnDefinitions": [],
        "rows": [_row(obj, columns, now, include) for obj in objects],
    }
    if with_columns:
        made["columnDefinitions"] = [
            {
                "name": column.name,
                "type": column.type,
                "format": column.format,
                "description": "",
                "priority": column.priority,
            }
            for column in columns
        ]
    return made


def _row(obj: JsonObject, columns: tuple[Column, ...], now: float, include: str) -> dict[str, Any]:
    row: dict[str, Any] = {"cells": [column.cell(obj, now) for column in columns]}
    if include == "Object":
        row["object"] = obj
    elif include == "Metadata":
        row["object"] = {
            "kind": "PartialObjectMetadata",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": obj.get("metadata", {}),
        }
    return row
