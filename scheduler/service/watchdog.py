"""Monitoring of the event loop: its lag, and whether it runs at all.

A short block of the loop shows as lag, in a metric. A permanent one is detected by the thread that
renews the Lease, from the heartbeat.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import traceback
from typing import Final, NoReturn

import structlog

from scheduler.client.clock import Clock
from scheduler.metrics import SchedulerMetrics

_log = structlog.get_logger(__name__)

PERIOD_SECONDS: Final = 0.1
WORTH_A_LINE_SECONDS: Final = 1.0
"""Lag that is logged; shorter lags are in the metric."""

DEEPEST_FRAMES: Final = 4
"""Of the stack of a loop that is stuck; enough to see which plugin called what."""


class LoopHeartbeat:
    """Heartbeat of the event loop: `beat` on the loop, `age` and `where` in any thread."""

    __slots__ = ("_clock", "_last", "_thread")

    def __init__(self, clock: Clock) -> None:
        """Start as alive now; `clock` is that of the fence."""
        self._clock = clock
        self._last = clock.monotonic()
        self._thread = threading.get_ident()

    def beat(self) -> None:
        """Record that the event loop runs, in the calling thread."""
        self._thread = threading.get_ident()
        self._last = self._clock.monotonic()

    def age(self) -> float:
        """Return the seconds since the last beat."""
        return self._clock.monotonic() - self._last

    def where(self) -> str:
        """Return the innermost frames of the loop's thread, deepest first, without values."""
        frame = sys._current_frames().get(self._thread)  # noqa: SLF001 - documented, despite its name
        stack = traceback.StackSummary.extract(
            traceback.walk_stack(frame), limit=DEEPEST_FRAMES, lookup_lines=False
        )
        if frame is None or not stack:
            return "nothing"
        return ", called by ".join(f"{each.name} ({each.filename}:{each.lineno})" for each in stack)


async def watch_loop(metrics: SchedulerMetrics, heartbeat: LoopHeartbeat) -> NoReturn:
    """Sleep, beat, and compare; until cancelled."""
    loop = asyncio.get_running_loop()
    while True:
        before = loop.time()
        await asyncio.sleep(PERIOD_SECONDS)
        heartbeat.beat()
        lag = max(0.0, loop.time() - before - PERIOD_SECONDS)
        metrics.loop_lag(lag)
        if lag >= WORTH_A_LINE_SECONDS:
            _log.warning("event loop was blocked", seconds=round(lag, 3))
