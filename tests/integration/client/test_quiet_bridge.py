"""RC4: a quiet cluster is no fault: the bridge's four watches of Events without bookmarks."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from random import Random
from typing import Any, cast

from scheduler.client.dispatcher import Dispatcher
from scheduler.client.rest import ApiClient
from scheduler.client.watch_end import EndCause
from scheduler.controllers.node_provisioning.bridge import BridgeOptions, NodeProvisioningBridge
from scheduler.controllers.node_provisioning.decisions import Decisions
from scheduler.metrics import DEFINITIONS
from scheduler.metrics.families import Families
from scheduler.metrics.recorders import BridgeRecorder
from tests.integration.client.faulty_server import FaultyServer
from tests.integration.client.test_watches_without_bookmarks import PATH, quiet
from tests.unit.client.virtual_clock import InstantClock

STREAMS = 4
NAMESPACED = "/api/v1/namespaces/kube-system/events"


class Reports(BridgeRecorder):
    """Metrics that keep each report of being degraded."""

    def __init__(self) -> None:
        super().__init__(Families(DEFINITIONS))
        self.trouble: list[bool] = []

    def degraded(self, degraded: bool) -> None:
        self.trouble.append(degraded)


async def test_rc4_quiet_watches_are_no_trouble(
    server: FaultyServer, client: ApiClient, clock: InstantClock
) -> None:
    for path in (PATH, NAMESPACED):
        server.on("GET", path, server.page([], version="5"))
        server.on("WATCH", path, quiet(clock))
    reports = Reports()
    bridge = NodeProvisioningBridge(
        client,
        cast("Dispatcher", None),
        Decisions(names=("kubestow",), wanted=lambda _pod: True),
        options=BridgeOptions(always=True),
        metrics=reports,
        random=Random(1),
    )
    task = asyncio.create_task(bridge.run())

    def watched() -> dict[str, int]:
        """Return the number of times each stream was opened."""
        counts: dict[str, int] = {}
        for each in server.requests("WATCH"):
            selector = str(each.query["fieldSelector"])
            counts[selector] = counts.get(selector, 0) + 1
        return counts

    try:
        async with asyncio.timeout(60):
            while len(watched()) < STREAMS or min(watched().values()) < 3:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        streams: tuple[Any, ...] = bridge.statistics().streams
        assert all(set(stream.ends) <= {EndCause.CLOSED} for stream in streams)
        assert bridge.health() is None
        assert True not in reports.trouble
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
