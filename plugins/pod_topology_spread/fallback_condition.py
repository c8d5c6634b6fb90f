"""The pod condition that persists the fallback's state over restarts.

Rule S15 of docs/topology-spread-fallback.md. In every state the message starts with
`since=<RFC 3339>`, T0 of rule S5. While the status is True the keys of the soft constraints follow,
from which the latch of rule S11 is restored. Only the scheduler writes and reads it, so T0 is
compared with the clock that set it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from scheduler.api.meta import Condition
from scheduler.api.pod import Pod

CONDITION: Final = "kubestow.io/TopologySpreadFallback"
AWAITING_CRITERIA: Final = "AwaitingCriteria"
CRITERIA_MET: Final = "CriteriaMet"
INVALID_ANNOTATION: Final = "InvalidAnnotation"

_SINCE: Final = re.compile(r"since=(\S+?)(?:;|$)")


def fallback_condition(
    soft: Mapping[str, str],
    awaited: Mapping[str, str],
    since: float | None,
    *,
    invalid: str = "",
) -> Condition:
    """Build the condition after an attempt.

    Args:
        soft: topology keys that were treated as ScheduleAnyway, with the reason.
        awaited: keys of constraints that stayed hard, with the criteria that do not hold now.
        since: T0 in seconds since the epoch; None if PodTopologySpread never rejected the pod.
        invalid: why the annotation is ignored; empty if it is valid.
    """
    status = "False"
    if soft:
        status, reason = "True", CRITERIA_MET
        parts = [f"{key}: {why}" for key, why in soft.items()]
    elif invalid:
        reason, parts = INVALID_ANNOTATION, [invalid]
    else:
        reason = AWAITING_CRITERIA
        parts = [
            f"{key} waits for {criteria}" if criteria else f"{key} falls back in the next attempt"
            for key, criteria in awaited.items()
        ] or ["no constraint has criteria"]
    if since is not None:
        parts.insert(0, f"since={rfc3339(since)}")
    return Condition(type=CONDITION, status=status, reason=reason, message="; ".join(parts))


def condition_of(pod: Pod, kind: str) -> Condition | None:
    """Return the pod's condition of a type, None if there is none."""
    return next((each for each in pod.status.conditions if each.type == kind), None)


def persisted_since(condition: Condition | None) -> float | None:
    """Return T0 from the message, else the last transition time; None if neither parses."""
    if condition is None:
        return None
    found = _SINCE.match(condition.message)
    for text in (found[1] if found else "", condition.last_transition_time or ""):
        time = _seconds(text)
        if time is not None:
            return time
    return None


def persisted_soft_keys(condition: Condition | None, keys: Sequence[str]) -> frozenset[str]:
    """Return those of `keys` that were soft in the last attempt of the previous process."""
    if condition is None or condition.status != "True":
        return frozenset()
    parts = condition.message.split("; ")
    return frozenset(key for key in keys if any(part.startswith(f"{key}: ") for part in parts))


def rfc3339(time: float) -> str:
    """Format whole seconds, rounded up, so that a persisted wait never seems longer than it was.

    >>> rfc3339(0.5)
    '1970-01-01T00:00:01Z'
    """
    return datetime.fromtimestamp(math.ceil(time), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _seconds(text: str) -> float | None:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return None if time.tzinfo is None else time.timestamp()
