"""Responses of a process of a plugin reach the call that waits for them."""

from __future__ import annotations

import asyncio
import select

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
