"""Views of groups for the debug page `/debug/gangs`."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import nsmallest

from plugins.gang_scheduling.gangs import Gangs
from plugins.gang_scheduling.standing import SATISFIED
from scheduler.groups import Group
from scheduler.pages import GroupView


def group_views(gangs: Gangs, namespace: str, limit: int) -> tuple[Sequence[GroupView], int]:
    """Return views of at most `limit` groups of a namespace (empty: of all), and their number.

    Those that wait come first.
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
