"""Memory that is not used any more is returned."""

from __future__ import annotations

import asyncio
import gc
import platform
import weakref

import pytest

from scheduler.process.memory_upkeep import PERIOD_SECONDS, malloc_trim, return_memory
from tests.unit.client.virtual_clock import ManualClock


async def test_the_heap_is_trimmed_once_a_period() -> None:
    clock, trims = ManualClock(), []
    task = asyncio.create_task(return_memory(clock, lambda: trims.append(clock.monotonic())))
    started = clock.monotonic()
    await clock.advance(2.5 * PERIOD_SECONDS)
    assert trims == [started + PERIOD_SECONDS, started + 2 * PERIOD_SECONDS]
    task.cancel()


async def test_young_garbage_goes_also_where_the_heap_cannot_be_trimmed() -> None:
    class Cycle:
        def __init__(self) -> None:
            self.itself = self

    clock = ManualClock()
    task = asyncio.create_task(return_memory(clock, None))
    await clock.settle()
    gc.disable()
    try:
        garbage = weakref.ref(Cycle())
        assert garbage() is not None
        await clock.advance(PERIOD_SECONDS)
        assert garbage() is None
    finally:
        gc.enable()
        task.cancel()


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can")
def test_glibc_can_trim() -> None:
    trim = malloc_trim()
    assert trim is not None
    assert trim() in (0, 1)
