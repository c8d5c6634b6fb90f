"""Writes of plugins: what they send, and the errors by which plugins tell failures apart."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from random import Random
from typing import Any

import pytest

from scheduler.client.configuration import ClientConfiguration
from scheduler.client.dispatcher import Dispatcher
from scheduler.client.errors import ApiError, NotLeader
from scheduler.client.fence import Fence, OpenFence
from scheduler.client.rest import ApiClient
from scheduler.client.transport import Transport
from scheduler.framework import ApiWriter, OutcomeUnknownError, WriteConflictError
from scheduler.metrics import SchedulerMetrics
from scheduler.service.api_writer import ServiceApiWriter
from scheduler.service.binding_slots import BindingSlots
from scheduler.service.object_waits import ObjectWaits
from scheduler.service.subscriptions import SubscriptionBoard
from simulator import EmbeddedCluster, FaultRule

CLAIMS = "resourceclaims"
RESERVED = [{"resource": "pods", "name": each, "uid": each} for each in ("a", "b")]
ALLOCATION = {"devices": {"results": [{"request": "r", "driver": "d", "pool": "p", "device": "x"}]}}
REQUEST = {"name": "r", "exactly": {"deviceClassName": "gpu"}}


class ShutFence:
    """A fence of a replica that does not lead."""

    def allowed(self) -> bool:
        return False


def claim(**metadata: Any) -> dict[str, Any]:
    return {"metadata": metadata, "spec": {"devices": {"requests": [REQUEST]}}}


def writer_over(transport: Transport, fence: Fence | None = None) -> ApiWriter:
    client = ApiClient(transport, fence=fence or OpenFence())
    waits = ObjectWaits(SubscriptionBoard(), BindingSlots(1, asyncio.Event()))
    return ServiceApiWriter(
        client, Dispatcher(client, fence=fence), SchedulerMetrics(), waits, Random(1)
    )


@pytest.fixture
async def transport(cluster: EmbeddedCluster) -> AsyncIterator[Transport]:
    async with Transport(ClientConfiguration(server=cluster.url)) as opened:
        yield opened


@pytest.fixture
def api(transport: Transport) -> ApiWriter:
    return writer_over(transport)


async def test_a_created_object_has_the_name_that_the_server_chose(api: ApiWriter) -> None:
    made = await api.create(CLAIMS, "default", claim(generateName="p-extended-resources-"))
    assert made.metadata.name.startswith("p-extended-resources-")
    assert made.spec.devices.requests[0].name == "r"
    found = await api.get(CLAIMS, made.metadata.name, "default")
    assert found is not None
    assert found.metadata.uid == made.metadata.uid
    await api.delete(CLAIMS, made.metadata.name, "default", made.metadata.uid)
    assert await api.get(CLAIMS, made.metadata.name, "default") is None


async def test_a_version_in_a_patch_makes_any_change_since_a_conflict(api: ApiWriter) -> None:
    made = await api.create(CLAIMS, "default", claim(name="c"))
    seen = {"resourceVersion": made.metadata.resource_version, "uid": made.metadata.uid}
    finalizers = {"metadata": {**seen, "finalizers": ["resource.kubernetes.io/delete-protection"]}}
    changed = await api.patch(CLAIMS, "c", "default", finalizers)
    assert changed.metadata.finalizers == ("resource.kubernetes.io/delete-protection",)
    status = {"metadata": seen, "status": {"allocation": ALLOCATION, "reservedFor": RESERVED}}
    with pytest.raises(WriteConflictError) as refused:
        await api.patch(CLAIMS, "c", "default", status, "status")
    assert refused.value.status == 409
    newest = {**seen, "resourceVersion": changed.metadata.resource_version}
    allocated = await api.patch(CLAIMS, "c", "default", {**status, "metadata": newest}, "status")
    assert allocated.status.allocation.devices.results[0].device == "x"


async def test_a_strategic_patch_removes_one_consumer(api: ApiWriter) -> None:
    await api.create(CLAIMS, "default", claim(name="c"))
    status = {"status": {"allocation": ALLOCATION, "reservedFor": RESERVED}}
    await api.patch(CLAIMS, "c", "default", status, "status")
    removal = {"status": {"reservedFor": [{"$patch": "delete", "uid": "a"}]}}
    left = await api.patch(CLAIMS, "c", "default", removal, "status", strategic=True)
    assert [each.name for each in left.status.reserved_for] == ["b"]


async def test_an_object_that_is_gone_is_a_conflict(api: ApiWriter) -> None:
    with pytest.raises(WriteConflictError) as refused:
        await api.patch(CLAIMS, "gone", "default", {"metadata": {"labels": {"a": "b"}}})
    assert refused.value.status == 404
    with pytest.raises(WriteConflictError):
        await api.delete(CLAIMS, "gone", "default")


async def test_a_lost_response_leaves_the_outcome_open(
    cluster: EmbeddedCluster, api: ApiWriter
) -> None:
    cluster.faults.add(FaultRule(action="drop-answer", verb="create", resource=CLAIMS))
    with pytest.raises(OutcomeUnknownError):
        await api.create(CLAIMS, "default", claim(name="c"))
    assert await api.get(CLAIMS, "c", "default") is not None, "it was executed"


async def test_a_server_error_leaves_the_outcome_open_and_a_rejection_does_not(
    cluster: EmbeddedCluster, api: ApiWriter
) -> None:
    cluster.faults.add(FaultRule(action="error", verb="create", resource=CLAIMS, times=1))
    with pytest.raises(OutcomeUnknownError):
        await api.create(CLAIMS, "default", claim(name="c"))
    cluster.faults.add(FaultRule(action="error", verb="create", resource=CLAIMS, code=403))
    with pytest.raises(ApiError):
        await api.create(CLAIMS, "default", claim(name="c"))


async def test_a_replica_that_does_not_lead_writes_nothing(
    cluster: EmbeddedCluster, transport: Transport
) -> None:
    api = writer_over(transport, ShutFence())
    with pytest.raises(NotLeader):
        await api.create(CLAIMS, "default", claim(name="c"))
    assert await api.get(CLAIMS, "c", "default") is None
