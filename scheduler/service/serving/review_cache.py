"""Cache of reviews by the API server: bounded, expiring, one request per key at a time.

Any client on the network may send invalid tokens, so their cost is bounded: the number of entries
of constant size, of requests at once and per second, and the duration of a request. Errors are not
cached.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from scheduler.client.clock import Clock
from scheduler.client.rate_limit import RateLimiter

Answer = TypeVar("Answer")

MAX_ENTRIES: Final = 1024
MAX_QUESTIONS: Final = 8
"""At once; the API server has better things to do."""

QPS: Final = 200.0
BURST: Final = 400
"""Questions a second, and saved up: those of upstream's client for reviews
(DelegatingAuthenticationOptions and DelegatingAuthorizationOptions, `getClient`)."""


@dataclass(slots=True)
class _Turn:
    """One request in progress, and the number of its waiters."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    waiting: int = 0


class ReviewCache(Generic[Answer]):
    """Results by key. Used from one event loop."""

    def __init__(
        self,
        clock: Clock,
        *,
        entries: int = MAX_ENTRIES,
        questions: int = MAX_QUESTIONS,
        qps: float = QPS,
        burst: int = BURST,
    ) -> None:
        self._clock = clock
        self._entries = entries
        self._answers: OrderedDict[Hashable, tuple[float, Answer]] = OrderedDict()
        self._turns: dict[Hashable, _Turn] = {}
        self._questions = asyncio.Semaphore(questions)
        self._limiter = RateLimiter(clock, qps=qps, burst=burst)

    def __len__(self) -> int:
        return len(self._answers)

    async def get(
        self,
        key: Hashable,
        ask: Callable[[], Awaitable[Answer]],
        ttl: Callable[[Answer], float],
    ) -> Answer:
        """Return the cached result, or that of `ask()`, cached for `ttl(result)` seconds.

        Exceptions of `ask` propagate.
        """
        answer = self._remembered(key)
        if answer is not None:
            return answer[1]
        turn = self._turns.setdefault(key, _Turn())
        turn.waiting += 1
        try:
            async with turn.lock:
                answer = self._remembered(key)
                if answer is not None:
                    return answer[1]
                async with self._questions:
                    await self._limiter.acquire()
                    fresh = await ask()
                self._remember(key, fresh, ttl(fresh))
                return fresh
        finally:
            turn.waiting -= 1
            if not turn.waiting:
                del self._turns[key]

    def _remembered(self, key: Hashable) -> tuple[float, Answer] | None:
        entry = self._answers.get(key)
        if entry is None:
            return None
        if entry[0] <= self._clock.monotonic():
            del self._answers[key]
            return None
        return entry

    def _remember(self, key: Hashable, answer: Answer, seconds: float) -> None:
        if seconds <= 0:
            return
        self._answers[key] = (self._clock.monotonic() + seconds, answer)
        while len(self._answers) > self._entries:
            # The oldest: the next one to expire, or close to it.
            self._answers.popitem(last=False)
