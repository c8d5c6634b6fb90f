"""Queueing hints of PodTopologySpread (`podtopologyspread/plugin.go: EventsToRegister`).

Only hard constraints matter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from plugins.pod_topology_spread.constraints import Constraint, Constraints
from plugins.pod_topology_spread.fallback import Fallback
from plugins.queueing_hints import is_placed, queue_if, same_pod
from scheduler.api.node import Node
from scheduler.api.pod import Pod
from scheduler.framework import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    QueueingHint,
)
from scheduler.framework.events import ATTEMPT_OUTCOME, TIME_TICK


def spread_events(constraints: Constraints) -> Sequence[ClusterEventWithHint]:
    """Return upstream's registrations."""
    hints = _Hints(constraints)
    return (
        ClusterEventWithHint(
            ClusterEvent(
                EventResource.ASSIGNED_POD,
                ActionType.ADD | ActionType.DELETE | ActionType.UPDATE_POD_LABEL,
            ),
            hints.after_pod_change,
            # Own constraints depend on signature and labels only; defaults also on the controller.
            per_signature=not constraints.any_hard_default,
        ),
        ClusterEventWithHint(
            ClusterEvent(
                EventResource.TARGET_POD,
                ActionType.UPDATE_POD_LABEL | ActionType.UPDATE_POD_TOLERATION,
            ),
            hints.after_pod_change,
        ),
        ClusterEventWithHint(
            ClusterEvent(
                EventResource.NODE,
                ActionType.ADD
                | ActionType.DELETE
                | ActionType.UPDATE_NODE_LABEL
                | ActionType.UPDATE_NODE_TAINT,
            ),
            hints.after_node_change,
            # Own constraints depend on the signature only; defaults also on namespace and labels.
            per_signature=not constraints.any_hard_default,
        ),
    )


def fallback_events(fallback: Fallback) -> Sequence[ClusterEventWithHint]:
    """Return registrations for the pod's own status, annotation and attempt, and for time."""
    hints = _FallbackHints(fallback)
    events = [
        ClusterEventWithHint(
            ClusterEvent(EventResource.TARGET_POD, ActionType.UPDATE_POD_SCHEDULING_STATUS),
            hints.after_own_change,
        ),
        ClusterEventWithHint(
            ClusterEvent(EventResource.TARGET_POD, ActionType.UPDATE_POD_ANNOTATION),
            hints.after_annotation_change,
        ),
        ClusterEventWithHint(ATTEMPT_OUTCOME, hints.after_attempt),
    ]
    if fallback.timed:
        events.append(ClusterEventWithHint(TIME_TICK, hints.after_time))
    return events


class _FallbackHints:
    """Hints that queue a pod if more constraints would be soft.

    This limits retries to one per constraint and external change.
    """

    def __init__(self, fallback: Fallback) -> None:
        self._fallback = fallback

    def after_own_change(self, pod: Pod, old: Pod | None, new: Pod | None) -> QueueingHint:
        """Queue after a change of the pod's conditions or nominated node."""
        own = new is not None and same_pod(pod, new)
        return queue_if(own and self._fallback.grows(pod))

    def after_annotation_change(self, pod: Pod, old: Pod | None, new: Pod | None) -> QueueingHint:
        """Queue after a change of the pod's annotation."""
        own = new is not None and same_pod(pod, new)
        helps = own and (self._fallback.repaired(pod) or self._fallback.grows(pod))
        return queue_if(helps)

    def after_attempt(self, pod: Pod, old: None, info: object) -> QueueingHint:
        """Queue after the pod's own rejected attempt, whose outcome may be the criterion."""
        return queue_if(self._fallback.grows(pod))

    def after_time(self, pod: Pod, old: None, new: None) -> QueueingHint:
        """Queue after the timeout."""
        return queue_if(self._fallback.grows_with_time(pod))


class _Hints:
    def __init__(self, constraints: Constraints) -> None:
        self._constraints = constraints

    def after_pod_change(self, pod: Pod, old: Pod | None, new: Pod | None) -> QueueingHint:
        """Queue if a matching pod appeared or left, or a pod began or ceased to match."""
        for each in (old, new):
            if each is not None and not _involved(each, pod):
                return QueueingHint.SKIP
        constraints = self._constraints.hard(pod)
        if old is not None and new is not None:
            return queue_if(_update_helps(pod, old, new, constraints))
        one = new if old is None else old
        return queue_if(one is not None and any(each.matches(one) for each in constraints))

    def after_node_change(self, pod: Pod, old: Node | None, new: Node | None) -> QueueingHint:
        """Queue if a node with all topology keys came, left, or changed labels or taints."""
        keys = [each.topology_key for each in self._constraints.hard(pod)]
        had, has = _has_all(old, keys), _has_all(new, keys)
        if old is None or new is None or had != has:
            return queue_if(had or has)
        before, after = old.metadata.labels, new.metadata.labels
        moved = any(before.get(key) != after.get(key) for key in keys)
        return queue_if(has and (moved or old.spec.taints != new.spec.taints))


def _update_helps(pod: Pod, old: Pod, new: Pod, constraints: Sequence[Constraint]) -> bool:
    # With other tolerations, other nodes may count for a constraint.
    tolerations_changed = same_pod(pod, new) and old.spec.tolerations != new.spec.tolerations
    return any(
        (tolerations_changed and each.honors_taints) or each.matches(old) != each.matches(new)
        for each in constraints
    )


def _involved(other: Pod, pod: Pod) -> bool:
    metadata, own = other.metadata, pod.metadata
    return metadata.uid == own.uid or (metadata.namespace == own.namespace and is_placed(other))


def _has_all(node: Node | None, keys: Sequence[str]) -> bool:
    if node is None:
        return False
    labels: Mapping[str, str] = node.metadata.labels
    return all(key in labels for key in keys)
