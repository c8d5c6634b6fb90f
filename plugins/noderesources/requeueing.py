"""When room may have appeared for a pod that NodeResourcesFit rejected (queue-and-events.md 8).

As upstream, a node event is judged by whether the pod fits the node when empty, and without regard
to ignored resources.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from scheduler.api.node import Node
from scheduler.api.pod import Pod
from scheduler.api.requests import Resources, node_allocatable
from scheduler.framework import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    QueueingHint,
)


def fit_events() -> Sequence[ClusterEventWithHint]:
    """The registrations of NodeResourcesFit, without those about device classes."""
    return (
        ClusterEventWithHint(
            ClusterEvent(EventResource.POD, ActionType.DELETE), after_pod_delete, per_shape=True
        ),
        ClusterEventWithHint(
            ClusterEvent(EventResource.POD, ActionType.UPDATE_POD_SCALE_DOWN), after_scale_down
        ),
        ClusterEventWithHint(
            ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE),
            after_node_change,
            per_shape=True,
        ),
    )


def after_pod_delete(_pod: Pod, old: Pod, _new: Any) -> QueueingHint:
    """QUEUE when the pod had, or was about to get, a place."""
    placed = old.spec.node_name or old.status.nominated_node_name
    return QueueingHint.QUEUE if placed else QueueingHint.SKIP


def after_scale_down(pod: Pod, old: Pod, new: Pod) -> QueueingHint:
    """QUEUE when the pod itself shrank, or a placed pod gave back something it asks for."""
    if new.metadata.uid == pod.metadata.uid:
        return QueueingHint.QUEUE
    if not new.spec.node_name:
        return QueueingHint.SKIP
    before, after = old.shape.assigned, new.shape.assigned
    freed = any(
        later < earlier
        for amount, earlier, later in _asked_for(pod.shape.requests, before, after)
        if amount
    )
    return QueueingHint.QUEUE if freed else QueueingHint.SKIP


def after_node_change(pod: Pod, old: Node | None, new: Node) -> QueueingHint:
    """QUEUE when the pod fits the node if empty, and the node is new or has grown for it."""
    requests = pod.shape.requests
    resources, pods = node_allocatable(new)
    if not fits_empty_node(requests, resources, pods):
        return QueueingHint.SKIP
    if old is None:
        return QueueingHint.QUEUE
    old_resources, old_pods = node_allocatable(old)
    grew = pods > old_pods or any(
        later > earlier
        for amount, earlier, later in _asked_for(requests, old_resources, resources)
        if amount
    )
    return QueueingHint.QUEUE if grew else QueueingHint.SKIP


def fits_empty_node(requests: Resources, allocatable: Resources, pods: int) -> bool:
    """Whether a node of that size could take the pod if it had no other."""
    return pods >= 1 and all(
        amount <= capacity or not amount
        for amount, _, capacity in _asked_for(requests, allocatable, allocatable)
    )


def _asked_for(
    requests: Resources, one: Resources, other: Resources
) -> Iterator[tuple[int, int, int]]:
    """(amount asked for, amount in `one`, amount in `other`) for every resource of `requests`."""
    yield requests.milli_cpu, one.milli_cpu, other.milli_cpu
    yield requests.memory, one.memory, other.memory
    yield requests.ephemeral_storage, one.ephemeral_storage, other.ephemeral_storage
    for name, amount in requests.scalars:
        yield amount, one.scalar(name), other.scalar(name)
