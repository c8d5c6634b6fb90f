"""Time slices for long work on the event loop, so that scheduling and requests run in between."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Final, TypeVar

from scheduler.framework import Clock

T = TypeVar("T")

SLICE_SECONDS: Final = 0.002
"""Time after which a slice begins no further step; with its last step it takes less than 5 ms."""


async def in_slices(steps: Generator[None, None, T], clock: Clock) -> T:
    """Run a generator to its end and return its value; other tasks run after each slice."""
    try:
        while True:
            end = clock.monotonic() + SLICE_SECONDS
            try:
                next(steps)
                while clock.monotonic() < end:
                    next(steps)
            except StopIteration as finished:
                found: T = finished.value
                break
            await asyncio.sleep(0)
        # The caller's use of the value begins a new slice.
        await asyncio.sleep(0)
    finally:
        steps.close()
    return found
