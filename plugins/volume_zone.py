"""VolumeZone: keeps pods in the zone and region of their volumes' labels.

As upstream (`volume_zone.go`), claims of ephemeral volumes are ignored, and a node's GA label
satisfies a volume's beta label, but not vice versa.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final, NamedTuple

import numpy as np

from plugins.queueing_hints import queue_if
from plugins.row_selection import all_pass, selector
from plugins.volume_binding.claims import (
    CLAIM_NOT_FOUND,
    NO_BINDING_MODE,
    OWN_CLAIM_KEYS,
    WAIT_FOR_FIRST_CONSUMER,
    after_own_claim,
    claim_class,
)
from plugins.volume_binding.permissions import CLAIM_RESOURCES, CLAIMS_WAIT
from scheduler.api.pod import Pod
from scheduler.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from scheduler.framework import (
    NEVER,
    SKIP,
    ActionType,
    BoolColumn,
    ClusterEvent,
    ClusterEventWithHint,
    Codes,
    CycleState,
    EventResource,
    Handle,
    Int32Column,
    NoArgs,
    NodeInfo,
    NodeTableView,
    QueueingHint,
    ReuseRule,
    Rows,
    Status,
    plugin_names,
    unresolvable,
)

ZONE_CONFLICT: Final = unresolvable("node(s) had no available volume zone")
NO_CLAIM_NAME: Final = unresolvable("PersistentVolumeClaim had no name")
NO_CLASS: Final = unresolvable("PersistentVolumeClaim had no pv name and storageClass name")
NO_VOLUME_NAME: Final = unresolvable("PersistentVolume had no name")
VOLUME_NOT_FOUND: Final = 'persistentvolume "{}" not found'
CLASS_NOT_FOUND: Final = 'storageclass.storage.k8s.io "{}" not found'

_GA_KEYS: Final = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
TOPOLOGY_KEYS: Final = (*_GA_KEYS, *_GA_KEYS.values())

_STATE: Final = plugin_names.VOLUME_ZONE
_SEPARATOR: Final = "__"


class _Requirement(NamedTuple):
    """A label that a volume requires of its node."""

    key: str
    values: frozenset[str]


class VolumeZone:
    """Compares topology labels of bound volumes with those of nodes."""

    name: ClassVar[str] = plugin_names.VOLUME_ZONE
    required_resources: ClassVar[tuple[str, ...]] = (
        "persistentvolumeclaims",
        "persistentvolumes",
        "storageclasses",
    )
    optional_resources: ClassVar[Mapping[str, str]] = dict.fromkeys(CLAIM_RESOURCES, CLAIMS_WAIT)
    # Claims are looked up in the pod's namespace, which is not part of its signature.
    filter_reuse: ClassVar[ReuseRule | None] = NEVER

    def __init__(self, args: NoArgs | None, handle: Handle) -> None:
        self._handle = handle

    def concerns(self, pod: Pod) -> bool:
        """Whether the pod has volumes."""
        return bool(pod.signature.spec.volumes)

    def skips_alike(self, pod: Pod) -> bool:
        """Whether the pod has no claims, on which all else depends."""
        return not pod.signature.claims

    def pre_filter(self, state: CycleState, pod: Pod, table: NodeTableView) -> Status | None:
        """Collect the labels the pod's volumes require; skip a pod without any."""
        if not pod.signature.spec.volumes:
            return SKIP
        found = self._requirements(pod)
        if isinstance(found, Status):
            return found
        if not found:
            return SKIP
        state.write(_STATE, found)
        return None

    def _requirements(self, pod: Pod) -> tuple[_Requirement, ...] | Status:
        found: list[_Requirement] = []
        for name in pod.signature.claims:
            volume = self._volume(pod, name)
            if isinstance(volume, Status):
                return volume
            if volume is not None:
                found += topology_of(volume)
        return tuple(found)

    def _volume(self, pod: Pod, name: str) -> PersistentVolume | Status | None:
        """Return the volume of a claim, None if the claim waits for its first consumer."""
        if not name:
            return NO_CLAIM_NAME
        listers = self._handle.listers
        claim: PersistentVolumeClaim | None = listers["persistentvolumeclaims"].get(
            name, pod.metadata.namespace
        )
        if claim is None:
            return unresolvable(CLAIM_NOT_FOUND.format(name))
        if not claim.spec.volume_name:
            return self._unbound(claim)
        volume: PersistentVolume | None = listers["persistentvolumes"].get(claim.spec.volume_name)
        if volume is None:
            return unresolvable(VOLUME_NOT_FOUND.format(claim.spec.volume_name))
        return volume

    def _unbound(self, claim: PersistentVolumeClaim) -> Status | None:
        class_name = claim_class(claim)
        if not class_name:
            return NO_CLASS
        found: StorageClass | None = self._handle.listers["storageclasses"].get(class_name)
        if found is None:
            return unresolvable(CLASS_NOT_FOUND.format(class_name))
        if found.volume_binding_mode is None:
            return unresolvable(NO_BINDING_MODE.format(class_name))
        return None if found.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER else NO_VOLUME_NAME

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Reject a node of another zone or region; a node without topology labels passes."""
        required = self._state(state, pod)
        if isinstance(required, Status):
            return required
        labels = node.labels
        if not required or not any(key in labels for key in TOPOLOGY_KEYS):
            return None
        for key, values in required:
            value = labels.get(key)
            if value is None:
                value = labels.get(_GA_KEYS.get(key, key))
            if value is None or value not in values:
                return ZONE_CONFLICT
        return None

    def _state(self, state: CycleState, pod: Pod) -> tuple[_Requirement, ...] | Status:
        known: tuple[_Requirement, ...] | None = state.get(_STATE)
        return self._requirements(pod) if known is None else known

    def filter_rows(self, state: CycleState, pod: Pod, table: NodeTableView, rows: Rows) -> Codes:
        """Columnar form of `filter`."""
        required = self._state(state, pod)
        if isinstance(required, Status) or not required:
            return all_pass(rows)
        index = selector(table, rows)
        columns = {key: table.label_column(key)[index] for key in TOPOLOGY_KEYS}
        labelled = np.zeros(len(rows), dtype=np.bool_)
        for column in columns.values():
            labelled |= column >= 0
        rejected = np.zeros(len(rows), dtype=np.bool_)
        for key, values in required:
            accepted = _one_of(table, key, values, columns[key])
            ga = _GA_KEYS.get(key)
            if ga is not None:
                accepted |= (columns[key] < 0) & _one_of(table, ga, values, columns[ga])
            rejected |= ~accepted
        codes: Codes = (labelled & rejected).astype(np.int32)
        return codes

    def filter_status(self, state: CycleState, pod: Pod, code: int) -> Status:
        """Return the only rejection there is."""
        return ZONE_CONFLICT

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Register for added objects, and for changes of what the filter reads."""
        changed = ActionType.ADD | ActionType.UPDATE
        return (
            ClusterEventWithHint(
                ClusterEvent(EventResource.STORAGE_CLASS, ActionType.ADD),
                _after_class_add,
                per_signature=True,
            ),
            ClusterEventWithHint(
                ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL)
            ),
            ClusterEventWithHint(
                ClusterEvent(EventResource.PERSISTENT_VOLUME_CLAIM, changed),
                after_own_claim,
                per_signature=True,
                keys=OWN_CLAIM_KEYS,
            ),
            ClusterEventWithHint(
                ClusterEvent(EventResource.PERSISTENT_VOLUME, changed),
                _after_volume_change,
                per_signature=True,
            ),
        )


def topology_of(volume: PersistentVolume) -> list[_Requirement]:
    """Parse a volume's zone and region labels; a label with an empty part is ignored."""
    found = []
    for key in TOPOLOGY_KEYS:
        text = volume.metadata.labels.get(key)
        if text is None:
            continue
        values = [part.strip() for part in text.split(_SEPARATOR)]
        if all(values):
            found.append(_Requirement(key, frozenset(values)))
    return found


def _one_of(
    table: NodeTableView, key: str, values: frozenset[str], column: Int32Column
) -> BoolColumn:
    ids = table.label_values(key).ids
    mask = np.zeros(len(column), dtype=np.bool_)
    for value in values:
        if value in ids:
            mask |= column == ids[value]
    return mask


def _after_class_add(_pod: Pod, _old: None, new: StorageClass) -> QueueingHint:
    return queue_if(new.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER)


def _after_volume_change(
    _pod: Pod, old: PersistentVolume | None, new: PersistentVolume
) -> QueueingHint:
    return queue_if(old is None or topology_of(old) != topology_of(new))
