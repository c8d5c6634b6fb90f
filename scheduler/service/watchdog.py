"""Measures how late the event loop runs: what blocks it is visible as lag."""

from __future__ import annotations

import asyncio
from typing import Final, NoReturn

import structlog

from scheduler.service.metrics import SchedulerMetrics

_log = structlog.get_logger(__name__)

PERIOD_SECONDS: Final = 0.1
WORTH_A_LINE_SECONDS: Final = 1.0
"""Lag that is logged; shorter lags are in the metric."""


async def watch_loop_lag(metrics: SchedulerMetrics) -> NoReturn:
    """Sleep, and compare; until cancelled."""
    loop = asyncio.get_running_loop()
    while True:
        before = loop.time()
        await asyncio.sleep(PERIOD_SECONDS)
        lag = max(0.0, loop.time() - before - PERIOD_SECONDS)
        metrics.loop_lag(lag)
        if lag >= WORTH_A_LINE_SECONDS:
            _log.warning("event loop was blocked", seconds=round(lag, 3))
