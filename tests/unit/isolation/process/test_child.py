"""Responses of a process of a plugin reach the call that waits for them."""

from __future__ import annotations

import asyncio
import select

import pytest

from scheduler.isolation.process import child as module
from scheduler.isolation.process.child import ChildProcess
from scheduler.isolation.process.messages import Start


async def test_a_response_that_comes_as_its_call_is_cancelled_is_there_for_the_next_call() -> None:
    child = ChildProcess("example.com/Absent")
    try:
        child.send_start(Start("absent_module", "Absent", "default", b"", {}, 1 << 33))
        loop = asyncio.get_running_loop()
        first = asyncio.create_task(child.response())
        await asyncio.sleep(0)
        # Blocks the loop, which then finds the response and the cancellation in one iteration.
        select.select([child._socket], [], [], 60)
        loop.call_at(loop.time(), first.cancel)
        assert isinstance((await asyncio.gather(first, return_exceptions=True))[0], BaseException)
        async with asyncio.timeout(60):
            response = await child.response()
        assert "absent_module" in response.error
    finally:
        child.kill("the test is over")
        await child.wait()
        child.close()


async def test_it_has_ended_once_nothing_that_it_started_can_be_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks: list[bool] = []

    def end_marked(mark: str) -> bool:
        """Find processes whose environment cannot be read yet, twice."""
        looks.append(child.exited.done())
        return len(looks) < 3

    monkeypatch.setattr(module, "end_marked", end_marked)
    child = ChildProcess("example.com/Absent")
    child.kill("the test ends it")
    async with asyncio.timeout(60):
        await child.exited
    child.close()
    assert looks == [False] * 3


async def test_its_end_is_not_delayed_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[str] = []

    def end_marked(mark: str) -> bool:
        looks.append(mark)
        return True

    monkeypatch.setattr(module, "end_marked", end_marked)
    child = ChildProcess("example.com/Absent")
    child.kill("the test ends it")
    async with asyncio.timeout(60):
        await child.exited
    child.close()
    assert len(looks) == module.MAX_LOOKS
