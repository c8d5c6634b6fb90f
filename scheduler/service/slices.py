"""Work on the event loop in slices, so that scheduling and other requests go on in between."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Final, TypeVar

from scheduler.framework import Clock

T = TypeVar("T")

SLICE_SECONDS: Final = 0.002
"""After which no further step is begun: with one more step, less than 5 ms in all."""


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
        # What the caller does with it begins a slice of its own.
        await asyncio.sleep(0)
    finally:
        steps.close()
    return found
