"""A run without leader election beside a leader: it says so once, and starts all the same."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

import pytest
import structlog

from devtools.embedded_service import bound_to, node, pod, until
from scheduler.client.clock import micro_time
from scheduler.client.configuration import ClientConfiguration
from scheduler.client.rest import ApiClient
from scheduler.client.transport import Transport
from scheduler.process.leader_beside import MAX_HOLDER, WARNING, warn_of_leader
from simulator import EmbeddedCluster, FaultRule
from tests.integration.service.test_application import NO_ELECTION, running
from tests.unit.client.virtual_clock import InstantClock

LEASE: Final = ("default", "kubestow")


def lease(renewed: float | None, holder: str = "other_1", seconds: int = 15) -> dict[str, Any]:
    spec = {"holderIdentity": holder, "leaseDurationSeconds": seconds}
    if renewed is not None:
        spec["renewTime"] = micro_time(renewed)
    metadata = {"namespace": LEASE[0], "name": LEASE[1]}
    kind = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
    return {**kind, "metadata": metadata, "spec": spec}


@pytest.fixture
async def client(cluster: EmbeddedCluster) -> AsyncIterator[ApiClient]:
    async with Transport(ClientConfiguration(cluster.url)) as transport:
        yield ApiClient(transport, clock=InstantClock())


async def warnings(client: ApiClient) -> list[dict[str, Any]]:
    with structlog.testing.capture_logs() as logs:
        await warn_of_leader(client, *LEASE)
    return [dict(each) for each in logs if each["event"] == WARNING]


async def test_a_leader_is_named(client: ApiClient, cluster: EmbeddedCluster) -> None:
    cluster.create(lease(client.clock.now() - 14))
    (said,) = await warnings(client)
    assert (said["log_level"], said["lease"]) == ("warning", "default/kubestow")
    assert said["holder"] == "other_1"


@pytest.mark.parametrize(("age", "holder"), [(16, "other_1"), (1, ""), (None, "other_1")])
async def test_who_does_not_lead_is_not_mentioned(
    client: ApiClient, cluster: EmbeddedCluster, age: float | None, holder: str
) -> None:
    cluster.create(lease(None if age is None else client.clock.now() - age, holder))
    assert await warnings(client) == []


async def test_a_holder_is_cut(client: ApiClient, cluster: EmbeddedCluster) -> None:
    cluster.create(lease(client.clock.now(), "x" * 100_000))
    (said,) = await warnings(client)
    assert len(said["holder"]) == MAX_HOLDER


@pytest.mark.parametrize("code", [403, 500])
async def test_a_lease_that_cannot_be_read_is_not_mentioned(
    client: ApiClient, cluster: EmbeddedCluster, code: int
) -> None:
    cluster.create(lease(client.clock.now()))
    cluster.faults.add(FaultRule(action="error", verb="get", resource="leases", code=code))
    assert await warnings(client) == []


async def test_without_a_lease_nothing_is_said(client: ApiClient) -> None:
    assert await warnings(client) == []


async def test_a_run_looks_and_schedules_meanwhile(cluster: EmbeddedCluster) -> None:
    cluster.create(node("n1"))
    # The response never arrives.
    cluster.faults.add(FaultRule(action="silence", verb="get", resource="leases"))
    async with running(cluster, {**NO_ELECTION, "resourceNamespace": "default"}) as (app, run):
        await until(lambda: cluster.faults.describe()[0]["acted"] == 1, "the Lease is requested")
        cluster.create(pod("a"))
        await until(lambda: bound_to(cluster, "a") == "n1", "the pod is bound")
        app.stop()
        assert await run == 0
