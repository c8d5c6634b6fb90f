"""Work that is cancelled from within begins again, or fails; nothing ends without a word."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

import pytest
from structlog.testing import capture_logs

from scheduler.service.background import BackgroundTasks
from scheduler.service.supervision import (
    FIRST_RESTART_SECONDS,
    LAST_RESTART_SECONDS,
    CancelledFromWithinError,
    Supervisor,
    in_own_task,
)
from tests.unit.client.virtual_clock import ManualClock

Work = Callable[[], Coroutine[Any, Any, None]]


def cancel_own_task() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()


async def cancelled_from_within() -> None:
    cancel_own_task()
    await asyncio.sleep(1)


async def raises_cancelled() -> None:
    raise asyncio.CancelledError


@pytest.mark.parametrize("work", [cancelled_from_within, raises_cancelled])
async def test_a_cancellation_from_within_is_an_error_of_the_work(work: Work) -> None:
    with pytest.raises(CancelledFromWithinError, match="reload: cancelled by code that it called"):
        await in_own_task(work(), "reload")
    task = asyncio.current_task()
    assert task is not None
    assert not task.cancelling()


async def test_a_cancellation_of_the_caller_cancels_the_work() -> None:
    ended = []

    async def work() -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            ended.append(True)

    caller = asyncio.create_task(in_own_task(work(), "work"))
    await asyncio.sleep(0.1)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert ended


async def test_results_and_errors_pass() -> None:
    async def returns() -> int:
        return 5

    async def raises() -> None:
        raise ValueError("x")

    assert await in_own_task(returns(), "work") == 5
    with pytest.raises(ValueError, match="x"):
        await in_own_task(raises(), "work")


class Begun:
    """Work that ends in a given way each time it begins."""

    def __init__(self, end: Work) -> None:
        self._end = end
        self.times: list[float] = []
        self.clock = ManualClock()

    async def run(self) -> None:
        self.times.append(self.clock.monotonic())
        await self._end()


async def raises() -> None:
    raise ValueError("no luck")


@pytest.mark.parametrize(
    ("end", "errors"), [(cancelled_from_within, False), (raises_cancelled, False), (raises, True)]
)
async def test_work_that_ends_unexpectedly_begins_again_later_each_time(
    end: Work, errors: bool
) -> None:
    work = Begun(end)
    supervisor = Supervisor(work.clock, Random(1))
    with capture_logs() as logs:
        task = asyncio.create_task(supervisor.keep(work.run, "reload", errors=errors))
        for _ in range(600):
            await work.clock.advance(1.0)
    waits = [later - earlier for earlier, later in zip(work.times, work.times[1:], strict=False)]
    assert (
        FIRST_RESTART_SECONDS <= waits[0] < waits[2] < waits[-1] <= 1.5 * LAST_RESTART_SECONDS + 1
    )
    assert len(logs) == len(work.times) > 5
    assert {(each["log_level"], each["task"]) for each in logs} == {("error", "reload")}
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_work_that_returns_or_raises_is_not_begun_again() -> None:
    async def returns() -> None:
        pass

    for end in (returns, raises):
        work = Begun(end)
        keeping = Supervisor(work.clock, Random(1)).keep(work.run, "work")
        if end is raises:
            with pytest.raises(ValueError, match="no luck"):
                await keeping
        else:
            await keeping
        assert len(work.times) == 1


async def test_background_work_that_is_cancelled_from_within_is_logged() -> None:
    background = BackgroundTasks()
    with capture_logs() as logs:
        background.start(cancelled_from_within(), "evict")
        await background.finished()
    assert [(each["event"], each["task"]) for each in logs] == [
        ("background work was cancelled from within", "evict")
    ]
    with capture_logs() as logs:
        background.start(asyncio.sleep(1000), "wait")
        await asyncio.sleep(0)
        await background.cancel()
    assert logs == []
