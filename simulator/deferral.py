"""KEP-5465 in the native personality: which pods are deferred, and the mark that says so for good.

The KEP recognises a formerly gated pod by the reason of its PodScheduled condition, which the next
write of a scheduler replaces. So the native API server puts a condition of its own on every pod
that is born gated; it outlives ungating, scheduling attempts and restarts.
"""

from __future__ import annotations

from typing import Final

from simulator.objects import JsonObject, dig, format_time

MARK_CONDITION: Final = "kubestow.io/QuotaDeferred"
MARK_ANNOTATION: Final = "kubestow.io/quota-deferred"
_REASONS: Final = ("SchedulingGated", "ResourceQuotaValidated", "ResourceQuotaExceeded")


def mark_of(now: float) -> JsonObject:
    """Return the condition that a new pod with gates has."""
    return {
        "type": MARK_CONDITION,
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": format_time(now),
        "reason": "SchedulingGated",
        "message": "created with scheduling gates: compute quota is charged once it is scheduled",
    }


def is_deferred(pod: JsonObject) -> bool:
    """Whether a pod's compute is charged only once it has a node."""
    if dig(pod, "spec", "schedulingGates"):
        return True
    if (dig(pod, "metadata", "annotations") or {}).get(MARK_ANNOTATION) == "true":
        return True
    conditions = {
        condition.get("type"): condition for condition in dig(pod, "status", "conditions") or ()
    }
    mark = conditions.get(MARK_CONDITION)
    if mark is not None:
        return bool(mark.get("status") == "True")
    scheduled = conditions.get("PodScheduled") or {}
    return scheduled.get("status") == "False" and scheduled.get("reason") in _REASONS


def is_uncharged(pod: JsonObject) -> bool:
    """Whether a pod's compute is not charged now: deferred, and without a node."""
    return not dig(pod, "spec", "nodeName") and is_deferred(pod)
