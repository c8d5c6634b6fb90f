"""Cache of reviews by the API server: bounded, expiring, one request per key at a time.

Any client on the network may send invalid tokens, so their cost is bounded: the number of entries,
which have a constant size, and the number of reviews at once and per second. Errors are not cached.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, TypeVar
from weakref import WeakValueDictionary

from scheduler.client.clock import Clock
from scheduler.client.rate_limit import RateLimiter

Result = TypeVar("Result")

MAX_ENTRIES: Final = 1024
MAX_CONCURRENT: Final = 8
"""Reviews sent at once, so that they take little of the API server's time."""

QPS: Final = 200.0
BURST: Final = 400
"""Reviews a second, and in a burst: those of upstream's client for reviews
(DelegatingAuthenticationOptions and DelegatingAuthorizationOptions, `getClient`)."""


class ReviewCache(Generic[Result]):
    """Results by key. Used from one event loop."""

    def __init__(
        self,
        clock: Clock,
        *,
        entries: int = MAX_ENTRIES,
        concurrent: int = MAX_CONCURRENT,
        qps: float = QPS,
        burst: int = BURST,
    ) -> None:
        self._clock = clock
        self._entries = entries
        #: Results by key, with the time at which they expire.
        self._results: OrderedDict[Hashable, tuple[float, Result]] = OrderedDict()
        #: One lock for each key that is under review, alive as long as a caller holds or awaits it.
        self._locks: WeakValueDictionary[Hashable, asyncio.Lock] = WeakValueDictionary()
        self._concurrent = asyncio.Semaphore(concurrent)
        self._limiter = RateLimiter(clock, qps=qps, burst=burst)

    def __len__(self) -> int:
        return len(self._results)

    async def get(
        self,
        key: Hashable,
        review: Callable[[], Awaitable[Result]],
        ttl: Callable[[Result], float],
    ) -> Result:
        """Return the cached result, or that of `review()`, cached for `ttl(result)` seconds.

        Exceptions of `review` propagate.
        """
        lock = self._locks.setdefault(key, asyncio.Lock())
        async with lock:
            cached = self._results.get(key)
            if cached is not None and cached[0] > self._clock.monotonic():
                return cached[1]
            async with self._concurrent:
                await self._limiter.acquire()
                result = await review()
            self._keep(key, result, ttl(result))
            return result

    def _keep(self, key: Hashable, result: Result, seconds: float) -> None:
        self._results.pop(key, None)
        if seconds <= 0:
            return
        self._results[key] = (self._clock.monotonic() + seconds, result)
        while len(self._results) > self._entries:
            # The oldest: the next one to expire, or close to it.
            self._results.popitem(last=False)
