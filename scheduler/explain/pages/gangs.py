"""The debug pages about pod groups: `/debug/gangs` about all, and `/debug/gang` about one.

They are built on the event loop between cycles. The first visits every group and has at most
`MAX_GROUPS` records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from scheduler.explain.pages.group_explainer import GroupExplainer
from scheduler.explain.pages.query_numbers import number_in
from scheduler.explain.records import GroupList, GroupPage, GroupView
from scheduler.framework import Clock
from scheduler.framework.grouping import GroupingPlugin

DEFAULT_GROUPS: Final = 100
MAX_GROUPS: Final = 1_000

MAX_NAME: Final = 253
"""Maximum number of characters of an unknown name that are repeated in the answer."""

NO_GROUP: Final = "it has neither a PodGroup nor pods, or no profile enables GangScheduling"


class GangPages:
    """The pages of one process."""

    def __init__(
        self,
        plugins: Callable[[], Iterable[GroupingPlugin]],
        explainer: GroupExplainer,
        *,
        clock: Clock,
        leading: Callable[[], bool],
    ) -> None:
        """Serve the groups of `plugins()`, the plugins that group pods."""
        self._plugins = plugins
        self._explainer = explainer
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

    def gang(self, query: Mapping[str, str]) -> GroupPage:
        """Return everything about the groups called `?name=NAMESPACE/NAME`.

        Raises:
            LookupError: there is none.
            ValueError: the query names none.
        """
        namespace, slash, name = query.get("name", "").partition("/")
        if not (namespace and slash and name):
            raise ValueError("say which pod group: /debug/gang?name=NAMESPACE/NAME")
        groups = self._explainer.named(namespace, name)
        if not groups:
            msg = f'no pod group "{namespace[:MAX_NAME]}/{name[:MAX_NAME]}": {NO_GROUP}'
            raise LookupError(msg)
        return GroupPage(now=self._clock.now(), leading=self._leading(), groups=groups)
