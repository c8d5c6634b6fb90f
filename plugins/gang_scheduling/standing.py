"""Standing: the progress of a group as a word and a sentence, for statuses and `explain`."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

from plugins.gang_scheduling.messages import why_held
from scheduler.groups import Group


class GroupStage(StrEnum):
    """The progress of a group; also the reasons of the condition `kubestow.io/Satisfied`."""

    #: Its object is missing or invalid.
    INVALID = "Invalid"
    #: Too few pods exist, or may be scheduled.
    WAITING_FOR_MEMBERS = "WaitingForMembers"
    #: It was not tried yet, or its members are being bound.
    PENDING = "Pending"
    #: Its attempts have failed for a long time, and nodes are reserved for it.
    RESERVED = "Reserved"
    #: A ResourceQuota has too little left for it.
    QUOTA_EXCEEDED = "QuotaExceeded"
    #: Its last attempt failed.
    UNSCHEDULABLE = "Unschedulable"
    #: Some members have nodes, but fewer than needed.
    PARTIAL = "Partial"
    #: Enough members have nodes, and others wait.
    MINIMUM_BOUND = "MinimumBound"
    #: All members have nodes.
    ALL_BOUND = "AllBound"
    #: Enough members have succeeded.
    FINISHED = "Finished"


SATISFIED: Final = (GroupStage.MINIMUM_BOUND, GroupStage.ALL_BOUND, GroupStage.FINISHED)

UNSCHEDULABLE: Final = (
    GroupStage.QUOTA_EXCEEDED,
    GroupStage.UNSCHEDULABLE,
    GroupStage.RESERVED,
    GroupStage.PARTIAL,
)

BOUND_OF: Final = "{bound} of {minimum} pods have a node"
BOUND_AND_ENDED: Final = "needs {minimum} pods: {bound} with a node, {succeeded} succeeded"
MORE_BOUND: Final = "{bound} pods have a node, {minimum} are needed"
BEING_BOUND: Final = "{text}, {reserved} are being bound"


class Standing(NamedTuple):
    """The progress of a group, with a text."""

    stage: GroupStage
    #: A sentence with numbers.
    text: str


def standing(group: Group, failed: str, kept: str = "", *, over_quota: bool = False) -> Standing:
    """Return the progress of a group.

    `failed` is the message of its last attempt or binding if that failed, and `kept` describes the
    nodes that are reserved for it. `over_quota` is whether it failed because of quota.
    """
    terms, counts = group.terms, group.counts
    if terms is None or terms.refused:
        return Standing(GroupStage.INVALID, why_held(group))
    if terms.minimum and counts.succeeded >= terms.minimum:
        return Standing(GroupStage.FINISHED, f"{counts.succeeded} pods have ended well")
    placed = counts.bound + counts.succeeded
    text = BOUND_OF if counts.bound <= terms.minimum else MORE_BOUND
    text = (BOUND_AND_ENDED if counts.succeeded else text).format(
        bound=counts.bound, succeeded=counts.succeeded, minimum=terms.minimum
    )
    waiting = counts.pending + counts.gated + counts.reserved
    if placed and placed >= terms.minimum:
        if not waiting:
            return Standing(GroupStage.ALL_BOUND, text)
        return Standing(GroupStage.MINIMUM_BOUND, f"{text}, {waiting} more wait")
    if placed and not counts.reserved:
        why = why_held(group) or failed
        return Standing(GroupStage.PARTIAL, f"{text}; {why}" if why else text)
    held = why_held(group)
    if held:
        return Standing(GroupStage.WAITING_FOR_MEMBERS, held)
    if failed and group.need and over_quota:
        return Standing(GroupStage.QUOTA_EXCEEDED, failed)
    if failed and group.need and kept:
        return Standing(GroupStage.RESERVED, f"{failed}; {kept}")
    if failed and group.need:
        return Standing(GroupStage.UNSCHEDULABLE, failed)
    if counts.reserved:
        text = BEING_BOUND.format(text=text, reserved=counts.reserved)
    return Standing(GroupStage.PENDING, text)
