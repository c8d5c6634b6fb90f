"""Predicates and hint functions that the queueing hints of several plugins share."""

from __future__ import annotations

from typing import Any

from scheduler.api.pod import Pod
from scheduler.framework import QueueingHint


def queue_if(helps: bool) -> QueueingHint:
    """Return QUEUE if the event may have made the pod schedulable, else SKIP."""
    return QueueingHint.QUEUE if helps else QueueingHint.SKIP


def same_pod(one: Pod, other: Pod) -> bool:
    """Whether both are versions of one pod."""
    return one.metadata.uid == other.metadata.uid


def is_placed(pod: Pod) -> bool:
    """Whether the pod is bound or nominated to a node."""
    return bool(pod.spec.node_name or pod.status.nominated_node_name)


def after_own_update(pod: Pod, _old: Any, new: Pod) -> QueueingHint:
    """Hint: queue the pod that was updated, and no other."""
    return queue_if(same_pod(pod, new))
