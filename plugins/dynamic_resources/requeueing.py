"""Queueing hints of DynamicResources (`dynamicresources.go: EventsToRegister`)."""

from __future__ import annotations

from collections.abc import Sequence

from plugins.dynamic_resources.claims import ClaimsUnavailableError, claim_change_helps, pod_claims
from plugins.dynamic_resources.cluster_devices import ClusterDevices
from plugins.queueing_hints import queue_if, same_pod
from scheduler.api.devices import ResourceClaim
from scheduler.api.pod import Pod
from scheduler.framework import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    QueueingHint,
)

_CHANGED = ActionType.ADD | ActionType.UPDATE


def device_events(devices: ClusterDevices) -> Sequence[ClusterEventWithHint]:
    """Return the registrations."""
    get_claim = devices.claims.get

    def after_claim(pod: Pod, old: ResourceClaim | None, new: ResourceClaim) -> QueueingHint:
        if not _gives_back(old, new) and not _may_use(pod, new):
            # Most pods that wait have nothing to do with the claim.
            return QueueingHint.SKIP
        return queue_if(claim_change_helps(pod, old, new, get_claim))

    def after_pod(pod: Pod, _old: Pod | None, new: Pod) -> QueueingHint:
        if not same_pod(pod, new):
            return QueueingHint.SKIP
        try:
            pod_claims(new, get_claim)
        except ClaimsUnavailableError:
            return QueueingHint.SKIP
        return QueueingHint.QUEUE

    return (
        ClusterEventWithHint(
            ClusterEvent(
                EventResource.NODE,
                ActionType.ADD | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_ALLOCATABLE,
            )
        ),
        ClusterEventWithHint(ClusterEvent(EventResource.RESOURCE_CLAIM, _CHANGED), after_claim),
        ClusterEventWithHint(
            ClusterEvent(
                EventResource.UNSCHEDULABLE_POD, ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM
            ),
            after_pod,
        ),
        ClusterEventWithHint(ClusterEvent(EventResource.DEVICE_CLASS, _CHANGED)),
        ClusterEventWithHint(ClusterEvent(EventResource.RESOURCE_SLICE, _CHANGED)),
    )


def _gives_back(old: ResourceClaim | None, new: ResourceClaim) -> bool:
    return old is not None and bool(old.status.allocation) and new.status.allocation is None


def _may_use(pod: Pod, claim: ResourceClaim) -> bool:
    """Whether the pod names the claim, by itself or in its status."""
    if pod.metadata.namespace != claim.metadata.namespace:
        return False
    name = claim.metadata.name
    return any(each.resource_claim_name == name for each in pod.signature.resource_claims) or any(
        each.resource_claim_name == name for each in pod.status.resource_claim_statuses
    )
