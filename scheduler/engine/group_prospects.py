"""Prospects of a group that does not fit: what would make it fit, for people."""

from __future__ import annotations

from typing import Final

from scheduler.engine.group_preemption import GroupPreemption
from scheduler.framework.grouping import GroupToSchedule
from scheduler.pages.wording import counted

EVEN_EMPTY: Final = "; even an empty cluster takes {most} at most"
NO_PROOF: Final = (
    "; found no place in {orders} orders, which is no proof for pods of several templates"
)
KEPT_BY_POLICY: Final = (
    "; it might fit if some of {victims} of lower priority went, but a member has "
    "preemptionPolicy=Never"
)


def prospects(search: GroupPreemption, group: GroupToSchedule, said: str, *, orders: int) -> str:
    """Return the end of the failure message, of which `said` is the beginning.

    `orders` is the number of orders of runs tried.
    """
    most = search.most_when_empty() if group.minimum == group.need else None
    if most is not None and most < group.need:
        return EVEN_EMPTY.format(most=most)
    rooms = dict.fromkeys(map(str, search.reserved_for_others()))
    text = "".join(f"; {each}" for each in rooms if each not in said)
    text += NO_PROOF.format(orders=orders) if orders > 1 else ""
    victims = search.kept_by_policy()
    return text + KEPT_BY_POLICY.format(victims=counted(victims, "pod")) if victims else text
