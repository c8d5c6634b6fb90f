"""Work in slices: how much of it runs at once, and how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Generator

import pytest

from scheduler.explain.pages.slices import SLICE_SECONDS, in_slices
from tests.unit.queue.doubles import FakeClock


class Work:
    """Steps that each take a third of a slice, and the number of slices that they ran in."""

    def __init__(self, steps: int) -> None:
        self.clock = FakeClock()
        self.left = steps
        self.closed = False

    def steps(self) -> Generator[None, None, str]:
        try:
            while self.left:
                self.left -= 1
                self.clock.step(SLICE_SECONDS / 3)
                yield
            return "result"
        finally:
            self.closed = True


async def test_a_slice_ends_with_the_step_that_fills_it() -> None:
    work = Work(9)
    task = asyncio.create_task(in_slices(work.steps(), work.clock))
    seen = []
    while not task.done():
        seen.append(work.left)
        await asyncio.sleep(0)
    assert seen[:4] == [9, 6, 3, 0]
    assert task.result() == "result"


async def test_the_steps_are_closed_when_their_owner_is_cancelled() -> None:
    work = Work(9)
    task = asyncio.create_task(in_slices(work.steps(), work.clock))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (work.closed, work.left) == (True, 6)


async def test_an_error_of_a_step_is_raised() -> None:
    def steps() -> Generator[None, None, None]:
        yield
        raise ValueError("of a step")

    with pytest.raises(ValueError, match="of a step"):
        await in_slices(steps(), FakeClock())
