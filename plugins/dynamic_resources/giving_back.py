"""Writes that undo allocations and reservations of claims, and helpers for all writes."""

from __future__ import annotations

from typing import Any, Final

from plugins.dynamic_resources.cluster_devices import ClusterDevices
from plugins.dynamic_resources.permissions import CLAIMS
from scheduler.api.devices import ResourceClaim
from scheduler.api.pod import Pod
from scheduler.framework import ApiWriter, ObjectKey

FINALIZER: Final = "resource.kubernetes.io/delete-protection"
STATUS: Final = "status"
DEALLOCATED: Final = {"allocation": None, "reservedFor": None, "devices": None}
"""Status patch that deallocates a claim."""


async def settle(api: ApiWriter, devices: ClusterDevices, claim: ResourceClaim) -> None:
    """Find out whether an allocation was stored, however long that takes; then end it in `devices`.

    If it was stored, the watch shows it, and its devices stay allocated to the claim.
    """
    metadata = claim.metadata
    key = ObjectKey(CLAIMS, metadata.namespace, metadata.name)
    while True:
        # This wait always times out; it is the pause between two reads.
        await api.wait_for(lambda: (key,), 5.0)
        try:
            found = await api.get(CLAIMS, metadata.name, metadata.namespace)
        except Exception:  # noqa: BLE001, S112 - boundary: retried until there is a response
            continue
        if found is not None and found.metadata.uid == metadata.uid:
            devices.claims.assume(found)
        devices.unsettled.discard(metadata.uid)
        devices.end(metadata.uid)
        return


async def unreserve(api: ApiWriter, pod: Pod, claim: ResourceClaim) -> None:
    """Remove the reservation of a pod; as upstream, the allocation stays."""
    metadata = claim.metadata
    body = {
        "metadata": {"uid": metadata.uid},
        STATUS: {"reservedFor": [{"$patch": "delete", "uid": pod.metadata.uid}]},
    }
    await api.patch(CLAIMS, metadata.name, metadata.namespace, body, STATUS, strategic=True)


async def deallocate(api: ApiWriter, claim: ResourceClaim) -> None:
    """Deallocate a claim; the API server refuses this if the claim has changed since."""
    metadata = claim.metadata
    body = {**head(claim), STATUS: DEALLOCATED}
    await api.patch(CLAIMS, metadata.name, metadata.namespace, body, STATUS)


async def delete_extra(api: ApiWriter, claim: ResourceClaim) -> None:
    """Delete a claim that was created for extended resources."""
    metadata = claim.metadata
    left = [each for each in metadata.finalizers if each != FINALIZER]
    body = {"metadata": {"uid": metadata.uid, "finalizers": left}}
    await api.patch(CLAIMS, metadata.name, metadata.namespace, body)
    await api.delete(CLAIMS, metadata.name, metadata.namespace, metadata.uid)


def head(claim: ResourceClaim, **fields: Any) -> dict[str, Any]:
    """Return the metadata that restricts a write to this version of a claim."""
    metadata = claim.metadata
    names = {"uid": metadata.uid, "resourceVersion": metadata.resource_version}
    return {"metadata": {**names, **fields}}


def consumer(pod: Pod) -> dict[str, str]:
    """Return the entry of a pod in `status.reservedFor`."""
    return {"resource": "pods", "name": pod.metadata.name, "uid": pod.metadata.uid}
