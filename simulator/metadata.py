"""Metadata of stored objects: preconditions, fields owned by the server, grace periods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simulator import errors
from simulator.errors import ApiError
from simulator.objects import JsonObject, dig
from simulator.resources import Resource
from simulator.store import Version


def check_preconditions(
    resource: Resource, current: Version, preconditions: Mapping[str, Any]
) -> None:
    """Raise 409 unless the stored object has the UID and the version of the preconditions."""
    uid, have = preconditions.get("uid"), current.obj["metadata"].get("uid")
    if uid and uid != have:
        why = (
            f"the UID in the precondition ({uid}) does not match the UID in record ({have}). "
            "The object might have been deleted and then recreated"
        )
        raise errors.conflict(resource.kind, resource.group, current.name, why)
    version = preconditions.get("resourceVersion")
    if version and version != str(current.rv):
        why = (
            f"the ResourceVersion in the precondition ({version}) does not match the "
            f"ResourceVersion in record ({current.rv}). The object might have been modified"
        )
        raise errors.conflict(resource.kind, resource.group, current.name, why)


def uid_mismatch(resource: Resource, current: Version, uid: str) -> ApiError:
    """Build a 409 for a write to an object that was replaced by another of the same name."""
    have = current.obj["metadata"].get("uid")
    place = f"/registry/{resource.plural}/{current.namespace}/{current.name}"
    why = (
        f"StorageError: invalid object, Code: 4, Key: {place}, ResourceVersion: 0, "
        f"AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, "
        f"UID in object meta: {have}"
    )
    return errors.conflict(resource.plural, resource.group, current.name, why)


def kept_metadata(meta: JsonObject, old: JsonObject) -> JsonObject:
    """Return the metadata of a change; the server's own fields come from the stored object."""
    kept = {key: value for key, value in meta.items() if value is not None}
    for key in (
        "uid",
        "creationTimestamp",
        "generation",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "resourceVersion",
        "generateName",
    ):
        if key in old:
            kept[key] = old[key]
        else:
            kept.pop(key, None)
    return kept


def grace_seconds(resource: Resource, obj: JsonObject, wanted: JsonObject) -> int:
    """Return the grace period of a deletion; only bound pods that have not finished have one."""
    if resource.table != "pods":
        return 0
    phase = dig(obj, "status", "phase")
    if not dig(obj, "spec", "nodeName") or phase in ("Succeeded", "Failed"):
        return 0
    requested = wanted.get("gracePeriodSeconds")
    if requested is None:
        requested = dig(obj, "spec", "terminationGracePeriodSeconds")
    return max(0, int(30 if requested is None else requested))
