"""OutageLog: one line, now and then, about a server that cannot be reached, whoever notices.

A dozen reflectors that retry would write hundreds of equal lines. What the server does answer, a
refusal for example, is not its business.
"""

from __future__ import annotations

from typing import Final

import structlog

from scheduler.client.clock import Clock
from scheduler.client.errors import RequestError, describe

_log = structlog.get_logger(__name__)

PERIOD_SECONDS: Final = 10.0
"""Time between two lines about the same outage."""


class OutageLog:
    """Told about failures and successes of everyone who talks to one server. One event loop."""

    def __init__(self, clock: Clock, server: str) -> None:
        self._clock = clock
        self._server = server
        #: Who has been cut off, in the order they noticed.
        self._affected: dict[str, None] = {}
        self._failures = 0
        self._since = 0.0
        self._due = 0.0

    def failed(self, who: str, error: RequestError) -> None:
        """`who` got no answer, and will try again."""
        now = self._clock.monotonic()
        if not self._affected:
            self._failures, self._since, self._due = 0, now, now
        self._affected[who] = None
        self._failures += 1
        if now < self._due:
            return
        self._due = now + PERIOD_SECONDS
        _log.warning(
            "the API server cannot be reached, trying on",
            server=self._server,
            affected=list(self._affected),
            failures=self._failures,
            seconds=round(now - self._since, 1),
            **describe(error),
        )

    def answered(self, who: str) -> None:
        """`who` got an answer."""
        if who not in self._affected:
            return
        del self._affected[who]
        if not self._affected:
            _log.info(
                "the API server answers again",
                server=self._server,
                failures=self._failures,
                seconds=round(self._clock.monotonic() - self._since, 1),
            )
