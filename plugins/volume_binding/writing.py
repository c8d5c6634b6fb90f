"""Writes of VolumeBinding, and the progress of the volume controller.

Upstream: `binder.go: AssumePodVolumes, BindPodVolumes`. Reserve creates a `Reservation` and assumes
its objects. PreBind sends the patches and calls `check` after every change of a returned object
until it returns none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from plugins.volume_binding.assuming import AssumeCache
from plugins.volume_binding.claims import (
    ANN_BOUND_BY_CONTROLLER,
    ANN_SELECTED_NODE,
    claim_key,
    fully_bound,
)
from plugins.volume_binding.matching import Plan
from plugins.volume_binding.volumes import bound_to
from scheduler.api.pod import Pod
from scheduler.api.storage import ObjectReference, PersistentVolume, PersistentVolumeClaim
from scheduler.framework import ObjectKey

VOLUMES: Final = "persistentvolumes"
CLAIMS: Final = "persistentvolumeclaims"
PODS: Final = "pods"
NODES: Final = "nodes"


class BindingFailedError(Exception):
    """The volumes cannot be bound on the chosen node; the pod must be scheduled again."""


@dataclass(slots=True)
class Write:
    """A patch and the resulting object."""

    plural: str
    name: str
    namespace: str
    body: Mapping[str, Any]
    assumed: Any
    #: resourceVersion after the write; "" before.
    resource_version: str = ""


@dataclass(slots=True)
class Reservation:
    """Assumed objects of a pod, with their writes."""

    node_name: str
    #: (volume name, claim) of static bindings.
    bindings: list[tuple[str, PersistentVolumeClaim]] = field(default_factory=list)
    provisions: list[PersistentVolumeClaim] = field(default_factory=list)
    #: Volumes first, then claims.
    writes: list[Write] = field(default_factory=list)


def reserve(
    plan: Plan,
    node_name: str,
    volumes: AssumeCache[PersistentVolume],
    claims: AssumeCache[PersistentVolumeClaim],
) -> Reservation | None:
    """Assume a plan; return None, with nothing assumed, if one of its objects has changed."""
    reservation = Reservation(node_name)
    for claim, volume in plan.bindings:
        reserved = reserved_volume(volume, claim)
        if reserved is not None:
            if not volumes.assume(reserved):
                release(reservation, volumes, claims)
                return None
            reservation.writes.append(_volume_write(reserved))
        reservation.bindings.append((volume.metadata.name, claim))
    for claim, _ in plan.provisions:
        reservation.provisions.append(claim)
        watched = claims.watched(claim.metadata.name, claim.metadata.namespace)
        if watched is not None and watched.metadata.annotations.get(ANN_SELECTED_NODE) == node_name:
            continue
        assigned = _with_annotation(claim, ANN_SELECTED_NODE, node_name)
        if not claims.assume(assigned):
            release(reservation, volumes, claims)
            return None
        reservation.writes.append(_claim_write(assigned))
    return reservation


def release(
    reservation: Reservation,
    volumes: AssumeCache[PersistentVolume],
    claims: AssumeCache[PersistentVolumeClaim],
) -> None:
    """Drop every assumption; completed writes are not undone."""
    for write in reservation.writes:
        cache: AssumeCache[Any] = volumes if write.plural == VOLUMES else claims
        cache.restore(write.assumed)


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
        pod: Pod,
        reservation: Reservation,
        *,
        get: Callable[[str, str, str], Any | None],
        node_exists: Callable[[], bool],
        reachable: Callable[[PersistentVolume], bool],
    ) -> None:
        """`get(plural, name, namespace)` returns an object as last watched."""
        self._node_exists = node_exists
        self._pod = pod
        self._reservation = reservation
        self._get = get
        self._reachable = reachable
        self._versions = {
            (write.plural, write.namespace, write.name): write.resource_version
            for write in reservation.writes
        }

    def check(self) -> tuple[ObjectKey, ...]:
        """Return the objects to wait for, none once all are bound. Raises BindingFailedError."""
        metadata = self._pod.metadata
        pod: Pod | None = self._get(PODS, metadata.name, metadata.namespace)
        if pod is None or pod.metadata.uid != metadata.uid:
            raise BindingFailedError("pod does not exist any more")
        node_name = self._reservation.node_name
        if not self._node_exists():
            raise BindingFailedError(f'node "{node_name}" not found')
        waiting: list[ObjectKey] = []
        for name, claim in self._reservation.bindings:
            waiting += self._static(name, claim)
        for claim in self._reservation.provisions:
            waiting += self._provisioned(claim)
        if waiting:
            waiting.append(ObjectKey(PODS, metadata.namespace, metadata.name))
            waiting.append(ObjectKey(NODES, "", node_name))
        return tuple(waiting)

    def _static(self, name: str, reserved: PersistentVolumeClaim) -> list[ObjectKey]:
        volume: PersistentVolume | None = self._get(VOLUMES, name, "")
        if volume is None:
            raise BindingFailedError(
                f'failed to check binding: persistentvolume "{name}" not found'
            )
        claim = self._claim(reserved)
        keys = [ObjectKey(VOLUMES, "", name), _key(claim)]
        if self._stale(volume, VOLUMES):
            return keys
        self._check_node(volume)
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

    def _provisioned(self, reserved: PersistentVolumeClaim) -> list[ObjectKey]:
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
            volume: PersistentVolume | None = self._get(VOLUMES, claim.spec.volume_name, "")
            if volume is None:
                # The claim may be seen before the volume.
                return [*keys, ObjectKey(VOLUMES, "", claim.spec.volume_name)]
            self._check_node(volume)
        return [] if fully_bound(claim) else keys

    def _claim(self, reserved: PersistentVolumeClaim) -> PersistentVolumeClaim:
        metadata = reserved.metadata
        claim: PersistentVolumeClaim | None = self._get(CLAIMS, metadata.name, metadata.namespace)
        if claim is None or claim.metadata.uid != metadata.uid:
            raise BindingFailedError(
                f'failed to check binding: persistentvolumeclaim "{metadata.name}" not found'
            )
        return claim

    def _check_node(self, volume: PersistentVolume) -> None:
        if not self._reachable(volume):
            raise BindingFailedError(
                f'pv "{volume.metadata.name}" node affinity doesn\'t match node '
                f'"{self._reservation.node_name}"'
            )

    def _stale(self, item: PersistentVolume | PersistentVolumeClaim, plural: str) -> bool:
        """Whether the watch has not delivered our write yet."""
        metadata = item.metadata
        resource_version = self._versions.get((plural, metadata.namespace, metadata.name), "")
        seen = metadata.resource_version
        return (
            resource_version.isdecimal() and seen.isdecimal() and int(seen) < int(resource_version)
        )


def unbound(reservation: Reservation) -> str:
    """Return the reservation's claims, for messages."""
    claims = [claim for _, claim in reservation.bindings] + reservation.provisions
    return ", ".join(sorted(map(claim_key, claims)))


def _key(claim: PersistentVolumeClaim) -> ObjectKey:
    return ObjectKey(CLAIMS, claim.metadata.namespace, claim.metadata.name)


def _volume_write(volume: PersistentVolume) -> Write:
    reference = volume.spec.claim_ref
    assert reference is not None
    metadata: dict[str, Any] = {"resourceVersion": volume.metadata.resource_version}
    by_controller = volume.metadata.annotations.get(ANN_BOUND_BY_CONTROLLER)
    if by_controller is not None:
        metadata["annotations"] = {ANN_BOUND_BY_CONTROLLER: by_controller}
    body = {"metadata": metadata, "spec": {"claimRef": msgspec.to_builtins(reference)}}
    return Write(VOLUMES, volume.metadata.name, "", body, volume)


def _claim_write(claim: PersistentVolumeClaim) -> Write:
    metadata = claim.metadata
    body = {
        "metadata": {
            "resourceVersion": metadata.resource_version,
            "annotations": {ANN_SELECTED_NODE: metadata.annotations[ANN_SELECTED_NODE]},
        }
    }
    return Write(CLAIMS, metadata.name, metadata.namespace, body, claim)


def _with_annotation(item: Any, key: str, text: str) -> Any:
    annotations = {**item.metadata.annotations, key: text}
    metadata = msgspec.structs.replace(item.metadata, annotations=annotations)
    return msgspec.structs.replace(item, metadata=metadata)
