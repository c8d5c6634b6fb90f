"""Kinds besides pods: their default values, and what admission plugins add."""

from __future__ import annotations

from typing import Final

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

ALLOCATABLE: Final = "allocatable from capacity"


def node(obj: JsonObject, _existing: Existing, notes: Notes) -> None:
    """Complete a node: all of it is allocatable unless it says otherwise."""
    status = obj.get("status") or {}
    if status.get("capacity") and "allocatable" not in status:
        status["allocatable"] = dict(status["capacity"])
        notes.fill(ALLOCATABLE)


def volume(obj: JsonObject, _existing: Existing, _notes: Notes) -> None:
    """Complete a PersistentVolume."""
    spec = part(obj, "spec")
    spec.setdefault("volumeMode", "Filesystem")
    spec.setdefault("persistentVolumeReclaimPolicy", "Retain")


def claim(obj: JsonObject, existing: Existing, notes: Notes) -> None:
    """Complete a PersistentVolumeClaim, with the default class (DefaultStorageClass)."""
    spec = part(obj, "spec")
    spec.setdefault("volumeMode", "Filesystem")
    annotations = (obj.get("metadata") or {}).get("annotations") or {}
    if "storageClassName" in spec or OLD_CLASS in annotations:
        return
    found = default_class(existing)
    if found is not None:
        spec["storageClassName"] = found.metadata.name
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
