"""The pages under `/debug/` that people ask for, with their records.

Permissions, the restriction to one namespace and the commands follow this table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from scheduler.explain.records.decision import DecisionList
from scheduler.explain.records.explain_page import ExplainPage
from scheduler.explain.records.gangs import GroupList, GroupPage
from scheduler.explain.records.nodes import NodeList, NodePage
from scheduler.explain.records.page import DebugPage
from scheduler.explain.records.queue import QueuePage
from scheduler.explain.records.summary import SummaryPage
from scheduler.explain.records.waiting import WaitingPage


@dataclass(frozen=True, slots=True)
class PageEntry:
    """One page."""

    record: type[DebugPage]
    #: Returns the namespace that a query is about; None: it is never about a single one, so that
    #: only those who may read the whole page get it.
    namespace: Callable[[Mapping[str, str]], str] | None = None


def _of_pod(query: Mapping[str, str]) -> str:
    return query.get("pod", "").partition("/")[0]


def _of_namespace(query: Mapping[str, str]) -> str:
    return query.get("namespace", "")


PAGES: Final[Mapping[str, PageEntry]] = {
    "/debug/decisions": PageEntry(DecisionList, _of_pod),
    "/debug/explain": PageEntry(ExplainPage, _of_pod),
    "/debug/gang": PageEntry(GroupPage),
    "/debug/gangs": PageEntry(GroupList),
    "/debug/node": PageEntry(NodePage),
    "/debug/nodes": PageEntry(NodeList),
    "/debug/queue": PageEntry(QueuePage, _of_namespace),
    "/debug/summary": PageEntry(SummaryPage),
    "/debug/waiting": PageEntry(WaitingPage, _of_namespace),
}
"""By path."""
