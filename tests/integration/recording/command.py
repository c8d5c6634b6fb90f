"""The command `kubestow record` while pods are made."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final

from devtools.embedded_service import bound_to
from scheduler.recording.streams import TIME_LIMIT
from tests.integration.explain.conftest import Site

PLACED: Final = 10
"""Pods that are made and bound while a recording lasts."""


async def record(site: Site, path: Path, make: Callable[[int], str], *options: str) -> str:
    """Record as if the time were over when enough pods are bound; return the output.

    `make` creates a pod and returns its name: from before the recording on, so that it may begin
    while a pod is being bound, and to its end, one for each request to the scheduler.
    """
    output = site.output("record", "--for", "60s", "-o", str(path), *options)
    task, number = asyncio.create_task(output), 0
    recorded: list[str] = []
    while not task.done():
        name = make(number)
        reloader = site.application.reloader
        assert reloader is not None
        if (journal := reloader.wiring.state.reports.observer) is not None:
            recorded.append(name)
            if sum(bool(bound_to(site.cluster, each)) for each in recorded) >= PLACED:
                journal.end(TIME_LIMIT)
        await site.get("/debug/statistics")
        number += 1
    return await task
