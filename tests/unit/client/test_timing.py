"""Rate limit and backoff as arithmetic in virtual time."""

from __future__ import annotations

import asyncio
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.client.backoff import Backoff
from scheduler.client.rate_limit import RateLimiter
from tests.unit.client.virtual_clock import ManualClock


class TestRateLimiter:
    def test_a_burst_passes_and_the_rest_queues_in_order(self) -> None:
        limiter = RateLimiter(ManualClock(), qps=10, burst=3)
        delays = [limiter.reserve() for _ in range(6)]
        assert delays == pytest.approx([0, 0, 0, 0.1, 0.2, 0.3])

    def test_idle_time_saves_up_at_most_a_burst(self) -> None:
        clock = ManualClock()
        limiter = RateLimiter(clock, qps=10, burst=3)
        clock.jump(1000)
        assert [limiter.reserve() > 0 for _ in range(4)] == [False, False, False, True]

    def test_a_negative_rate_is_no_limit(self) -> None:
        limiter = RateLimiter(ManualClock(), qps=-1, burst=0)
        assert sum(limiter.reserve() for _ in range(1000)) == 0

    @pytest.mark.parametrize(("qps", "burst"), [(0, 10), (5, 0)])
    def test_a_limit_that_lets_nothing_pass_is_refused(self, qps: float, burst: int) -> None:
        with pytest.raises(ValueError, match="lets nothing pass"):
            RateLimiter(ManualClock(), qps=qps, burst=burst)

    async def test_waiters_are_served_in_order(self) -> None:
        clock = ManualClock()
        limiter = RateLimiter(clock, qps=1, burst=1)
        served: list[tuple[int, float]] = []

        async def one(number: int) -> None:
            await limiter.acquire()
            served.append((number, clock.monotonic()))

        async with asyncio.TaskGroup() as group:
            for number in range(4):
                group.create_task(one(number))
            await clock.advance(3)
        assert served == [(0, 0), (1, 1), (2, 2), (3, 3)]

    @given(
        st.floats(0.5, 100), st.integers(1, 20), st.lists(st.floats(0, 2), min_size=1, max_size=60)
    )
    def test_never_more_than_rate_times_time_plus_burst(
        self, qps: float, burst: int, pauses: list[float]
    ) -> None:
        clock = ManualClock()
        limiter = RateLimiter(clock, qps=qps, burst=burst)
        starts = []
        for pause in pauses:
            clock.jump(pause)
            starts.append(clock.monotonic() + limiter.reserve())
        assert starts == sorted(starts)
        for first, start in enumerate(starts):
            for last in range(first, len(starts)):
                allowed = burst + (starts[last] - start) * qps
                assert last - first + 1 <= allowed + 1e-6


class TestBackoff:
    def test_grows_to_the_cap_and_starts_again(self) -> None:
        backoff = Backoff(Random(1), initial=1, cap=10, factor=3, jitter=0)
        assert [backoff.next() for _ in range(4)] == [1, 3, 9, 10]
        backoff.reset()
        assert backoff.next() == 1

    @given(st.integers(0, 2**32), st.integers(1, 2000))
    def test_jitter_only_adds(self, seed: int, attempts: int) -> None:
        backoff = Backoff(Random(seed), initial=0.1, cap=5, jitter=0.5)
        backoff.attempts = attempts
        base = min(5, 0.1 * 2 ** min(attempts, 64))
        assert base <= backoff.next() < base * 1.5
