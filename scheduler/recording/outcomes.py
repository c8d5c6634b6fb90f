"""The outcome of an attempt, for recordings, and for replays that compare it."""

from __future__ import annotations

from typing import Any

import msgspec

from scheduler.engine import Attempt, Failure
from scheduler.engine.group_result import GroupResult


class Outcome(msgspec.Struct, rename="camel", kw_only=True, omit_defaults=True, frozen=True):
    """The outcome of an attempt; equal outcomes are equal records."""

    node: str = ""
    evaluated: int = 0
    feasible: int = 0
    reason: str = ""
    """Reason of the condition; empty for a placed pod."""
    message: str = ""
    rejected_by: tuple[str, ...] = ()
    pending_by: tuple[str, ...] = ()
    nominated: str | None = None
    """The nominated node; empty: the nomination ended; None: it is unchanged."""
    victims: tuple[str, ...] = ()
    post_filter: str = ""
    unjudgeable: str = ""
    """Why no replay can reproduce this outcome; empty if one can."""


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


class MemberOutcome(msgspec.Struct, frozen=True):
    """The outcome of one member in the cycle of a group."""

    pod: str
    """`namespace/name`."""
    uid: str
    outcome: Outcome


def outcomes_of(result: GroupResult, *, suspended: bool = False) -> list[MemberOutcome]:
    """Return the outcomes of a group's cycle, in the order in which members were tried.

    For a scheduled group these are the placed members, since the others have separate attempts. The
    first outcome has the victims of the group.
    """
    found = [(each.info, outcome_of(each, suspended=suspended)) for each in result.placed]
    if not result.outcome.scheduled:
        found += [(each.info, outcome_of(each, suspended=suspended)) for each in result.failed]
        why = result.untried_failure
        untried = Outcome() if why is None else Outcome(reason=why.reason, message=why.message)
        if suspended:
            untried = msgspec.structs.replace(untried, unjudgeable=SUSPENDED)
        found += [(each, untried) for each in result.untried]
    if found and result.plan is not None:
        info, outcome = found[0]
        victims = tuple(each.key for each in result.plan.victims)
        found[0] = info, msgspec.structs.replace(outcome, victims=victims)
    return [MemberOutcome(info.key, info.uid, outcome) for info, outcome in found]


def failure_data(failure: Failure) -> dict[str, Any]:
    """Convert a failure to JSON values; `failure_of` is the inverse."""
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
