"""Queueing hints of VolumeBinding (`volume_binding.go: EventsToRegister`)."""

from __future__ import annotations

from collections.abc import Sequence

from plugins.queueing_hints import queue_if
from plugins.volume_binding.claims import OWN_CLAIM_KEYS, after_any_own_claim
from plugins.volume_binding.migration import ANN_MIGRATED_PLUGINS
from plugins.volume_binding.provisioning import capacity_limit
from scheduler.api.pod import Pod
from scheduler.api.storage import CSIDriver, CSINode, CSIStorageCapacity, StorageClass
from scheduler.framework import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    QueueingHint,
)

_CHANGED = ActionType.ADD | ActionType.UPDATE


def volume_binding_events() -> Sequence[ClusterEventWithHint]:
    """Return the registrations."""
    return (
        ClusterEventWithHint(
            ClusterEvent(EventResource.STORAGE_CLASS, _CHANGED), _after_class, per_signature=True
        ),
        ClusterEventWithHint(
            ClusterEvent(EventResource.PERSISTENT_VOLUME_CLAIM, _CHANGED),
            after_any_own_claim,
            keys=OWN_CLAIM_KEYS,
        ),
        ClusterEventWithHint(ClusterEvent(EventResource.PERSISTENT_VOLUME, _CHANGED)),
        ClusterEventWithHint(
            ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL)
        ),
        ClusterEventWithHint(
            ClusterEvent(EventResource.CSI_NODE, _CHANGED), _after_csi_node, per_signature=True
        ),
        ClusterEventWithHint(
            ClusterEvent(EventResource.CSI_DRIVER, ActionType.UPDATE | ActionType.DELETE),
            _after_driver,
            per_signature=True,
        ),
        ClusterEventWithHint(
            ClusterEvent(EventResource.CSI_STORAGE_CAPACITY, _CHANGED),
            _after_capacity,
            per_signature=True,
        ),
    )


def _after_class(_pod: Pod, old: StorageClass | None, new: StorageClass) -> QueueingHint:
    return queue_if(old is None or old.allowed_topologies != new.allowed_topologies)


def _after_csi_node(_pod: Pod, old: CSINode | None, new: CSINode) -> QueueingHint:
    return queue_if(old is None or _migrated(old) != _migrated(new))


def _migrated(csi_node: CSINode) -> str | None:
    return csi_node.metadata.annotations.get(ANN_MIGRATED_PLUGINS)


def _after_driver(_pod: Pod, old: CSIDriver, new: CSIDriver | None) -> QueueingHint:
    """Queue if the driver stopped reporting capacity, which then limits no class of its volumes."""
    reports = new is not None and bool(new.spec.storage_capacity)
    return queue_if(bool(old.spec.storage_capacity) and not reports)


def _after_capacity(
    _pod: Pod, old: CSIStorageCapacity | None, new: CSIStorageCapacity
) -> QueueingHint:
    if old is None:
        return QueueingHint.QUEUE
    before, now = capacity_limit(old), capacity_limit(new)
    return queue_if(now is not None and (before is None or now > before))
