"""The pages that need trials: `POST /debug/whatif`, and the remedies of `/debug/explain`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import msgspec

from scheduler.pages import ExplainPage, PodState, Remedies, WhatIfResult
from scheduler.service.query_numbers import number_in
from scheduler.service.what_if.asker import Asker, AskerStatistics

MAX_REMEDIES: Final = 20
_PENDING: Final = (PodState.QUEUED, PodState.NOT_OURS, PodState.UNKNOWN)


class WhatIfPages:
    """Both pages of one process."""

    def __init__(self, asker: Asker, explain: Callable[[Mapping[str, str]], ExplainPage]) -> None:
        """`explain` serves the page without remedies."""
        self._asker = asker
        self._explain = explain

    def explain(self, query: Mapping[str, str]) -> ExplainPage | Awaitable[ExplainPage]:
        """Return the page, with `?remedies=N` and the remedies of a pending pod.

        Raises:
            LookupError: there is no such pod.
            ValueError: a number is out of range.
            TooManyQuestionsError: too many questions are being answered (when awaited).
        """
        limit = number_in(query, "remedies", 0, 0, MAX_REMEDIES)
        page = self._explain(query)
        if not limit or page.pod.state not in _PENDING:
            return page
        return self._with_remedies(page, limit)

    async def _with_remedies(self, page: ExplainPage, limit: int) -> ExplainPage:
        try:
            found = await self._asker.remedies(f"{page.pod.namespace}/{page.pod.name}", limit)
        except LookupError as error:
            found = Remedies(note=str(error.args[0]))
        return msgspec.structs.replace(page, remedies=found)

    def statistics(self) -> AskerStatistics:
        """Return counts and lengths of slices since the start."""
        return self._asker.statistics()

    async def what_if(self, body: bytes) -> WhatIfResult:
        """Answer a question; see `Asker.what_if`."""
        return await self._asker.what_if(body)
