"""The whole program: only the leader follows events, and the next one goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from devtools.embedded_service import configuration, until
from scheduler.process.application import Application
from scheduler.service.options import RunOptions, ServingOptions
from simulator import EmbeddedCluster, FaultRule
from tests.integration.node_provisioning.events import (
    NOT_TRIGGERED,
    TRIGGERED,
    emit,
    event,
    shown,
    waiting_pod,
)

SETTINGS = {
    "leaderElection": {
        "leaderElect": True,
        # The first gives the Lease back; long, so that no busy machine lets it expire before that.
        "leaseDuration": "100s",
        "renewDeadline": "50s",
        "retryPeriod": "200ms",
        "resourceNamespace": "default",
    },
    "kubestow": {"bindTimeout": "500ms", "nodeProvisioningBridge": {"mode": "On"}},
}
STREAMS = 4


@asynccontextmanager
async def running(cluster: EmbeddedCluster) -> AsyncIterator[tuple[Application, asyncio.Task[int]]]:
    loaded, registry = configuration((), SETTINGS)
    options = RunOptions(master=cluster.url, serving=ServingOptions(secure_port=0))
    application = Application(loaded, registry, options)
    task = asyncio.create_task(application.serve(handle_signals=False))
    try:
        yield application, task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_the_leader_follows_events_and_the_next_one_goes_on(
    cluster: EmbeddedCluster,
) -> None:
    cluster.faults.add(FaultRule(action="delay", verb="list", resource="events", seconds=0))

    def lists() -> int:
        return int(cluster.faults.describe()[0]["acted"])

    item = cluster.create(waiting_pod())
    async with running(cluster) as (first, first_run):
        await until(lambda: lists() == STREAMS, "the first leads")
        async with running(cluster) as (second, second_run):
            emit(cluster, event(item, "NotTriggerScaleUp", NOT_TRIGGERED))
            await until(lambda: shown(cluster) == ("False", "ScaleUpBackoff"))
            assert lists() == STREAMS, "the second only stands by"
            first.stop()
            assert await first_run == 0
            await until(lambda: lists() == 2 * STREAMS, "the second leads")
            emit(cluster, event(item, "TriggeredScaleUp", TRIGGERED))
            await until(lambda: shown(cluster) == ("True", "TriggeredScaleUp"))
            second.stop()
            assert await second_run == 0
