"""Properties of a pod object: whether it is deferred, whether it still counts, and until when.

Pure functions; the caller passes earlier knowledge of the ledger. The rules are those of
docs/deferred-quota.md, "The rules".
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from scheduler.api.pod import Pod

MARK_ANNOTATION: Final = "kubestow.io/quota-deferred"
"""Pod annotation; `"true"` means that the pod was gated when it was created (policy P5)."""
MARK_CONDITION: Final = "kubestow.io/QuotaDeferred"
"""Pod condition: True if the pod was ever gated, False if it never was, despite PodScheduled."""
REASON_VALIDATED: Final = "ResourceQuotaValidated"
"""Reason of the PodScheduled condition of a pod that a quota holds."""
REASON_EXCEEDED: Final = "ResourceQuotaExceeded"
"""Event reason; accepted in a condition as well, for pods that another implementation held."""

POD_SCHEDULED: Final = "PodScheduled"
_GATED_REASONS: Final = frozenset(("SchedulingGated", REASON_VALIDATED, REASON_EXCEEDED))
_TERMINAL: Final = frozenset(("Succeeded", "Failed"))


def is_deferred(pod: Pod, remembered: bool | None) -> bool:
    """Whether a pod was ever gated, so that it is not charged until bound (rules Q3, Q5).

    `remembered` is the earlier result: True stays True; False means that the pod was observed
    without any sign of a gate, so that a later reason of PodScheduled comes from this scheduler.
    """
    if remembered or pod.spec.scheduling_gates:
        return True
    if pod.metadata.annotations.get(MARK_ANNOTATION) == "true":
        return True
    conditions = pod.status.conditions
    mark = next((each.status for each in conditions if each.type == MARK_CONDITION), "")
    if mark == "True":
        return True
    if mark == "False" or remembered is False:
        return False
    return any(
        each.type == POD_SCHEDULED and each.status == "False" and each.reason in _GATED_REASONS
        for each in conditions
    )


def is_terminal(pod: Pod) -> bool:
    """Whether the pod has finished, and so no longer counts."""
    return pod.status.phase in _TERMINAL


def counts_until(pod: Pod) -> float | None:
    """Return the wall clock second until which a terminating pod counts; None: no known end.

    `deletionTimestamp` is the end of the grace period, and upstream's quota evaluator waits for a
    second grace period after it.
    """
    deadline = time_of(pod.metadata.deletion_timestamp)
    if deadline is None:
        return None
    return deadline + (pod.metadata.deletion_grace_period_seconds or 0)


def time_of(stamp: str | None) -> float | None:
    """Return the wall clock second of an RFC 3339 time; None for None or an invalid time.

    >>> time_of("1970-01-01T00:01:00Z"), time_of("soon"), time_of(None)
    (60.0, None, None)
    """
    if stamp is None:
        return None
    try:
        return datetime.fromisoformat(stamp).timestamp()
    except (ValueError, OverflowError):
        return None
