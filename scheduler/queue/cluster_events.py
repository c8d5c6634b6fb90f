"""Fine-grained cluster events of an object's update.

Pure functions of the old and the new object, like events.go: NodeSchedulingPropertiesChange and
PodSchedulingPropertiesChange. If no fine-grained event covers an update, a node gets no event, and
a pod the general Update.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

from scheduler.api.meta import ResourceList
from scheduler.api.node import Node
from scheduler.api.pod import Pod
from scheduler.api.quantity import QuantityError, parse
from scheduler.api.requests import is_resize_infeasible, pod_requests
from scheduler.framework.events import ActionType, ClusterEvent, EventResource

OWN_CONDITION_PREFIX: Final = "kubestow.io/"
NODE_PROVISIONING_IN_PROGRESS: Final = "NodeProvisioningInProgress"
POD_SCHEDULED: Final = "PodScheduled"


@dataclass(frozen=True, slots=True)
class EventFeatures:
    """Feature gates that decide which updates count as separate events."""

    #: NodeDeclaredFeatures: compare a node's `status.declaredFeatures`.
    node_declared_features: bool = True
    #: DynamicResourceAllocation: compare a pod's claim statuses.
    dynamic_resource_allocation: bool = True
    #: Pod annotations whose change emits UpdatePodAnnotation; others are ignored.
    pod_annotations: frozenset[str] = frozenset(("kubestow.io/topology-spread-fallback",))


DEFAULT_FEATURES: Final = EventFeatures()


@cache
def _event(resource: str, action: ActionType) -> ClusterEvent:
    return ClusterEvent(resource, action)


def node_events(
    new: Node, old: Node, features: EventFeatures = DEFAULT_FEATURES
) -> list[ClusterEvent]:
    """Return the events of a node's update, in upstream's order; empty if none applies.

    Unlike upstream, uncordoning a node and removing a taint in one update is one UpdateNodeTaint.
    """
    actions: list[ActionType] = []
    if old.spec.unschedulable and not new.spec.unschedulable:
        actions.append(ActionType.UPDATE_NODE_TAINT)
    if _amounts_differ(old.status.allocatable, new.status.allocatable):
        actions.append(ActionType.UPDATE_NODE_ALLOCATABLE)
    if old.metadata.labels != new.metadata.labels:
        actions.append(ActionType.UPDATE_NODE_LABEL)
    if old.spec.taints != new.spec.taints and ActionType.UPDATE_NODE_TAINT not in actions:
        actions.append(ActionType.UPDATE_NODE_TAINT)
    if _condition_statuses(old) != _condition_statuses(new):
        actions.append(ActionType.UPDATE_NODE_CONDITION)
    if old.metadata.annotations != new.metadata.annotations:
        actions.append(ActionType.UPDATE_NODE_ANNOTATION)
    if (
        features.node_declared_features
        and old.status.declared_features != new.status.declared_features
    ):
        actions.append(ActionType.UPDATE_NODE_DECLARED_FEATURE)
    return [_event(EventResource.NODE, action) for action in actions]


def pod_events(
    new: Pod, old: Pod, features: EventFeatures = DEFAULT_FEATURES
) -> list[ClusterEvent]:
    """Return the events of a pod's update; never empty.

    The resource is AssignedPod once the new object has a node. For a pod without a node, the events
    that kubestow adds follow those of upstream.
    """
    assigned = bool(new.spec.node_name)
    resource = EventResource.ASSIGNED_POD if assigned else EventResource.TARGET_POD
    actions = _specific_pod_actions(new, old, features) or [ActionType.UPDATE]
    if not assigned:
        if _scheduling_status_differs(new, old):
            actions.append(ActionType.UPDATE_POD_SCHEDULING_STATUS)
        if _annotations_differ(new, old, features.pod_annotations):
            actions.append(ActionType.UPDATE_POD_ANNOTATION)
    return [_event(resource, action) for action in actions]


def _specific_pod_actions(new: Pod, old: Pod, features: EventFeatures) -> list[ActionType]:
    actions: list[ActionType] = []
    if old.metadata.labels != new.metadata.labels:
        actions.append(ActionType.UPDATE_POD_LABEL)
    if _scaled_down(new, old):
        actions.append(ActionType.UPDATE_POD_SCALE_DOWN)
    if old.spec.scheduling_gates and not new.spec.scheduling_gates:
        actions.append(ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)
    if len(old.spec.tolerations) != len(new.spec.tolerations):
        actions.append(ActionType.UPDATE_POD_TOLERATION)
    if features.dynamic_resource_allocation and (
        old.status.resource_claim_statuses != new.status.resource_claim_statuses
        or old.status.extended_resource_claim_status != new.status.extended_resource_claim_status
    ):
        actions.append(ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM)
    return actions


def _scaled_down(new: Pod, old: Pod) -> bool:
    if not _requests_may_differ(new, old):
        return False
    try:
        before = pod_requests(old, with_status=True)
        after = pod_requests(new, with_status=True)
    except QuantityError:
        # The cache reports the malformed quantity; here the general Update is enough.
        return False
    return any(
        name not in after or amount.milli_value() > after[name].milli_value()
        for name, amount in before.items()
    )


def _requests_may_differ(new: Pod, old: Pod) -> bool:
    # Request sums are expensive, and most updates touch neither resources nor resize status.
    old_spec, new_spec, old_status, new_status = old.spec, new.spec, old.status, new.status
    return (
        old_spec.containers != new_spec.containers
        or old_spec.init_containers != new_spec.init_containers
        or old_spec.resources != new_spec.resources
        or old_spec.overhead != new_spec.overhead
        or old_status.container_statuses != new_status.container_statuses
        or old_status.init_container_statuses != new_status.init_container_statuses
        or old_status.resources != new_status.resources
        or old_status.allocated_resources != new_status.allocated_resources
        # Conditions change with every rejection, and count only while a resize is refused.
        or is_resize_infeasible(old) != is_resize_infeasible(new)
    )


def _amounts_differ(old: ResourceList, new: ResourceList) -> bool:
    if old == new:
        return False
    if old.keys() != new.keys():
        return True
    try:
        return any(parse(amount) != parse(new[name]) for name, amount in old.items())
    except QuantityError:
        return True


def _condition_statuses(node: Node) -> dict[str, str]:
    return {condition.type: condition.status for condition in node.status.conditions}


def _scheduling_status_differs(new: Pod, old: Pod) -> bool:
    if old.status.nominated_node_name != new.status.nominated_node_name:
        return True
    if old.status.conditions == new.status.conditions:
        return False
    return _scheduling_conditions(old) != _scheduling_conditions(new)


def _scheduling_conditions(pod: Pod) -> dict[str, tuple[str, str]]:
    found: dict[str, tuple[str, str]] = {}
    for condition in pod.status.conditions:
        if condition.type == POD_SCHEDULED:
            found[condition.type] = (condition.status, condition.reason)
        elif condition.type == NODE_PROVISIONING_IN_PROGRESS or condition.type.startswith(
            OWN_CONDITION_PREFIX
        ):
            found[condition.type] = (condition.status, "")
    return found


def _annotations_differ(new: Pod, old: Pod, keys: frozenset[str]) -> bool:
    before, after = old.metadata.annotations, new.metadata.annotations
    return before != after and any(before.get(key) != after.get(key) for key in keys)
