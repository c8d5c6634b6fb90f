"""OutageLog: one periodic line about a server that cannot be reached, for all its clients.

A dozen reflectors that retry would write hundreds of equal lines. Error responses are not outages.
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
    """Collects failures and successes of the users of one server. Belongs to one event loop."""

    def __init__(self, clock: Clock, server: str) -> None:
        self._clock = clock
        self._server = server
        # Users without connection, in order of their first failure.
        self._affected: dict[str, None] = {}
        self._failures = 0
        self._since = 0.0
        self._due = 0.0

    def failed(self, user: str, error: RequestError) -> None:
        """Note that a request of `user` failed; it will retry."""
        now = self._clock.monotonic()
        if not self._affected:
            self._failures, self._since, self._due = 0, now, now
        self._affected[user] = None
        self._failures += 1
        if now < self._due:
            return
        self._due = now + PERIOD_SECONDS
        _log.warning(
            "the API server cannot be reached, retrying",
            server=self._server,
            affected=list(self._affected),
            failures=self._failures,
            seconds=round(now - self._since, 1),
            **describe(error),
        )

    def recovered(self, user: str) -> None:
        """Note that `user` received a response."""
        if user not in self._affected:
            return
        del self._affected[user]
        if not self._affected:
            _log.info(
                "the API server can be reached again",
                server=self._server,
                failures=self._failures,
                seconds=round(self._clock.monotonic() - self._since, 1),
            )
