"""Client-side request rate limit: a token bucket with reservations.

Waiters are served in order of arrival, because each one reserves its token on arrival and then
sleeps until that token exists. Watches do not pass through here.
"""

from __future__ import annotations

from scheduler.client.clock import Clock


class RateLimiter:
    """`qps` tokens a second, at most `burst` saved up; a negative `qps` switches the limit off."""

    def __init__(self, clock: Clock, *, qps: float = 50.0, burst: int = 100) -> None:
        """Start with a full bucket.

        Raises:
            ValueError: `qps` is zero, or `burst` is below one while the limit is on.
        """
        if qps == 0 or (qps > 0 and burst < 1):
            msg = f"qps {qps} with burst {burst} lets nothing pass; use qps < 0 for no limit"
            raise ValueError(msg)
        self._clock = clock
        self._qps = qps
        self._burst = float(burst)
        self._tokens = self._burst
        self._at = clock.monotonic()

    def reserve(self) -> float:
        """Take a token; return the seconds until it exists, 0.0 if it does already."""
        if self._qps < 0:
            return 0.0
        now = self._clock.monotonic()
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._qps)
        self._at = now
        self._tokens -= 1.0
        if self._tokens >= 0.0:
            return 0.0
        return -self._tokens / self._qps

    async def acquire(self) -> None:
        """Take a token, and wait until it exists."""
        delay = self.reserve()
        if delay > 0.0:
            await self._clock.sleep(delay)
