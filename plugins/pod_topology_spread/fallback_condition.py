"""The pod condition in which the fallback keeps what must outlive the process (KEP-3990 rule S15).

Its message starts with `since=<RFC 3339>`, the time T0 of rule S5, in every state; while it is True
the keys of the constraints that were soft follow, which is what the latch is restored from (S11).
Written and read by the scheduler only, so its clock is compared with itself.
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
#: The message where criteria were taken away again.
NO_CRITERIA: Final = "no constraint has criteria"

_SINCE: Final = re.compile(r"since=(\S+?)(?:;|$)")


def fallback_condition(
    soft: Mapping[str, str],
    awaited: Mapping[str, str],
    since: float | None,
    *,
    invalid: str = "",
) -> Condition:
    """The condition after an attempt.

    Args:
        soft: topology keys that were treated as ScheduleAnyway, with the reason.
        awaited: keys of constraints that stayed hard, with the criteria that do not hold now.
        since: T0, wall clock seconds; None when spreading never turned the pod down.
        invalid: what is wrong with the annotation.
    """
    parts = [] if since is None else [f"since={rfc3339(since)}"]
    if soft:
        parts += [f"{key}: {why}" for key, why in soft.items()]
        return Condition(
            type=CONDITION, status="True", reason=CRITERIA_MET, message="; ".join(parts)
        )
    if invalid:
        return Condition(
            type=CONDITION,
            status="False",
            reason=INVALID_ANNOTATION,
            message="; ".join((*parts, invalid)),
        )
    parts += [
        f"{key} waits for {criteria}" if criteria else f"{key} falls back in the next attempt"
        for key, criteria in awaited.items()
    ] or [NO_CRITERIA]
    return Condition(
        type=CONDITION, status="False", reason=AWAITING_CRITERIA, message="; ".join(parts)
    )


def condition_of(pod: Pod, kind: str) -> Condition | None:
    """A condition of the pod, None when it has no such."""
    for each in pod.status.conditions:
        if each.type == kind:
            return each
    return None


def persisted_since(condition: Condition | None) -> float | None:
    """T0 as written; the last transition is the next best, for a message that somebody changed."""
    if condition is None:
        return None
    found = _SINCE.match(condition.message)
    for text in (found[1] if found else "", condition.last_transition_time or ""):
        time = _seconds(text)
        if time is not None:
            return time
    return None


def persisted_soft_keys(condition: Condition | None, keys: Sequence[str]) -> frozenset[str]:
    """Which of `keys` were soft in the last attempt of the process before."""
    if condition is None or condition.status != "True":
        return frozenset()
    parts = condition.message.split("; ")
    return frozenset(key for key in keys if any(part.startswith(f"{key}: ") for part in parts))


def rfc3339(time: float) -> str:
    """Whole seconds, rounded up: a wait read back is never shorter than it was.

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
