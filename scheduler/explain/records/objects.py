"""Reasons that speak of an object which a pod needs: it is missing, leaves, or is not ready.

They concern all nodes alike, and preemption helps nothing: what helps is said with the fact. The
names in them were written by tenants, and not all are checked by the API server.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

MAX_MESSAGE: Final = 1_000
"""Characters of a message that are searched."""

_NAME: Final = ".{1,253}?"
_BEGIN: Final = re.compile(r"\d{1,9}/\d{1,9} nodes are available: (?:\d{1,9} (?=\D))?")
_PLACE: Final = re.compile(r"\\\{(\w+)\\\}")


class ObjectWords(NamedTuple):
    """The words of a reason, with the names of objects in place."""

    fact: str
    advice: str
    """What to do."""
    cause: str
    """What several pods wait for or lack; without names."""

    def sentence(self, detail: str = "") -> str:
        """Return fact and advice, without the last full stop."""
        numbers = f" ({detail})" if detail else ""
        return f"{self.fact}{numbers}. {self.advice}"


_CREATE: Final = "Create it, or correct the name in the pod"
_RESTORE: Final = "Restore the volume, or create the claim anew"
_ANEW: Final = "Once it has gone, create it anew"
_OWNER: Final = "Delete that claim, or give the pod another name"
_PERMIT: Final = "`kubestow check` shows the rule to add"
_BIND: Final = (
    "Look at its events and its StorageClass: it does not wait for the pod, so it must be bound "
    "before"
)
_PERMISSION: Final = "wait for a permission of the scheduler"
_TO_BE_BOUND: Final = "wait for a PersistentVolumeClaim to be bound"
_NO_CLAIM: Final = ObjectWords(
    'the PersistentVolumeClaim "{name}" does not exist in namespace {namespace}', _CREATE,
    "lack a PersistentVolumeClaim",
)  # fmt: skip
_NO_VOLUME: Final = "lack a PersistentVolume"

_WORDS: Final[Mapping[str, ObjectWords]] = {
    # VolumeRestrictions, VolumeBinding, VolumeZone, NodeVolumeLimits
    'persistentvolumeclaim "{name}" not found': _NO_CLAIM,
    'looking up PVC {namespace}/{key}: persistentvolumeclaim "{name}" not found': _NO_CLAIM,
    'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"':
    ObjectWords(
        'the PersistentVolumeClaim "{name}" of an ephemeral volume does not exist yet',
        "kube-controller-manager creates it; if it does not, its log says why",
        "wait for a PersistentVolumeClaim to be created",
    ),
    'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume}"': ObjectWords(
        'the PersistentVolumeClaim "{name}" has lost its PersistentVolume "{volume}", which does '
        "not exist any more", _RESTORE, _NO_VOLUME,
    ),
    'persistentvolumeclaim "{name}" is being deleted': ObjectWords(
        'the PersistentVolumeClaim "{name}" is being deleted', _ANEW,
        "use a PersistentVolumeClaim that is being deleted",
    ),
    "PVC {name} was not created for pod {pod} (pod is not owner)": ObjectWords(
        'the PersistentVolumeClaim "{name}" has the name that the claim of an ephemeral volume of '
        "the pod must have, and is not the pod's", _OWNER,
        "lack a PersistentVolumeClaim of their own",
    ),
    "pod has unbound immediate PersistentVolumeClaims": ObjectWords(
        "a PersistentVolumeClaim of the pod is not bound to a volume", _BIND, _TO_BE_BOUND
    ),
    "PersistentVolumeClaim had no name": ObjectWords(
        "a volume of the pod names no PersistentVolumeClaim", "Correct the pod",
        "lack the name of a PersistentVolumeClaim",
    ),
    "PersistentVolumeClaim had no pv name and storageClass name": ObjectWords(
        "a PersistentVolumeClaim of the pod is not bound to a volume, and has no StorageClass",
        "Create a volume for it, or the claim anew with a StorageClass", _TO_BE_BOUND,
    ),
    "PersistentVolume had no name": ObjectWords(
        "a PersistentVolumeClaim of the pod is not bound to a volume", _BIND, _TO_BE_BOUND
    ),
    'persistentvolume "{name}" not found': ObjectWords(
        'the PersistentVolume "{name}", to which a claim of the pod is bound, does not exist',
        _RESTORE, _NO_VOLUME,
    ),
    'storageclass.storage.k8s.io "{name}" not found': ObjectWords(
        'the StorageClass "{name}" of a claim that is not bound does not exist',
        "Create it, or the claim anew with another one", "lack a StorageClass",
    ),
    'VolumeBindingMode not set for StorageClass "{name}"': ObjectWords(
        'the StorageClass "{name}" has no volumeBindingMode', "Create it anew with one",
        "lack a StorageClass with a volumeBindingMode",
    ),
    "{driver} CSI driver is not installed on the node": ObjectWords(
        "the CSI driver {driver} of its volume is not installed there",
        "Install the driver on these nodes", "lack a CSI driver",
    ),
    "the scheduler may not list {resource}, so pods with {objects} wait": ObjectWords(
        "the scheduler itself may not list {resource}", _PERMIT, _PERMISSION
    ),
    # DynamicResources
    'could not find ResourceClaim "{name}"': ObjectWords(
        'the ResourceClaim "{name}" does not exist in namespace {namespace}', _CREATE,
        "lack a ResourceClaim",
    ),
    'pod "{pod}": ResourceClaim not created yet': ObjectWords(
        "its ResourceClaim was not created yet from the ResourceClaimTemplate that the pod names",
        "Check that the template exists in namespace {namespace}: create it, or correct the name",
        "wait for a ResourceClaim to be created",
    ),
    'resourceclaim "{name}" is being deleted': ObjectWords(
        'the ResourceClaim "{name}" is being deleted', _ANEW,
        "use a ResourceClaim that is being deleted",
    ),
    "ResourceClaim {name} was not created for Pod {pod} (Pod is not owner)": ObjectWords(
        'the ResourceClaim "{name}" belongs to another pod', _OWNER,
        "lack a ResourceClaim of their own",
    ),
    "resource claim {name} is in the process of being allocated": ObjectWords(
        'the ResourceClaim "{name}" gets its devices for another pod at this moment',
        "Wait until that is done", "wait for a ResourceClaim to be allocated",
    ),
    "request {request}: device class {name} does not exist": ObjectWords(
        'the DeviceClass "{name}", which request {request} of a claim names, does not exist',
        "Create it, or name another one in the claim", "lack a DeviceClass",
    ),
    'deviceclasses.resource.k8s.io "{name}" not found': ObjectWords(
        'the DeviceClass "{name}" of a claim does not exist',
        "Create it, or name another one in the claim", "lack a DeviceClass",
    ),
    # GangScheduling
    "pod group {name}: there is no such PodGroup of {group}": ObjectWords(
        'the PodGroup "{name}" of {group} does not exist in namespace {namespace}', _CREATE,
        "lack a PodGroup",
    ),
    "pod group {key}: the API server does not serve PodGroups of scheduling.k8s.io, to which "
    "spec.schedulingGroup belongs": ObjectWords(
        "the API server does not serve the PodGroups of scheduling.k8s.io, to which "
        "spec.schedulingGroup of the pod belongs", "Switch the API on, or drop the field",
        "lack an API server with PodGroups",
    ),
    "pod group {key}: kubestow may not list PodGroups of {group}": ObjectWords(
        "the scheduler itself may not list PodGroups of {group}", _PERMIT, _PERMISSION
    ),
}  # fmt: skip


def _pattern(template: str) -> re.Pattern[str]:
    found = _PLACE.sub(rf"(?P<\1>{_NAME})", re.escape(template))
    # After the reason of a message come other sentences.
    return re.compile(rf"{found}(?=\. |\.?$)")


_PATTERNS: Final = [(_pattern(each), words) for each, words in _WORDS.items()]


def object_words(reason: str, namespace: str = "") -> ObjectWords | None:
    """Return the words of a reason, or of a message with it, of a pod in a namespace.

    >>> found = object_words('persistentvolumeclaim "data" not found', "shop")
    >>> found.fact
    'the PersistentVolumeClaim "data" does not exist in namespace shop'
    >>> found.advice, found.cause
    ('Create it, or correct the name in the pod', 'lack a PersistentVolumeClaim')
    >>> object_words("0/3 nodes are available: 3 Insufficient cpu.")
    """
    begin = _BEGIN.match(reason)
    text = reason[0 if begin is None else begin.end() :][:MAX_MESSAGE]
    for pattern, words in _PATTERNS:
        found = pattern.match(text)
        if found is not None:
            given = found.groupdict()
            names = {key: each.removeprefix(f"{namespace}/") for key, each in given.items()}
            names = {"namespace": namespace, **names}
            return ObjectWords(
                words.fact.format(**names), words.advice.format(**names), words.cause
            )
    return None
