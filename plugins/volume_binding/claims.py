"""Claims of a pod, and what a claim says: facts that all volume plugins share (plugins.md 4.15).

Pure functions over API objects; nothing here looks an object up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from plugins.queueing_hints import queue_if
from scheduler.api.meta import RawQuantity
from scheduler.api.pod import Pod, Volume
from scheduler.api.quantity import value
from scheduler.api.storage import PersistentVolumeClaim
from scheduler.framework import HintKeys, QueueingHint

ANN_BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
ANN_BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
ANN_SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
ANN_STORAGE_CLASS: Final = "volume.beta.kubernetes.io/storage-class"

WAIT_FOR_FIRST_CONSUMER: Final = "WaitForFirstConsumer"
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
READ_WRITE_ONCE_POD: Final = "ReadWriteOncePod"

CLAIM_NOT_FOUND: Final = 'persistentvolumeclaim "{}" not found'
NOT_OWNER: Final = "PVC {claim} was not created for pod {pod} (pod is not owner)"
NO_BINDING_MODE: Final = 'VolumeBindingMode not set for StorageClass "{}"'

_STORAGE: Final = "storage"


class PodClaim(NamedTuple):
    """A claim that a pod uses, by name."""

    name: str
    #: The claim was, or will be, made from the template in the pod.
    ephemeral: bool


def pod_claims(pod: Pod) -> Iterator[PodClaim]:
    """The pod's claims in the order of its volumes, those of generic ephemeral volumes included."""
    for volume in pod.signature.volumes:
        if volume.persistent_volume_claim is not None:
            yield PodClaim(volume.persistent_volume_claim.claim_name, ephemeral=False)
        elif volume.ephemeral is not None:
            yield PodClaim(ephemeral_claim_name(pod, volume), ephemeral=True)


def ephemeral_claim_name(pod: Pod, volume: Volume) -> str:
    """The name of the claim that the ephemeral volume controller makes."""
    return f"{pod.metadata.name}-{volume.name}"


def made_for(claim: PersistentVolumeClaim, pod: Pod) -> bool:
    """Whether `pod` is the controller of `claim`, as it must be of an ephemeral one."""
    owner = next((each for each in claim.metadata.owner_references if each.controller), None)
    return owner is not None and owner.uid == pod.metadata.uid


def not_owner(claim: PersistentVolumeClaim, pod: Pod) -> str:
    """The text for an ephemeral claim that belongs to somebody else."""
    return NOT_OWNER.format(claim=claim_key(claim), pod=pod.key)


def claim_key(claim: PersistentVolumeClaim) -> str:
    """`namespace/name`."""
    return f"{claim.metadata.namespace}/{claim.metadata.name}"


def claim_class(claim: PersistentVolumeClaim) -> str:
    """The name of the claim's class, "" for none; the old annotation wins."""
    annotated = claim.metadata.annotations.get(ANN_STORAGE_CLASS)
    return claim.spec.storage_class_name or "" if annotated is None else annotated


def fully_bound(claim: PersistentVolumeClaim) -> bool:
    """Whether the volume controller has finished binding the claim."""
    return bool(claim.spec.volume_name) and ANN_BIND_COMPLETED in claim.metadata.annotations


def requested_storage(claim: PersistentVolumeClaim) -> int | None:
    """Requested bytes, None when the claim requests none. Raises QuantityError."""
    return storage_of(claim.spec.resources.requests)


def storage_of(amounts: Mapping[str, RawQuantity]) -> int | None:
    """The bytes of `storage` in a resource list."""
    raw = amounts.get(_STORAGE)
    return None if raw is None else value(raw)


def after_own_claim(
    pod: Pod, _old: PersistentVolumeClaim | None, new: PersistentVolumeClaim
) -> QueueingHint:
    """Hint: a claim that a volume of the pod names appeared or changed; not for ephemeral ones."""
    own = (
        new.metadata.namespace == pod.metadata.namespace
        and new.metadata.name in pod.signature.claims
    )
    return queue_if(own)


def after_any_own_claim(
    pod: Pod, _old: PersistentVolumeClaim | None, new: PersistentVolumeClaim
) -> QueueingHint:
    """Hint: as `after_own_claim`, claims of ephemeral volumes included."""
    own = new.metadata.namespace == pod.metadata.namespace and any(
        claim.name == new.metadata.name for claim in pod_claims(pod)
    )
    return queue_if(own)


def claims_named(pod: Pod) -> set[tuple[str, str]]:
    """Namespace and name of the claims that volumes of the pod name; not those to be made."""
    namespace = pod.metadata.namespace
    return {(namespace, claim) for claim in pod.signature.claims}


def _required_keys(pod: Pod) -> set[tuple[str, str]] | None:
    # The name of an ephemeral volume's claim is not the signature's.
    if any(each.ephemeral is not None for each in pod.signature.volumes):
        return None
    return claims_named(pod)


def _provided_keys(
    _old: PersistentVolumeClaim | None, new: PersistentVolumeClaim
) -> tuple[tuple[str, str], ...]:
    return ((new.metadata.namespace, new.metadata.name),)


OWN_CLAIM_KEYS: Final = HintKeys(_required_keys, _provided_keys)
"""For both hints above."""
