"""Queueing hints of DynamicResources (`dynamicresources.go: EventsToRegister`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from plugins.dynamic_resources.claims import (
    ClaimsUnavailableError,
    claim_change_helps,
    gives_back,
    pod_claims,
)
from plugins.dynamic_resources.cluster_devices import ClusterDevices
from plugins.queueing_hints import queue_if, same_pod
from scheduler.api.devices import ResourceClaim
from scheduler.api.pod import Pod
from scheduler.framework import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    HintKeys,
    QueueingHint,
)

Key = tuple[str, str]
"""Namespace and name of a claim."""

_CHANGED: Final = ActionType.ADD | ActionType.UPDATE
ANY_CLAIM: Final = "", ""
"""Hint key that every pod requires, since devices of a deallocated claim may help any pod."""


def device_events(devices: ClusterDevices) -> Sequence[ClusterEventWithHint]:
    """Return the registrations."""
    get_claim = devices.claims.get

    def after_claim(pod: Pod, old: ResourceClaim | None, new: ResourceClaim | None) -> QueueingHint:
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
        ClusterEventWithHint(
            ClusterEvent(EventResource.RESOURCE_CLAIM, _CHANGED | ActionType.DELETE),
            after_claim,
            keys=_KEYS,
        ),
        ClusterEventWithHint(
            ClusterEvent(EventResource.TARGET_POD, ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM),
            after_pod,
        ),
        ClusterEventWithHint(ClusterEvent(EventResource.DEVICE_CLASS, _CHANGED)),
        ClusterEventWithHint(ClusterEvent(EventResource.RESOURCE_SLICE, _CHANGED)),
    )


def _required_keys(pod: Pod) -> set[Key]:
    # Claims from a template need no key, because the pod controls them.
    named = (each.resource_claim_name for each in pod.signature.resource_claims)
    return {ANY_CLAIM, *((pod.metadata.namespace, name) for name in named if name is not None)}


def _provided_keys(old: ResourceClaim | None, new: ResourceClaim | None) -> tuple[Key, ...]:
    changed = new or old
    assert changed is not None
    own = changed.metadata.namespace, changed.metadata.name
    return (own, ANY_CLAIM) if gives_back(old, new) else (own,)


_KEYS: Final = HintKeys(_required_keys, _provided_keys)
"""With these keys an event of a claim concerns only the pods that use the claim."""
