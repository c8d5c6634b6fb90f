"""Writes of VolumeBinding, and the progress of the volume controller.

Upstream: `binder.go: AssumePodVolumes, BindPodVolumes`. Reserve creates a `Reservation` and assumes
its objects. PreBind sends the patches and calls `check` after every change of a returned object
until it returns none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from plugins.volume_binding.assuming import AssumeCache
from plugins.volume_binding.claims import (
    ANN_BOUND_BY_CONTROLLER,
    ANN_SELECTED_NODE,
    claim_class,
    claim_key,
    fully_bound,
)
from plugins.volume_binding.matching import VolumePlan
from plugins.volume_binding.volumes import bound_to
from scheduler.api.pod import Pod
from scheduler.api.storage import (
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from scheduler.framework import Handle, NodeInfo, ObjectKey

VOLUMES: Final = "persistentvolumes"
CLAIMS: Final = "persistentvolumeclaims"
PODS: Final = "pods"
NODES: Final = "nodes"


class BindingFailedError(Exception):
    """The volumes cannot be bound on the chosen node; the pod must be scheduled again."""


@dataclass(slots=True)
class Write:
    """A patch and the resulting object."""

    cache: AssumeCache[Any]
    assumed: Any
    body: Mapping[str, Any]
    #: resourceVersion after the write; "" before.
    resource_version: str = ""

    @property
    def target(self) -> tuple[str, str, str]:
        """Return plural, name and namespace of the object."""
        metadata = self.assumed.metadata
        return self.cache.plural, metadata.name, metadata.namespace


@dataclass(slots=True)
class Reservation:
    """Assumed objects of a pod, with their writes."""

    node_name: str
    #: (volume name, claim) of static bindings.
    bindings: list[tuple[str, PersistentVolumeClaim]]
    provisions: list[PersistentVolumeClaim]
    #: Volumes first, then claims.
    writes: list[Write] = field(default_factory=list)


def reserve(
    plan: VolumePlan,
    node_name: str,
    volumes: AssumeCache[PersistentVolume],
    claims: AssumeCache[PersistentVolumeClaim],
) -> Reservation | None:
    """Assume a plan; return None, with nothing assumed, if one of its objects has changed."""
    reservation = Reservation(
        node_name,
        [(volume.metadata.name, claim) for claim, volume in plan.bindings],
        [claim for claim, _ in plan.provisions],
    )
    writes = [
        _volume_write(volumes, reserved)
        for claim, volume in plan.bindings
        if (reserved := reserved_volume(volume, claim)) is not None
    ]
    for claim in reservation.provisions:
        watched = claims.watched(claim.metadata.name, claim.metadata.namespace)
        if watched is None or watched.metadata.annotations.get(ANN_SELECTED_NODE) != node_name:
            writes.append(_claim_write(claims, claim, node_name))
    for write in writes:
        if not write.cache.assume(write.assumed):
            release(reservation)
            return None
        reservation.writes.append(write)
    return reservation


def release(reservation: Reservation) -> None:
    """Drop every assumption; completed writes are not undone."""
    for write in reservation.writes:
        write.cache.restore(write.assumed)


def reserved_volume(
    volume: PersistentVolume, claim: PersistentVolumeClaim
) -> PersistentVolume | None:
    """Return the volume reserved for a claim, None if it is already, with the claim's UID."""
    reference = volume.spec.claim_ref
    ours = bound_to(volume, claim)
    if ours and reference is not None and reference.uid == claim.metadata.uid:
        return None
    metadata = claim.metadata
    created = ObjectReference(
        api_version="v1",
        kind="PersistentVolumeClaim",
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
    )
    replaced = msgspec.structs.replace(
        volume, spec=msgspec.structs.replace(volume.spec, claim_ref=created)
    )
    # Without the annotation, the volume controller does not undo a user's reservation.
    return replaced if ours else _with_annotation(replaced, ANN_BOUND_BY_CONTROLLER, "yes")


class Progress:
    """Progress of binding one pod's volumes (upstream `binder.go: checkBindings`)."""

    def __init__(
        self,
        handle: Handle,
        pod: Pod,
        reservation: Reservation,
        reachable: Callable[[PersistentVolume, NodeInfo], bool],
    ) -> None:
        self._handle = handle
        self._pod = pod
        self._reservation = reservation
        self._reachable = reachable
        self._versions = {write.target: write.resource_version for write in reservation.writes}

    def check(self) -> tuple[ObjectKey, ...]:
        """Return the objects to wait for, none once all are bound. Raises BindingFailedError."""
        metadata = self._pod.metadata
        pod: Pod | None = self._get(PODS, metadata.name, metadata.namespace)
        if pod is None or pod.metadata.uid != metadata.uid:
            raise BindingFailedError("pod does not exist any more")
        table, node_name = self._handle.table, self._reservation.node_name
        row = table.row_of(node_name)
        if row is None:
            raise BindingFailedError(f'node "{node_name}" not found')
        node = table.node_info(row)
        waiting: list[ObjectKey] = []
        for name, claim in self._reservation.bindings:
            waiting += self._static(name, claim, node)
        for claim in self._reservation.provisions:
            waiting += self._provisioned(claim, node)
        if waiting:
            waiting.append(ObjectKey(PODS, metadata.namespace, metadata.name))
            waiting.append(ObjectKey(NODES, "", node_name))
        return tuple(waiting)

    def _static(
        self, name: str, reserved: PersistentVolumeClaim, node: NodeInfo
    ) -> list[ObjectKey]:
        volume: PersistentVolume | None = self._get(VOLUMES, name)
        if volume is None:
            raise BindingFailedError(
                f'failed to check binding: persistentvolume "{name}" not found'
            )
        claim = self._claim(reserved)
        keys = [ObjectKey(VOLUMES, "", name), _key(claim)]
        if self._stale(volume, VOLUMES):
            return keys
        self._check_node(volume, node)
        if claim.spec.volume_name not in {"", name}:
            # Whether this node can access that other volume has not been checked.
            raise BindingFailedError(
                f'claim "{claim.metadata.name}" was bound to pv "{claim.spec.volume_name}" '
                f'instead of "{name}"'
            )
        reference = volume.spec.claim_ref
        if reference is None or not reference.uid:
            raise BindingFailedError(f'ClaimRef got reset for pv "{name}"')
        return [] if fully_bound(claim) else keys

    def _provisioned(self, reserved: PersistentVolumeClaim, node: NodeInfo) -> list[ObjectKey]:
        claim = self._claim(reserved)
        keys = [_key(claim)]
        if self._stale(claim, CLAIMS):
            return keys
        name = claim.metadata.name
        if not claim.metadata.annotations:
            raise BindingFailedError(f'selectedNode annotation reset for PVC "{name}"')
        if claim.metadata.annotations.get(ANN_SELECTED_NODE) != self._reservation.node_name:
            raise BindingFailedError(f'provisioning failed for PVC "{name}"')
        if claim.spec.volume_name:
            volume: PersistentVolume | None = self._get(VOLUMES, claim.spec.volume_name)
            if volume is None:
                # The claim may be seen before the volume.
                return [*keys, ObjectKey(VOLUMES, "", claim.spec.volume_name)]
            self._check_node(volume, node)
        return [] if fully_bound(claim) else keys

    def _get(self, plural: str, name: str, namespace: str = "") -> Any | None:
        return self._handle.listers[plural].get(name, namespace)

    def _claim(self, reserved: PersistentVolumeClaim) -> PersistentVolumeClaim:
        metadata = reserved.metadata
        claim: PersistentVolumeClaim | None = self._get(CLAIMS, metadata.name, metadata.namespace)
        if claim is None or claim.metadata.uid != metadata.uid:
            raise BindingFailedError(
                f'failed to check binding: persistentvolumeclaim "{metadata.name}" not found'
            )
        return claim

    def _check_node(self, volume: PersistentVolume, node: NodeInfo) -> None:
        if not self._reachable(volume, node):
            raise BindingFailedError(
                f'pv "{volume.metadata.name}" node affinity doesn\'t match node "{node.name}"'
            )

    def _stale(self, item: PersistentVolume | PersistentVolumeClaim, plural: str) -> bool:
        """Whether the watch has not delivered our write yet."""
        metadata = item.metadata
        resource_version = self._versions.get((plural, metadata.name, metadata.namespace), "")
        seen = metadata.resource_version
        return (
            resource_version.isdecimal() and seen.isdecimal() and int(seen) < int(resource_version)
        )


def unbound(reservation: Reservation) -> str:
    """Return the reservation's claims, for messages."""
    claims = [*(claim for _, claim in reservation.bindings), *reservation.provisions]
    return ", ".join(sorted(map(claim_key, claims)))


def awaited(handle: Handle, reservation: Reservation) -> Iterator[str]:
    """Yield what must happen before the binding can continue, a text for each unbound claim."""
    for name, claim in reservation.bindings:
        if not _is_bound(handle, claim):
            yield f"PersistentVolumeClaim {claim.metadata.name} is bound to volume {name}"
    for claim in reservation.provisions:
        if not _is_bound(handle, claim):
            class_name = claim_class(claim)
            found: StorageClass | None = handle.listers["storageclasses"].get(class_name)
            provisioner = "" if found is None else f", provisioner {found.provisioner}"
            yield (
                f"PersistentVolumeClaim {claim.metadata.name} is provisioned "
                f"(StorageClass {class_name}{provisioner})"
            )


def _is_bound(handle: Handle, claim: PersistentVolumeClaim) -> bool:
    metadata = claim.metadata
    newest = handle.listers[CLAIMS].get(metadata.name, metadata.namespace)
    return newest is not None and fully_bound(newest)


def _key(claim: PersistentVolumeClaim) -> ObjectKey:
    return ObjectKey(CLAIMS, claim.metadata.namespace, claim.metadata.name)


def _volume_write(cache: AssumeCache[PersistentVolume], volume: PersistentVolume) -> Write:
    reference = volume.spec.claim_ref
    assert reference is not None
    metadata: dict[str, Any] = {"resourceVersion": volume.metadata.resource_version}
    by_controller = volume.metadata.annotations.get(ANN_BOUND_BY_CONTROLLER)
    if by_controller is not None:
        metadata["annotations"] = {ANN_BOUND_BY_CONTROLLER: by_controller}
    body = {"metadata": metadata, "spec": {"claimRef": msgspec.to_builtins(reference)}}
    return Write(cache, volume, body)


def _claim_write(
    cache: AssumeCache[PersistentVolumeClaim], claim: PersistentVolumeClaim, node_name: str
) -> Write:
    body = {
        "metadata": {
            "resourceVersion": claim.metadata.resource_version,
            "annotations": {ANN_SELECTED_NODE: node_name},
        }
    }
    return Write(cache, _with_annotation(claim, ANN_SELECTED_NODE, node_name), body)


def _with_annotation(item: Any, key: str, text: str) -> Any:
    annotations = {**item.metadata.annotations, key: text}
    metadata = msgspec.structs.replace(item.metadata, annotations=annotations)
    return msgspec.structs.replace(item, metadata=metadata)
