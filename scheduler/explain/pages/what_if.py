"""The pages that need trials: `POST /debug/whatif`, and the remedies of `/debug/explain`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Final

import msgspec

from scheduler.explain.pages.query_numbers import number_in
from scheduler.explain.records import ExplainPage, PodState, Remedies, RemedySearch, WhatIfResult
from scheduler.explain.records.remedies import DEFAULT_REMEDIES
from scheduler.explain.what_if.statistics import AskerStatistics
from scheduler.service.questions import NotSyncedError

if TYPE_CHECKING:
    from scheduler.explain.what_if.asker import Asker

MAX_REMEDIES: Final = 20
BUDGETS: Final = {RemedySearch.QUICK: 300, RemedySearch.ALL: 5000}
"""Milliseconds for a search, unless the query says otherwise."""
MAX_BUDGET: Final = 30_000
_ASKER: Final = "scheduler.explain.what_if.asker"
_PENDING: Final = (PodState.QUEUED, PodState.NOT_OURS, PodState.UNKNOWN)


class WhatIfPages:
    """Both pages of one process."""

    def __init__(
        self, make: Callable[[], Asker], explain: Callable[[Mapping[str, str]], ExplainPage]
    ) -> None:
        """`make` is called at the first question; `explain` serves the page without remedies."""
        self._make = make
        self._explain = explain
        self._made: Asker | None = None

    def explain(self, query: Mapping[str, str]) -> ExplainPage | Awaitable[ExplainPage]:
        """Return the page, with the remedies of a pending pod if the query asks for them.

        `?remedies=quick` or `all`, `?limit=` remedies at most, in `?budget_ms=`.

        Raises:
            LookupError: there is no such pod.
            ValueError: a number is out of range, or `remedies` has another value.
            TooManyQuestionsError: too many questions are being answered (when awaited).
        """
        effort = _effort(query)
        limit = number_in(query, "limit", DEFAULT_REMEDIES, 1, MAX_REMEDIES)
        budget = number_in(query, "budget_ms", BUDGETS.get(effort, 0), 1, MAX_BUDGET)
        page = self._explain(query)
        if effort is RemedySearch.NONE or page.pod.state not in _PENDING:
            return page
        return self._with_remedies(page, limit, budget / 1000)

    async def _with_remedies(self, page: ExplainPage, limit: int, seconds: float) -> ExplainPage:
        try:
            pod = f"{page.pod.namespace}/{page.pod.name}"
            found = await (await self._asker()).remedies(pod, limit, seconds)
        except LookupError as error:
            found = Remedies(note=str(error.args[0]))
        except NotSyncedError as error:
            found = Remedies(complete=False, note=str(error))
        return msgspec.structs.replace(page, remedies=found)

    def statistics(self) -> AskerStatistics:
        """Return counts and lengths of slices since the start."""
        return AskerStatistics() if self._made is None else self._made.statistics()

    async def what_if(self, body: bytes) -> WhatIfResult:
        """Answer a question; see `Asker.what_if`."""
        return await (await self._asker()).what_if(body)

    async def _asker(self) -> Asker:
        # In a thread: it takes longer than a slice of the loop, and many schedulers never need it.
        await asyncio.to_thread(import_module, _ASKER)
        if self._made is None:
            self._made = self._make()
        return self._made


def _effort(query: Mapping[str, str]) -> RemedySearch:
    text = query.get("remedies", RemedySearch.NONE.value)
    try:
        return RemedySearch(text)
    except ValueError:
        known = ", ".join(RemedySearch)
        raise ValueError(f"remedies={text[:40]}: give one of {known}") from None
