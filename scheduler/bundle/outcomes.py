"""The outcome of an attempt, as a recording keeps it and a replay compares it."""

from __future__ import annotations

from typing import Any

import msgspec

from scheduler.engine import Attempt, Failure


class Outcome(msgspec.Struct, rename="camel", kw_only=True, omit_defaults=True, frozen=True):
    """The outcome of an attempt; equal outcomes are equal records."""

    node: str = ""
    evaluated: int = 0
    feasible: int = 0
    reason: str = ""
    """Of the condition; empty for a placed pod."""
    message: str = ""
    rejected_by: tuple[str, ...] = ()
    pending_by: tuple[str, ...] = ()
    nominated: str | None = None
    """The node that victims make room on; empty: the nomination ended; None: it stays."""
    victims: tuple[str, ...] = ()
    post_filter: str = ""
    unjudgeable: str = ""
    """Why no replay can reproduce it; empty for all others."""


OVER_BUDGET = "it depends on the CPU time that cycles used"
SUSPENDED = "extenders or asynchronous plugins took part"


def outcome_of(attempt: Attempt, *, suspended: bool = False) -> Outcome:
    """Return the outcome of a finished attempt."""
    result, failure = attempt.result, attempt.failure
    if failure is None:
        assert result is not None
        return Outcome(
            node=result.node_name,
            evaluated=result.evaluated_nodes,
            feasible=result.feasible_nodes,
            unjudgeable=SUSPENDED if suspended else "",
        )
    nominating = failure.nominating
    why = OVER_BUDGET if failure.pause else SUSPENDED if suspended else ""
    return Outcome(
        reason=failure.reason,
        message=failure.message,
        rejected_by=tuple(sorted(failure.unschedulable_plugins)),
        pending_by=tuple(sorted(failure.pending_plugins)),
        nominated=None if nominating is None else nominating.node_name,
        victims=failure.victims,
        post_filter=str(failure.post_filter),
        unjudgeable=why,
    )


def failure_data(failure: Failure) -> dict[str, Any]:
    """Return a failure as JSON can express it; `failure_of` makes the failure of it again."""
    nominating = failure.nominating
    return {
        "reason": failure.reason,
        "message": failure.message,
        "nominated": None if nominating is None else nominating.node_name,
        "rejectedBy": sorted(failure.unschedulable_plugins),
        "pendingBy": sorted(failure.pending_plugins),
        "requeueAfter": failure.requeue_after,
        "rejected": failure.rejected,
        "postFilter": str(failure.post_filter),
        "note": failure.note,
        "pause": failure.pause,
    }
