"""Prospects of a group that does not fit: what would make it fit, for people."""

from __future__ import annotations

from typing import Final

from scheduler.framework.grouping import GroupToSchedule
from scheduler.groups.cycles.preemption import GroupPreemption

EVEN_EMPTY: Final = "; even an empty cluster takes {most} at most"
NO_PROOF: Final = (
    "; found no place in {orders} orders, which is no proof for pods of several templates"
)
_MIGHT_FIT: Final = "; it might fit if {victims} of lower priority went, but "
KEPT_BY_POLICY: Final = _MIGHT_FIT + "a member has preemptionPolicy=Never"
KEPT_BY_SOURCE: Final = _MIGHT_FIT + "its {source} has preemptionPolicy=Never"
KEPT_BY_WAIT: Final = _MIGHT_FIT + "groups do not preempt where extenders or async plugins decide"
KEPT_BY_PERMISSION: Final = _MIGHT_FIT + "{missing}"
KEPT_BY_LOOP: Final = _MIGHT_FIT + "{stopped}"
BELOW_LOWEST: Final = _MIGHT_FIT + "it evicts only below {priority}, its lowest priority"
BELOW_SOURCE: Final = _MIGHT_FIT + "it evicts only below {priority}, as its {source} says"
OF_OTHERS: Final = (
    "; pods of lower priority that other schedulers placed are not evicted for it; the argument "
    "victimSchedulers: All would allow that"
)
NO_PLAN: Final = "; no eviction was found that makes room for all pods that it needs"


def prospects(
    search: GroupPreemption, group: GroupToSchedule, said: str, *, orders: int, evicts: bool
) -> str:
    """Return the end of the failure message, of which `said` is the beginning.

    `orders` is the number of orders of runs tried; `evicts` is whether pods are being evicted.
    """
    most = search.most_when_empty() if group.minimum == group.need else None
    if most is not None and most < group.need:
        return EVEN_EMPTY.format(most=most)
    rooms = dict.fromkeys(map(str, search.reserved_for_others()))
    text = "".join(f"; {each}" for each in rooms if each not in said)
    text += NO_PROOF.format(orders=orders) if orders > 1 else ""
    return text if evicts else text + why_none_is_evicted(search, group)


def why_none_is_evicted(search: GroupPreemption, group: GroupToSchedule) -> str:
    """Return why no pods are evicted for a group that has no plan; empty if nobody expects it.

    The first rule that keeps enough pods from being victims is named.
    """
    lowest, highest = search.priorities
    victims = search.victims_that_suffice(highest)
    if not victims:
        if search.victims_that_suffice(highest, own=False):
            return OF_OTHERS
        return ""
    pods = f"some of {victims} pods" if victims > 1 else "1 pod"
    if not group.may_preempt:
        return KEPT_BY_SOURCE.format(victims=pods, source=group.priority_source)
    if search.forbidden_by_member:
        return KEPT_BY_POLICY.format(victims=pods)
    if search.suspends:
        return KEPT_BY_WAIT.format(victims=pods)
    if missing := search.no_permission():
        return KEPT_BY_PERMISSION.format(victims=pods, missing=missing)
    if not search.victims_that_suffice(lowest):
        return BELOW_LOWEST.format(victims=pods, priority=lowest)
    if not search.victims_that_suffice(search.priority):
        source = group.priority_source
        return BELOW_SOURCE.format(victims=pods, priority=search.priority, source=source)
    if stopped := search.stopped():
        return KEPT_BY_LOOP.format(victims=pods, stopped=stopped)
    return NO_PLAN
