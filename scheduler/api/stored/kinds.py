"""Kinds besides pods: their default values, and what admission plugins add."""

from __future__ import annotations

from typing import Final

from scheduler.api.devices import EXACT_COUNT
from scheduler.api.node import HOSTNAME
from scheduler.api.storage import StorageClass
from scheduler.api.stored.existing import Existing
from scheduler.api.stored.notes import JsonObject, Notes, part

STORAGE_CLASSES: Final = "storageclasses"
IS_DEFAULT: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
OLD_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
"""Annotation of claims from before `spec.storageClassName`."""

NAME_LABEL: Final = "kubernetes.io/metadata.name"

ALLOCATABLE: Final = "allocatable from capacity"


def namespace(obj: JsonObject, _notes: Notes) -> None:
    """Complete a Namespace: its name is a label."""
    metadata = part(obj, "metadata")
    if metadata.get("name"):
        part(metadata, "labels")[NAME_LABEL] = metadata["name"]


def node(obj: JsonObject, notes: Notes) -> None:
    """Complete a Node: all of it is allocatable unless it says otherwise."""
    status = obj.get("status") or {}
    if status.get("capacity") and not status.get("allocatable"):
        status["allocatable"] = dict(status["capacity"])
        notes.fill(ALLOCATABLE)
    if HOSTNAME not in ((obj.get("metadata") or {}).get("labels") or {}):
        notes.miss(f"label {HOSTNAME}, which kubelets set")


def volume(obj: JsonObject, _notes: Notes) -> None:
    """Complete a PersistentVolume."""
    spec = part(obj, "spec")
    spec.setdefault("volumeMode", "Filesystem")
    spec.setdefault("persistentVolumeReclaimPolicy", "Retain")


def claim(obj: JsonObject, _notes: Notes) -> None:
    """Complete a PersistentVolumeClaim."""
    part(obj, "spec").setdefault("volumeMode", "Filesystem")


def admit_claim(obj: JsonObject, existing: Existing, notes: Notes) -> None:
    """Give a PersistentVolumeClaim the default class (DefaultStorageClass)."""
    annotations = (obj.get("metadata") or {}).get("annotations") or {}
    if "storageClassName" in obj["spec"] or OLD_CLASS in annotations:
        return
    found = default_class(existing)
    if found is not None:
        obj["spec"]["storageClassName"] = found.metadata.name
        notes.fill(f"StorageClass {found.metadata.name[:80]}")
    elif not existing.known(STORAGE_CLASSES):
        notes.miss("StorageClasses (no class)")


def default_class(existing: Existing) -> StorageClass | None:
    """Return the class of claims that name none: the newest, of those the first by name."""
    classes = [
        each
        for each in existing.every(STORAGE_CLASSES)
        if any(each.metadata.annotations.get(name) == "true" for name in IS_DEFAULT)
    ]
    classes.sort(key=lambda each: each.metadata.name)
    return max(classes, key=lambda each: each.metadata.creation_timestamp or "", default=None)


def storage_class(obj: JsonObject, _notes: Notes) -> None:
    """Complete a StorageClass."""
    obj.setdefault("reclaimPolicy", "Delete")
    obj.setdefault("volumeBindingMode", "Immediate")


def csi_driver(obj: JsonObject, _notes: Notes) -> None:
    """Complete a CSIDriver."""
    spec = part(obj, "spec")
    spec.setdefault("attachRequired", True)
    spec.setdefault("storageCapacity", False)
    spec.setdefault("preventPodSchedulingIfMissing", False)


def priority_class(obj: JsonObject, _notes: Notes) -> None:
    """Complete a PriorityClass."""
    obj.setdefault("preemptionPolicy", "PreemptLowerPriority")


def replication_controller(obj: JsonObject, _notes: Notes) -> None:
    """Complete a ReplicationController: it selects the pods of its template."""
    spec = part(obj, "spec")
    template = spec.get("template") or {}
    labels = (template.get("metadata") or {}).get("labels")
    for holder, field in ((spec, "selector"), (part(obj, "metadata"), "labels")):
        if labels and not holder.get(field):
            holder[field] = dict(labels)


def resource_claim(obj: JsonObject, _notes: Notes) -> None:
    """Complete a ResourceClaim: each request is for one device."""
    _default_requests(obj.get("spec") or {})


def resource_claim_template(obj: JsonObject, _notes: Notes) -> None:
    """Complete a ResourceClaimTemplate in the same way."""
    _default_requests((obj.get("spec") or {}).get("spec") or {})


def _default_requests(spec: JsonObject) -> None:
    for request in (spec.get("devices") or {}).get("requests") or ():
        exactly = [request["exactly"]] if "exactly" in request else []
        for each in (*exactly, *(request.get("firstAvailable") or ())):
            if each.setdefault("allocationMode", EXACT_COUNT) == EXACT_COUNT:
                each.setdefault("count", 1)
            for toleration in each.get("tolerations") or ():
                toleration.setdefault("operator", "Equal")
