"""Claims of a pod and their properties, for all volume plugins.

Pure functions of API objects, without look-ups.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from plugins.queueing_hints import queue_if
from scheduler.api.meta import RawQuantity
from scheduler.api.pod import Pod
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


class PodClaim(NamedTuple):
    """A claim that a pod uses, by name."""

    name: str
    #: Whether the claim is created from a template in the pod.
    ephemeral: bool


def pod_claims(pod: Pod) -> Iterator[PodClaim]:
    """Yield the pod's claims in the order of its volumes, including generic ephemeral volumes."""
    for volume in pod.signature.volumes:
        if volume.persistent_volume_claim is not None:
            yield PodClaim(volume.persistent_volume_claim.claim_name, ephemeral=False)
        elif volume.ephemeral is not None:
            # The ephemeral volume controller chooses this name.
            yield PodClaim(f"{pod.metadata.name}-{volume.name}", ephemeral=True)


def made_for(claim: PersistentVolumeClaim, pod: Pod) -> bool:
    """Whether `pod` is the controller of `claim`, as required for an ephemeral volume."""
    owner = next((each for each in claim.metadata.owner_references if each.controller), None)
    return owner is not None and owner.uid == pod.metadata.uid


def not_owner(claim: PersistentVolumeClaim, pod: Pod) -> str:
    """Return the error text for an ephemeral claim that has another owner."""
    return NOT_OWNER.format(claim=claim_key(claim), pod=pod.key)


def claim_key(claim: PersistentVolumeClaim) -> str:
    """Return `namespace/name`."""
    return f"{claim.metadata.namespace}/{claim.metadata.name}"


def claim_class(claim: PersistentVolumeClaim) -> str:
    """Return the claim's class, "" for none; the beta annotation takes precedence."""
    annotated = claim.metadata.annotations.get(ANN_STORAGE_CLASS)
    return claim.spec.storage_class_name or "" if annotated is None else annotated


def fully_bound(claim: PersistentVolumeClaim) -> bool:
    """Whether the volume controller has finished binding the claim."""
    return bool(claim.spec.volume_name) and ANN_BIND_COMPLETED in claim.metadata.annotations


def requested_storage(claim: PersistentVolumeClaim) -> int | None:
    """Return the requested bytes, None if the claim requests none. Raises QuantityError."""
    return storage_of(claim.spec.resources.requests)


def storage_of(amounts: Mapping[str, RawQuantity]) -> int | None:
    """Return the bytes of `storage` in a resource list, None if absent. Raises QuantityError."""
    raw = amounts.get("storage")
    return None if raw is None else value(raw)


def after_own_claim(
    pod: Pod, _old: PersistentVolumeClaim | None, new: PersistentVolumeClaim
) -> QueueingHint:
    """Hint: queue if the pod names the added or changed claim; ignores ephemeral volumes."""
    own = (
        new.metadata.namespace == pod.metadata.namespace
        and new.metadata.name in pod.signature.claims
    )
    return queue_if(own)


def after_any_own_claim(
    pod: Pod, _old: PersistentVolumeClaim | None, new: PersistentVolumeClaim
) -> QueueingHint:
    """Hint: `after_own_claim`, including claims of ephemeral volumes."""
    own = new.metadata.namespace == pod.metadata.namespace and any(
        claim.name == new.metadata.name for claim in pod_claims(pod)
    )
    return queue_if(own)


def claims_named(pod: Pod) -> set[tuple[str, str]]:
    """Return (namespace, name) of the claims that the pod names, without ephemeral ones."""
    namespace = pod.metadata.namespace
    return {(namespace, claim) for claim in pod.signature.claims}


def _required_keys(pod: Pod) -> set[tuple[str, str]] | None:
    # The claim name of an ephemeral volume depends on the pod's name, not on its signature.
    if any(each.ephemeral is not None for each in pod.signature.volumes):
        return None
    return claims_named(pod)


def _provided_keys(
    _old: PersistentVolumeClaim | None, new: PersistentVolumeClaim
) -> tuple[tuple[str, str], ...]:
    return ((new.metadata.namespace, new.metadata.name),)


OWN_CLAIM_KEYS: Final = HintKeys(_required_keys, _provided_keys)
"""Keys of `after_own_claim` and `after_any_own_claim`."""
