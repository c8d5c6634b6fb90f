"""Queueing hints of NodeResourcesFit (`fit.go: EventsToRegister`).

As upstream (`isSchedulableAfterNodeChange`), a node event helps only if the pod fits the empty
node. Unlike upstream, resources that the profile ignores are ignored here too, as in the filter:
otherwise a pod that requests one would miss the arrival of a node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from plugins.dynamic_resources.extended_resources import IMPLICIT_PREFIX
from plugins.node_resources.amounts import Demand, amount_of
from plugins.queueing_hints import is_placed, queue_if, same_pod
from scheduler.api.devices import DeviceClass
from scheduler.api.node import Node
from scheduler.api.pod import Pod
from scheduler.api.requests import Resources, node_allocatable
from scheduler.framework import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    HintKeys,
    QueueingHint,
)

_MAX_KEYS: Final = 100
"""Extended resources by which a pod is indexed; the hint is evaluated for pods with more."""

Demands = Callable[[Resources], Iterable[Demand]]
"""Maps the requests of a pod to the resources that must be free."""


def fit_events(demands: Demands, *, is_extended: bool) -> Sequence[ClusterEventWithHint]:
    """Return the registrations; with `is_extended` device classes may serve extended resources."""

    def after_scale_down(pod: Pod, old: Pod, new: Pod) -> QueueingHint:
        if same_pod(pod, new):
            return QueueingHint.QUEUE
        before, after = old.signature.assigned, new.signature.assigned
        freed = bool(new.spec.node_name) and grows(demands(pod.signature.requests), after, before)
        return queue_if(freed)

    def after_node_change(pod: Pod, old: Node | None, new: Node) -> QueueingHint:
        # `demands` runs twice: for a pod with very many resources a list would cost more.
        requests = pod.signature.requests
        resources, pods = node_allocatable(new)
        if not fits_empty_node(demands(requests), resources, pods):
            return QueueingHint.SKIP
        if old is None:
            return QueueingHint.QUEUE
        old_resources, old_pods = node_allocatable(old)
        if pods > old_pods or grows(demands(requests), old_resources, resources):
            return QueueingHint.QUEUE
        # DynamicResources decides about resources that devices serve; this change may help it.
        return queue_if(any(is_left_to_devices(each, resources) for each in demands(requests)))

    classes = ClusterEventWithHint(
        ClusterEvent(EventResource.DEVICE_CLASS, ActionType.ADD | ActionType.UPDATE),
        _after_class,
        per_signature=True,
        keys=HintKeys(_extended_resources, _served_by_class),
    )
    return (
        *((classes,) if is_extended else ()),
        ClusterEventWithHint(
            ClusterEvent(EventResource.ASSIGNED_POD, ActionType.DELETE),
            _after_pod_delete,
            per_signature=True,
        ),
        *(
            ClusterEventWithHint(
                ClusterEvent(resource, ActionType.UPDATE_POD_SCALE_DOWN),
                after_scale_down,
                per_signature=True,
            )
            for resource in (EventResource.ASSIGNED_POD, EventResource.TARGET_POD)
        ),
        ClusterEventWithHint(
            ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE),
            after_node_change,
            per_signature=True,
        ),
    )


def fits_empty_node(needed: Iterable[Demand], allocatable: Resources, pods: int) -> bool:
    """Whether the pod would fit on an empty node of that size."""
    return pods >= 1 and all(
        each.amount <= amount_of(allocatable, each.name) or is_left_to_devices(each, allocatable)
        for each in needed
    )


def is_left_to_devices(demand: Demand, allocatable: Resources) -> bool:
    """Whether the node has none of a resource that devices of a class serve."""
    return demand.is_served and not amount_of(allocatable, demand.name)


def grows(needed: Iterable[Demand], before: Resources, after: Resources) -> bool:
    """Whether the amount of any needed resource grew."""
    return any(amount_of(after, each.name) > amount_of(before, each.name) for each in needed)


def _after_class(pod: Pod, old: DeviceClass | None, new: DeviceClass) -> QueueingHint:
    names = _served_by_class(old, new)
    return queue_if(any(name in names for name, _ in pod.signature.requests.scalars))


def _extended_resources(pod: Pod) -> list[str] | None:
    """Return the resources that a device class could serve for the pod; None if they are many."""
    scalars = pod.signature.requests.scalars
    return [name for name, _ in scalars] if len(scalars) <= _MAX_KEYS else None


def _served_by_class(old: DeviceClass | None, new: DeviceClass) -> set[str]:
    """Return the resources that the class serves and did not serve before."""
    explicit = new.spec.extended_resource_name
    names = {explicit} if explicit else set()
    if old is None:
        return names | {IMPLICIT_PREFIX + new.metadata.name}
    return set() if explicit == old.spec.extended_resource_name else names


def _after_pod_delete(_pod: Pod, old: Pod, _new: Any) -> QueueingHint:
    return queue_if(is_placed(old))
