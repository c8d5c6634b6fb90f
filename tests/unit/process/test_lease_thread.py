"""The thread that renews the Lease, against a store in memory. Only events decide when it goes on.

Where a test blocks the event loop on purpose, it does so by waiting for the thread.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest

from scheduler.client.clock import LeaseClock
from scheduler.client.configuration import ClientConfiguration
from scheduler.client.leader_election import (
    LeaderElectionOptions,
    LeaderElector,
    LeadershipLostError,
)
from scheduler.client.metrics import NullMetrics
from scheduler.client.transport import Transport
from scheduler.process.lease_thread import THREAD_NAME, LeaseThread, PostedMetrics
from scheduler.process.watchdog import LoopHeartbeat
from tests.unit.client.lease_store import LeaseStore
from tests.unit.client.virtual_clock import ManualClock

PATIENCE_SECONDS: Final = 60.0


class Lock:
    """The store, as the thread reaches it."""

    def __init__(self) -> None:
        self.store = LeaseStore()
        self.renewals = 0
        self.renewed = threading.Event()
        self.threads: set[str] = set()
        self.on_replace: Callable[[], None] = lambda: None
        #: Calls that hang for ever, and notice it.
        self.hang: list[threading.Event] = []

    async def get(self, within: float) -> dict[str, Any] | None:
        self.threads.add(threading.current_thread().name)
        return self.store.lease

    async def create(self, spec: Mapping[str, Any], within: float) -> dict[str, Any]:
        return self.store.write({"metadata": {}, "spec": dict(spec)})

    async def replace(self, lease: Mapping[str, Any], within: float) -> dict[str, Any]:
        self.on_replace()
        if self.hang:
            self.hang.pop(0).set()
            await asyncio.Event().wait()
        self.renewals += 1
        if self.renewals == 3:
            self.renewed.set()
        return self.store.write(lease)


class Pulse:
    """A heartbeat of the age that the test sets; `located` is set when `where` is called."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.located = threading.Event()

    def age(self) -> float:
        return self.seconds

    def where(self) -> str:
        self.located.set()
        return "here"


class Stage:
    """One candidate that renews as fast as it can."""

    def __init__(self, metrics: NullMetrics | None = None) -> None:
        self.lock = Lock()
        self.pulse = Pulse()
        options = LeaderElectionOptions(identity="a", retry_period=0.001)
        home = asyncio.get_running_loop()
        self.elector = LeaderElector(
            self.lock,
            options,
            LeaseClock(),
            self.pulse,
            metrics=None if metrics is None else PostedMetrics(metrics, home),
        )
        nowhere = Transport(ClientConfiguration(server="http://127.0.0.1:9"))
        self.thread = LeaseThread(self.elector, nowhere)

    @property
    def holder(self) -> object:
        return self.lock.store.spec["holderIdentity"]


def block_until(event: threading.Event) -> None:
    """Keep the event loop from running, as a plugin might."""
    assert event.wait(PATIENCE_SECONDS)


def lease_threads() -> int:
    return sum(each.name == THREAD_NAME for each in threading.enumerate())


async def test_the_lease_is_renewed_while_the_event_loop_is_blocked() -> None:
    stage = Stage()

    async def lead() -> None:
        block_until(stage.lock.renewed)
        assert stage.thread.leading

    await stage.thread.run(lead)
    assert stage.lock.renewals >= 3
    assert stage.holder == "", "released"
    assert stage.lock.threads == {THREAD_NAME}
    assert not stage.thread.fence.allowed()
    assert not lease_threads()


async def test_a_loop_that_is_stuck_gives_way_and_writes_nothing_when_it_comes_back() -> None:
    stage = Stage()
    came_back: list[bool] = []

    async def lead() -> None:
        stage.pulse.seconds = 61.0
        block_until(stage.pulse.located)
        came_back.append(stage.thread.fence.allowed())
        await asyncio.Event().wait()

    with pytest.raises(LeadershipLostError, match="no progress for 61s, it executes here"):
        await stage.thread.run(lead)
    assert came_back == [False]
    assert stage.holder == "a", "others wait for its end"
    assert not lease_threads()


async def test_nothing_begins_after_the_lease_was_won_and_lost_unseen() -> None:
    stage = Stage()
    stage.lock.on_replace = lambda: setattr(stage.pulse, "seconds", 61.0)

    async def lead() -> None:
        raise AssertionError("must not begin")

    running = asyncio.create_task(stage.thread.run(lead))
    # The thread is started in the task's first step; both of its messages come meanwhile.
    asyncio.get_running_loop().call_soon(block_until, stage.pulse.located)
    asyncio.get_running_loop().call_soon(_join_lease_thread)
    with pytest.raises(LeadershipLostError):
        await running


def _join_lease_thread() -> None:
    for each in threading.enumerate():
        if each.name == THREAD_NAME:
            each.join(PATIENCE_SECONDS)


async def test_an_error_of_what_leads_comes_out_and_releases() -> None:
    stage = Stage()

    async def fails() -> None:
        raise LookupError("broken")

    with pytest.raises(LookupError, match="broken"):
        await stage.thread.run(fails)
    assert stage.holder == ""
    assert not lease_threads()


async def test_an_error_in_the_thread_comes_out() -> None:
    stage = Stage()

    def fail() -> None:
        raise LookupError("a bug")

    stage.lock.on_replace = fail
    with pytest.raises(LookupError, match="a bug"):
        await stage.thread.run(asyncio.Event().wait)  # type: ignore[arg-type]
    assert not stage.thread.fence.allowed()
    assert not lease_threads()


async def test_a_candidate_that_is_told_to_stop_leaves_the_lease_alone() -> None:
    stage = Stage()
    stage.lock.store.write({"metadata": {}, "spec": {"holderIdentity": "other"}})
    running = asyncio.create_task(stage.thread.run(asyncio.Event().wait))  # type: ignore[arg-type]
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert stage.holder == "other"
    assert not lease_threads()


async def test_what_leads_ends_before_the_lease_is_released() -> None:
    stage = Stage()
    begun = asyncio.Event()
    last: list[tuple[bool, object]] = []

    async def lead() -> None:
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            stage.lock.renewals = 0
            stage.lock.renewed.clear()
            block_until(stage.lock.renewed)
            last.append((stage.thread.leading, stage.holder))

    running = asyncio.create_task(stage.thread.run(lead))
    await begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert last == [(True, "a")]
    assert stage.holder == ""


async def test_a_release_that_hangs_is_given_up_when_hurried() -> None:
    stage = Stage()

    renewal, release = threading.Event(), threading.Event()

    async def lead() -> None:
        stage.lock.hang = [renewal, release]
        block_until(renewal)

    running = asyncio.create_task(stage.thread.run(lead))
    await asyncio.to_thread(block_until, release)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not lease_threads()


async def test_metrics_are_written_by_the_thread_that_owns_them() -> None:
    reports: list[tuple[str, bool, int]] = []

    class Metrics(NullMetrics):
        def leader(self, name: str, leading: bool) -> None:
            reports.append((name, leading, threading.get_ident()))

    stage = Stage(Metrics())

    async def lead() -> None:
        return None

    await stage.thread.run(lead)
    here = threading.get_ident()
    assert reports == [("kubestow", True, here), ("kubestow", False, here)]


class TestLoopHeartbeat:
    def test_counts_from_the_last_beat(self) -> None:
        clock = ManualClock()
        heartbeat = LoopHeartbeat(clock)
        clock.jump(5.0)
        assert heartbeat.age() == 5.0
        heartbeat.beat()
        assert heartbeat.age() == 0.0

    def test_shows_from_another_thread_what_the_loop_executes(self) -> None:
        heartbeat = LoopHeartbeat(ManualClock())
        seen: list[str] = []
        begun, looked = threading.Event(), threading.Event()

        def look() -> None:
            block_until(begun)
            seen.append(heartbeat.where())
            looked.set()

        thread = threading.Thread(target=look)
        thread.start()

        def expensive_filter() -> None:
            heartbeat.beat()
            begun.set()
            block_until(looked)

        expensive_filter()
        thread.join()
        assert "called by block_until (" in seen[0]
        assert "called by expensive_filter (" in seen[0]
