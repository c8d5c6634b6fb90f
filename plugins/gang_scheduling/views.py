"""Views of groups for the debug pages `/debug/gangs` and `/debug/gang`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import nsmallest
from itertools import islice
from typing import Final

from plugins.gang_scheduling.gangs import Gangs
from plugins.gang_scheduling.messages import why_held
from plugins.gang_scheduling.priority_class import GroupPriorities
from plugins.gang_scheduling.standing import SATISFIED
from scheduler.explain.records import GroupMembers, GroupRules, GroupView
from scheduler.framework.grouping import GroupDetails, GroupTopology
from scheduler.groups import MAX_MEMBERS, Group, GroupTerms, MemberState

MAX_PLACED: Final = 1_000
"""Maximum number of placed members, first ones first, that determine the domain of others."""

EXAMPLES: Final = 5
"""Maximum number of members to name for each state."""


def group_views(gangs: Gangs, namespace: str, limit: int) -> tuple[Sequence[GroupView], int]:
    """Return at most `limit` groups of a namespace (empty: all), and how many there are.

    Waiting groups come first.
    """
    groups = [each for each in gangs.groups if namespace in ("", each.key.namespace)]

    def rank(group: Group) -> tuple[bool, str, str, str]:
        key = group.key
        settled = gangs.standing(group).stage in SATISFIED
        return settled, key.namespace, key.name, key.source.value

    return [_view(gangs, each) for each in nsmallest(limit, groups, key=rank)], len(groups)


def _view(gangs: Gangs, group: Group) -> GroupView:
    stage, text = gangs.standing(group)
    counts = group.counts
    return GroupView(
        group=str(group.key),
        source=group.key.source.value,
        stage=stage.value,
        minimum=0 if group.terms is None else group.terms.minimum,
        bound=counts.bound,
        succeeded=counts.succeeded,
        reserved=counts.reserved,
        pending=counts.pending,
        gated=counts.gated,
        foreign=counts.foreign,
        text=text,
    )


def group_details(gangs: Gangs, group: Group) -> GroupDetails:
    """Return all details of a group."""
    key = group.key
    return GroupDetails(
        name=name_of(group),
        view=_view(gangs, group),
        need=group.need,
        rules=None if group.terms is None else _rules(group.terms, gangs.priorities),
        attempt=gangs.attempts.get(key),
        members=tuple(_members(group)),
        pending=tuple(islice(group.members(MemberState.PENDING), MAX_MEMBERS)),
        held=why_held(group),
        topology=topology_of(group),
        reservation=gangs.reserved.of(key),
    )


def name_of(group: Group) -> str:
    """Return the name of a group in messages."""
    return f"pod group {group.key}"


def topology_of(group: Group) -> GroupTopology | None:
    """Return the topology constraints of a group; None if it has none."""
    terms = group.terms
    if terms is None or not (terms.required_key or terms.preferred_keys):
        return None
    placed = tuple(islice(group.members(MemberState.BOUND, MemberState.RESERVED), MAX_PLACED))
    return GroupTopology(terms.required_key, terms.preferred_keys, placed)


def _rules(terms: GroupTerms, priorities: GroupPriorities) -> GroupRules:
    fault = priorities.fault(terms)
    return GroupRules(
        resource=terms.resource,
        priority=priorities.priority(terms),
        preempts=not priorities.never_preempts(terms),
        required_key=terms.required_key,
        preferred_keys=terms.preferred_keys,
        disruption="PodGroup" if terms.whole else "Pod",
        ignored=(*terms.ignored, fault) if fault else terms.ignored,
    )


def _members(group: Group) -> Iterator[GroupMembers]:
    counts = group.counts._asdict()
    for state in MemberState:
        if counts[state.value]:
            examples = tuple(islice(group.members(state), EXAMPLES))
            yield GroupMembers(state.value, counts[state.value], examples)
