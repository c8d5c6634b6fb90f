"""`as_stored`: one object in, the same as an API server would store it out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from scheduler.api.meta import ObjectMeta
from scheduler.api.stored import kinds, limit_ranges, pods
from scheduler.api.stored.existing import Existing
from scheduler.api.stored.notes import JsonObject, Notes

_DEFAULTS: Final[Mapping[tuple[str, str], Callable[[JsonObject, Notes], None]]] = {
    ("", "LimitRange"): limit_ranges.default,
    ("", "Namespace"): kinds.namespace,
    ("", "Node"): kinds.node,
    ("", "PersistentVolume"): kinds.volume,
    ("", "PersistentVolumeClaim"): kinds.claim,
    ("", "Pod"): pods.default,
    ("", "ReplicationController"): kinds.replication_controller,
    ("resource.k8s.io", "ResourceClaim"): kinds.resource_claim,
    ("resource.k8s.io", "ResourceClaimTemplate"): kinds.resource_claim_template,
    ("scheduling.k8s.io", "PriorityClass"): kinds.priority_class,
    ("storage.k8s.io", "CSIDriver"): kinds.csi_driver,
    ("storage.k8s.io", "StorageClass"): kinds.storage_class,
}
"""What is done in place whenever an object is read, by group and kind; nothing for other kinds."""

_ADMISSION: Final[Mapping[tuple[str, str], Callable[[JsonObject, Existing, Notes], None]]] = {
    ("", "PersistentVolumeClaim"): kinds.admit_claim,
    ("", "Pod"): pods.admit,
}
"""What is done to a new object then."""


@dataclass(frozen=True, slots=True)
class Stored:
    """An object, and what was done to it."""

    obj: JsonObject
    #: What was filled in or dropped, such as `requests from limits`.
    filled: tuple[str, ...]
    #: What it may lack because objects that decide about it are not known.
    unknown: tuple[str, ...]


def as_stored(obj: Mapping[str, Any], existing: Existing) -> Stored:
    """Return an object as an API server would store it; the one that is given stays as it is.

    Objects of kinds that need nothing come out without nulls. What is filled in is derived from
    values as they are: a manifest with values of wrong types is for those to refuse who read it.

    >>> from scheduler.api.stored import Nothing
    >>> node = {"apiVersion": "v1", "kind": "Node", "status": {"capacity": {"cpu": "4"}}}
    >>> as_stored(node, Nothing()).obj["status"]["allocatable"]
    {'cpu': '4'}
    """
    made: JsonObject = _copied(obj)
    notes = Notes()
    default(made, notes)
    admit(made, existing, notes)
    metadata = made.get("metadata") or {}
    if metadata.get("uid") and metadata.get("creationTimestamp"):
        # Whoever stored it knew everything.
        notes.unknown.clear()
    return Stored(made, tuple(notes.filled), tuple(notes.unknown))


def default(obj: JsonObject, notes: Notes) -> None:
    """Fill in default values in place, as is done whenever an object without nulls is read."""
    step = _DEFAULTS.get(_kind(obj))
    if step is not None:
        step(obj, notes)


def admit(obj: JsonObject, existing: Existing, notes: Notes) -> None:
    """Do in place what is done to a new object after that."""
    step = _ADMISSION.get(_kind(obj))
    if step is not None:
        step(obj, existing, notes)


def _kind(obj: JsonObject) -> tuple[str, str]:
    return str(obj.get("apiVersion", "")).rpartition("/")[0], str(obj.get("kind", ""))


def is_completed(api_version: str, kind: str) -> bool:
    """Return whether anything is done to objects of a kind."""
    head = _kind({"apiVersion": api_version, "kind": kind})
    return head in _DEFAULTS or head in _ADMISSION


def was_stored(metadata: ObjectMeta) -> bool:
    """Return whether an API server has stored an object: only these give it UID and time."""
    return bool(metadata.uid and metadata.creation_timestamp)


def _copied(value: Any) -> Any:
    """Copy a tree without the members that are null, as decoding into Go types drops them."""
    if isinstance(value, Mapping):
        return {key: _copied(each) for key, each in value.items() if each is not None}
    if isinstance(value, (list, tuple)):
        return [_copied(each) for each in value]
    return value
