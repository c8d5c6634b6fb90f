"""When room may have appeared for a pod that NodeResourcesFit rejected (queue-and-events.md 8).

As upstream, a node event is judged by whether the pod fits the node when empty. Unlike upstream,
resources that the profile ignores are ignored here too, as the filter does: otherwise a pod that
asks for one would sleep through the arrival of the node it waits for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from plugins.node_resources.amounts import Demand, amount_of
from plugins.queueing_hints import is_placed, queue_if, same_pod
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

Demands = Callable[[Resources], Iterable[Demand]]
"""From what a pod requests to what must be free for it."""


def fit_events(demands: Demands) -> Sequence[ClusterEventWithHint]:
    """The registrations of NodeResourcesFit, without those about device classes."""

    def after_scale_down(pod: Pod, old: Pod, new: Pod) -> QueueingHint:
        if same_pod(pod, new):
            return QueueingHint.QUEUE
        before, after = old.signature.assigned, new.signature.assigned
        freed = bool(new.spec.node_name) and grows(demands(pod.signature.requests), after, before)
        return queue_if(freed)

    def after_node_change(pod: Pod, old: Node | None, new: Node) -> QueueingHint:
        # Asked twice: a pod may name so many resources that a list of them is not worth making.
        requests = pod.signature.requests
        resources, pods = node_allocatable(new)
        if not fits_empty_node(demands(requests), resources, pods):
            return QueueingHint.SKIP
        if old is None:
            return QueueingHint.QUEUE
        old_resources, old_pods = node_allocatable(old)
        return queue_if(pods > old_pods or grows(demands(requests), old_resources, resources))

    return (
        ClusterEventWithHint(
            ClusterEvent(EventResource.POD, ActionType.DELETE),
            _after_pod_delete,
            per_signature=True,
        ),
        ClusterEventWithHint(
            ClusterEvent(EventResource.POD, ActionType.UPDATE_POD_SCALE_DOWN),
            after_scale_down,
            per_signature=True,
        ),
        ClusterEventWithHint(
            ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE),
            after_node_change,
            per_signature=True,
        ),
    )


def fits_empty_node(needed: Iterable[Demand], allocatable: Resources, pods: int) -> bool:
    """Whether a node of that size could take the pod if it had no other."""
    return pods >= 1 and all(each.amount <= amount_of(allocatable, each.name) for each in needed)


def grows(needed: Iterable[Demand], before: Resources, after: Resources) -> bool:
    """Whether there is more of something needed."""
    return any(amount_of(after, each.name) > amount_of(before, each.name) for each in needed)


def _after_pod_delete(_pod: Pod, old: Pod, _new: Any) -> QueueingHint:
    return queue_if(is_placed(old))
