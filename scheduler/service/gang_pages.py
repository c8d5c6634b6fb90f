"""The debug page `/debug/gangs`: the pod groups of all profiles, from the plugin that groups pods.

Runs on the loop between cycles. It makes at most `MAX_GROUPS` records, and looks at every group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from scheduler.framework import Clock
from scheduler.framework.grouping import GroupingPlugin
from scheduler.pages import GroupList, GroupView
from scheduler.service.query_numbers import number_in

DEFAULT_GROUPS: Final = 100
MAX_GROUPS: Final = 1_000


class GangPages:
    """The page of one process."""

    def __init__(
        self,
        plugins: Callable[[], Iterable[GroupingPlugin]],
        *,
        clock: Clock,
        leading: Callable[[], bool],
    ) -> None:
        """`plugins` returns those that group pods, of which one group pods for all profiles."""
        self._plugins = plugins
        self._clock = clock
        self._leading = leading

    def gangs(self, query: Mapping[str, str]) -> GroupList:
        """Return the groups, at most `?limit=` of them, of `?namespace=`.

        Raises:
            ValueError: the number is out of range.
        """
        limit = number_in(query, "limit", DEFAULT_GROUPS, 1, MAX_GROUPS)
        namespace = query.get("namespace", "")
        found: dict[tuple[str, str], GroupView] = {}
        total = 0
        for plugin in self._plugins():
            views, count = plugin.group_views(namespace, limit)
            found.update(((each.group, each.source), each) for each in views)
            total = max(total, count)
        return GroupList(
            now=self._clock.now(),
            leading=self._leading(),
            total=total,
            groups=tuple(found.values())[:limit],
        )
