"""Changes of the holder of a Lease: a dead, a stuck and a suspended holder."""

from __future__ import annotations

import asyncio
import time
from random import Random

import pytest

from scheduler.client import clock as clocks
from scheduler.client.clock import LeaseClock
from scheduler.client.leader_election import LeaderElectionOptions, LeaderElector
from tests.unit.client.lease_store import Candidate, FakeLock, LeaseStore, Pulse, running
from tests.unit.client.virtual_clock import ManualClock

DURATION, RETRY = 15.0, 2.0


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store() -> LeaseStore:
    return LeaseStore()


def held_by_another(store: LeaseStore, renewed: str) -> None:
    spec = {"holderIdentity": "other", "leaseDurationSeconds": 15, "renewTime": renewed}
    store.write({**(store.lease or {"metadata": {}}), "spec": spec})


@pytest.mark.parametrize("seed", range(40))
async def test_a_dead_holder_is_replaced_after_its_duration_and_one_read(seed: int) -> None:
    """At the earliest 15 s after the last renewal, at the latest one longest pause later."""
    clock, store, random = ManualClock(), LeaseStore(), Random(seed)
    b = Candidate(f"b{seed}", store, clock)
    held_by_another(store, "2023-11-14T22:13:20.000000Z")
    async with running(b):
        await clock.advance(random.uniform(0, 10))
        held_by_another(store, "2023-11-14T22:13:30.000000Z")
        last_renewal = clock.monotonic()
        await clock.advance(DURATION - 0.001)
        assert not b.has_led()
        while not b.has_led():
            await clock.advance(0.01)
        taken_over = clock.monotonic() - last_renewal
    assert DURATION <= taken_over <= DURATION + 1.2 * RETRY + 0.02


async def test_the_last_read_is_at_the_moment_of_expiry(
    clock: ManualClock, store: LeaseStore
) -> None:
    held_by_another(store, "2023-11-14T22:13:20.000000Z")
    b = Candidate("b", store, clock)
    async with running(b):
        await clock.settle()
        await clock.advance(DURATION - 0.001)
        assert not b.has_led()
        await clock.advance(0.001)
        assert b.has_led()
        # Every 2 to 2.4 s until then.
        assert 8 <= b.lock.calls <= 10


async def test_a_released_lease_is_taken_with_the_next_read(
    clock: ManualClock, store: LeaseStore
) -> None:
    a, b = Candidate("a", store, clock), Candidate("b", store, clock)
    async with running(a) as (task,):
        await clock.advance(1)
        async with running(b):
            await clock.advance(5)
            task.cancel()
            await clock.advance(1.2 * RETRY)
            assert b.has_led()


async def test_a_candidate_backs_off_from_errors_as_upstream(
    clock: ManualClock, store: LeaseStore
) -> None:
    b = Candidate("b", store, clock)
    b.lock.fault = "refuse"
    async with running(b):
        await clock.advance(100)
        # Every 2 to 4.4 s.
        assert 100 / 4.4 <= b.lock.calls <= 100 / 2.4


class TestAStuckLeader:
    async def test_renews_while_the_heartbeat_is_young_enough(
        self, clock: ManualClock, store: LeaseStore
    ) -> None:
        a, b = Candidate("a", store, clock), Candidate("b", store, clock)
        async with running(a):
            await clock.advance(1)
            async with running(b):
                a.pulse.seconds = 60.0
                await clock.advance(300)
                assert a.may_write()
                assert not b.has_led()

    async def test_steps_down_without_releasing_the_lease(
        self, clock: ManualClock, store: LeaseStore
    ) -> None:
        a, b = Candidate("a", store, clock), Candidate("b", store, clock)
        async with running(a):
            await clock.advance(1)
            async with running(b):
                a.pulse.seconds = 60.5
                await clock.advance(RETRY)
                assert not a.may_write()
                assert a.lost is not None
                assert "no progress for 60s, it executes filter (slow.py:7)" in str(a.lost)
                # Not released: a write that was sent may still be under way.
                assert store.spec["holderIdentity"] == "a"
                await clock.advance(DURATION - RETRY - 0.001)
                assert not b.has_led()
                await clock.advance(RETRY + 1.2 * RETRY)
                assert b.has_led()

    async def test_leaves_the_lease_to_others_as_a_candidate(
        self, clock: ManualClock, store: LeaseStore
    ) -> None:
        a = Candidate("a", store, clock)
        a.pulse.seconds = RETRY + 0.1
        async with running(a):
            await clock.advance(20)
            assert not a.has_led()
            assert store.lease is None
            held_by_another(store, "2023-11-14T22:13:20.000000Z")
            await clock.advance(60)
            assert store.spec["holderIdentity"] == "other"
            a.pulse.seconds = 0.0
            await clock.advance(2.2 * RETRY)
            assert a.has_led()


class TestASuspendedMachine:
    """Timers stop while the clock of the Lease goes on: `jump` moves it without waking a task."""

    async def test_a_leader_writes_nothing_from_the_moment_it_wakes(
        self, clock: ManualClock, store: LeaseStore
    ) -> None:
        a = Candidate("a", store, clock)
        async with running(a):
            await clock.advance(5)
            clock.jump(10.0)
            assert not a.may_write()
            await clock.advance(RETRY)
            assert a.lost is not None

    async def test_a_response_from_before_does_not_open_the_fence(
        self, clock: ManualClock, store: LeaseStore
    ) -> None:
        """The renewal was sent before; the process that took over saw it as long ago as we."""
        requested, response = asyncio.Event(), asyncio.Event()

        class Late(FakeLock):
            async def _pass(self, verb: str, within: float) -> None:
                if verb == "PUT":
                    requested.set()
                    await response.wait()

        options = LeaderElectionOptions(identity="a")
        elector = LeaderElector(Late(store, clock), options, clock, Pulse())
        await elector.acquire()
        holding = asyncio.create_task(elector.hold())
        await clock.advance(RETRY)
        assert requested.is_set()
        clock.jump(60.0)
        response.set()
        await clock.settle()
        assert not elector.fence.allowed()
        with pytest.raises(Exception, match="not renewed within 10s"):
            await holding

    async def test_a_candidate_reads_again_before_it_counts_the_lease_as_expired(
        self, clock: ManualClock, store: LeaseStore
    ) -> None:
        held_by_another(store, "2023-11-14T22:13:20.000000Z")
        b = Candidate("b", store, clock)
        async with running(b):
            await clock.advance(5)
            clock.jump(100.0)
            held_by_another(store, "2023-11-14T22:15:04.000000Z")
            await clock.advance(DURATION - 0.001)
            assert not b.has_led()


class TestLeaseClock:
    def test_goes_on_while_the_machine_is_suspended(self, monkeypatch: pytest.MonkeyPatch) -> None:
        requested = []

        def gettime(clock: int) -> float:
            requested.append(clock)
            return 1234.5

        monkeypatch.setattr(time, "clock_gettime", gettime)
        monkeypatch.setattr(time, "CLOCK_BOOTTIME", 7, raising=False)
        assert clocks._boot_time_source()() == 1234.5
        assert set(requested) == {7}

    def test_is_the_monotonic_clock_where_there_is_no_other(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(time, "CLOCK_BOOTTIME", 999, raising=False)
        assert clocks._boot_time_source() is time.monotonic
        monkeypatch.delattr(time, "CLOCK_BOOTTIME")
        assert clocks._boot_time_source() is time.monotonic

    def test_never_goes_back(self) -> None:
        clock = LeaseClock()
        first = clock.monotonic()
        assert clock.monotonic() >= first
