"""The query of `/debug/explain` says how long to look for remedies, and how many to list."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import Any, cast

import pytest

from scheduler.explain.pages.what_if import WhatIfPages
from scheduler.explain.records import ExplainPage, PodExplanation, PodState, Remedies

POD = PodExplanation("default", "p", "u", "kubestow", 0, PodState.QUEUED, "it waits", 0.0)


class Searches:
    """Stands for the asker: notes the searches that it is asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int, float]] = []

    async def remedies(self, pod: str, limit: int, seconds: float) -> Remedies:
        self.asked.append((pod, limit, seconds))
        return Remedies(tried=1)


async def searches(query: dict[str, str], state: PodState = PodState.QUEUED) -> Searches:
    """Return the searches that a query about a pod in this state causes."""
    found = Searches()
    page = ExplainPage(leading=True, pod=replace(POD, state=state))
    answer: Any = WhatIfPages(lambda: cast("Any", found), lambda _: page).explain(query)
    if inspect.isawaitable(answer):
        answer = await answer
    assert (answer.remedies is not None) == bool(found.asked)
    return found


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, []),
        ({"remedies": "none"}, []),
        ({"remedies": "quick"}, [("default/p", 5, 0.3)]),
        ({"remedies": "all"}, [("default/p", 5, 5.0)]),
        ({"remedies": "all", "limit": "2", "budget_ms": "1500"}, [("default/p", 2, 1.5)]),
    ],
)
async def test_a_query_bounds_the_search(query: dict[str, str], expected: list[Any]) -> None:
    assert (await searches(query)).asked == expected


async def test_only_pending_pods_get_remedies() -> None:
    assert (await searches({"remedies": "all"}, PodState.BOUND)).asked == []


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ({"remedies": "3"}, "remedies=3: give one of none, quick, all"),
        ({"remedies": "quick", "limit": "21"}, "limit=21: give a number from 1 to 20"),
        ({"remedies": "quick", "budget_ms": "0"}, "budget_ms=0: give a number from 1 to 30000"),
    ],
)
async def test_a_wrong_query_is_refused_with_what_to_write(
    query: dict[str, str], text: str
) -> None:
    with pytest.raises(ValueError, match=text):
        await searches(query)
