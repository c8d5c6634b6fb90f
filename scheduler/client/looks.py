"""Looks: requests of a reflector that callers want sooner than its next retry.

A reflector whose resource the server rejected retries with growing delays, so what it knows may be
half a minute old. A caller for whom that is too old wants a look, which is a request that begins
after the call. However many callers there are, looks are at least `LOOK_SECONDS` apart.
"""

from __future__ import annotations

import asyncio
from typing import Final

from scheduler.client.clock import Clock, sleep_unless
from scheduler.client.errors import RequestError

LOOK_SECONDS: Final = 1.0
"""Minimum seconds between two looks."""

Response = RequestError | None
"""The response to a request: None if it was no error."""


class Looks:
    """The callers who wait for a look."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._wanted = asyncio.Event()
        # Whether the last response was no error.
        self._follows = False
        # Callers whose look has not begun, and those whose look is under way.
        self._waiting: list[asyncio.Future[Response]] = []
        self._begun: list[asyncio.Future[Response]] = []

    async def wait(self) -> Response:
        """Wait for the response to a request that begins after this call.

        Returns at once while the resource is being watched.
        """
        if self._follows:
            return None
        future: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        self._wanted.set()
        return await future

    def begin(self) -> None:
        """Note that a request begins."""
        self._begun += self._waiting
        self._waiting = []
        self._wanted.clear()

    def end(self, response: Response) -> None:
        """Pass on a response; None: a watch is open."""
        self._follows = response is None
        begun, self._begun = self._begun, []
        for each in begun:
            if not each.done():
                each.set_result(response)

    async def sleep(self, seconds: float) -> None:
        """Sleep until a look is wanted, `seconds` at most."""
        soonest = self._clock.monotonic() + min(seconds, LOOK_SECONDS)
        await sleep_unless(self._wanted, self._clock, seconds)
        if (left := soonest - self._clock.monotonic()) > 0:
            await self._clock.sleep(left)
