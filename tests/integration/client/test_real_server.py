"""The client against a real kube-apiserver: what no double can promise.

Out of scope: faults, which `faulty_server` injects more precisely; here only a crash and restart.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any, Self
from uuid import uuid4

import pytest

from devtools.control_plane.control_plane import ControlPlane
from scheduler.api.meta import Condition, Named
from scheduler.api.pod import Pod
from scheduler.client.binding import BindOutcome
from scheduler.client.clock import SystemClock
from scheduler.client.configuration import load_configuration
from scheduler.client.deltas import Delta, DeltaType, ReflectorOptions
from scheduler.client.dispatcher import Dispatcher
from scheduler.client.errors import ApiError
from scheduler.client.events import EventRecorder
from scheduler.client.leader_election import (
    LeaderElectionOptions,
    LeaderElector,
)
from scheduler.client.lease_lock import LeaseLock
from scheduler.client.reflector import Reflector
from scheduler.client.resources import EVENTS, LEASES, NAMESPACES, NODES, PODS, RESOURCES
from scheduler.client.rest import ApiClient
from scheduler.client.reviews import UserInfo, review_access, review_token
from scheduler.client.status_patch import (
    PodStatusPatch,
    concerns_another_pod,
    plan_status_patch,
    send_status_patch,
    version_of,
)
from scheduler.client.transport import Transport
from tests.integration.client.faulty_server import until
from tests.unit.client.lease_store import Pulse

pytestmark = pytest.mark.envtest

NOW = "2026-01-01T00:00:00Z"


@asynccontextmanager
async def connected(kubeconfig: Path) -> AsyncIterator[ApiClient]:
    configuration = await load_configuration(kubeconfig=str(kubeconfig), environ={})
    async with Transport(configuration) as transport:
        yield ApiClient(transport)


@pytest.fixture
async def client(control_plane: ControlPlane) -> AsyncIterator[ApiClient]:
    async with connected(control_plane.kubeconfig) as client:
        yield client


@pytest.fixture
async def namespace(client: ApiClient) -> str:
    name = f"client-{uuid4().hex[:8]}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    await client.create(NAMESPACES, body)
    return name


async def create_pod(client: ApiClient, namespace: str, name: str) -> Pod:
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "schedulerName": "nobody",
            "containers": [{"name": "c", "image": "i"}],
            "automountServiceAccountToken": False,
        },
    }
    return await client.create(PODS, body, namespace)


class Following:
    """A reflector and everything it delivered."""

    def __init__(self, client: ApiClient, namespace: str, **options: Any) -> None:
        self.deltas: list[Delta[Pod]] = []
        self.reflector = Reflector(
            client,
            PODS,
            self._take,
            options=ReflectorOptions(namespace=namespace, **options),
            random=Random(1),
        )

    def _take(self, batch: Sequence[Delta[Pod]]) -> None:
        self.deltas.extend(batch)

    @property
    def seen(self) -> list[tuple[str, str]]:
        return [(delta.type.value, delta.object.metadata.name) for delta in self.deltas]

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self.reflector.run())
        await until(self.reflector.synced.is_set)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


async def test_lists_in_pages_and_watches(client: ApiClient, namespace: str) -> None:
    for number in range(5):
        await create_pod(client, namespace, f"p{number}")
    async with Following(client, namespace, page_size=2) as following:
        assert sorted(following.seen) == [("ADDED", f"p{number}") for number in range(5)]
        await create_pod(client, namespace, "late")
        await client.delete(PODS, "p0", namespace, grace_period_seconds=0)
        await until(lambda: ("DELETED", "p0") in following.seen)
        assert ("ADDED", "late") in following.seen
        statistics = following.reflector.statistics()
    assert statistics.malformed == 0
    assert statistics.lists == 1
    assert statistics.ends == {}


async def test_every_kind_can_be_listed_and_watched(client: ApiClient) -> None:
    for resource in RESOURCES.values():
        reflector: Reflector[Any] = Reflector(client, resource, lambda _: None)
        task = asyncio.create_task(reflector.run())
        await until(lambda: reflector.statistics().watches)  # noqa: B023
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert reflector.statistics().malformed == 0, resource
        assert reflector.statistics().last_error == "", resource


async def test_a_version_that_the_server_never_had_is_listed_again(
    client: ApiClient, namespace: str
) -> None:
    await create_pod(client, namespace, "p")
    following = Following(client, namespace, idle_timeout=0.5)
    # As after etcd was restored from a backup: resuming would wait for ever.
    following.reflector._resource_version = "999999999"
    async with following:
        assert following.seen == [("ADDED", "p")]
    assert following.reflector.statistics().ends["idle_timeout"] == 1


async def test_binding_and_every_way_it_can_be_contested(client: ApiClient, namespace: str) -> None:
    async def bind(pod: Pod, node: str) -> BindOutcome:
        return (await Dispatcher(client, random=Random(1)).bind(pod, node)).outcome

    pod = await create_pod(client, namespace, "p")
    await client.bind(pod, "node-1", {"kubestow.io/test": "yes"})
    bound = await client.get(PODS, "p", namespace)
    assert bound.spec.node_name == "node-1"
    assert bound.metadata.annotations["kubestow.io/test"] == "yes"
    assert [(item.type, item.status) for item in bound.status.conditions] == [
        ("PodScheduled", "True")
    ]
    assert await bind(pod, "node-1") is BindOutcome.BOUND
    assert await bind(pod, "node-2") is BindOutcome.ELSEWHERE
    await client.delete(PODS, "p", namespace, uid=pod.uid, grace_period_seconds=0)
    assert await bind(pod, "node-1") is BindOutcome.GONE
    reborn = await create_pod(client, namespace, "p")
    assert await bind(pod, "node-1") is BindOutcome.GONE
    assert (await client.get(PODS, "p", namespace)).spec.node_name == ""
    assert await bind(reborn, "node-3") is BindOutcome.BOUND


async def test_status_patches(client: ApiClient, namespace: str) -> None:
    pod = await create_pod(client, namespace, "p")
    condition = Condition(
        type="PodScheduled", status="False", reason="Unschedulable", message="0/0 nodes"
    )
    patch = plan_status_patch(pod, condition, "node-1", NOW)
    assert patch is not None
    response = await send_status_patch(client, patch, Random(1))
    now = await client.get(PODS, "p", namespace)
    assert version_of(response) == now.metadata.resource_version
    # The response to a patch that changes nothing has the current version.
    assert version_of(await send_status_patch(client, patch, Random(1))) == version_of(response)
    assert now.status.nominated_node_name == "node-1"
    assert now.status.conditions[0].message == "0/0 nodes"
    assert now.status.conditions[0].last_transition_time == NOW
    assert plan_status_patch(now, condition, "node-1", NOW) is None
    clear = plan_status_patch(now, None, "", NOW)
    assert clear is not None
    await send_status_patch(client, clear, Random(1))
    assert (await client.get(PODS, "p", namespace)).status.nominated_node_name == ""
    # Another pod of this name must not get it.
    other = PodStatusPatch(namespace, "p", str(uuid4()), (condition,))
    with pytest.raises(ApiError) as caught:
        await send_status_patch(client, other, Random(1))
    assert concerns_another_pod(caught.value)


async def test_events_and_their_series(client: ApiClient, namespace: str) -> None:
    pod = await create_pod(client, namespace, "p")
    dispatcher = Dispatcher(client)
    recorder = EventRecorder(client, dispatcher, hostname="host")
    task = asyncio.create_task(recorder.run())
    for note in ("first", "x" * 2000):
        recorder.event(pod, None, "Warning", "FailedScheduling", "Scheduling", note, "kubestow")
        await until(lambda: recorder.statistics().sent and not recorder._busy)
    await until(lambda: recorder.statistics().sent == 2)
    recorder.event(pod, None, "Normal", "Scheduled", "Binding", "y" * 2000, "kubestow")
    await until(lambda: recorder.statistics().sent == 3)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    events = {event.reason: event for event in await client.list(EVENTS, namespace)}
    series = events["FailedScheduling"].series
    assert series is not None
    assert series.count == 2
    assert len(events["Scheduled"].note) == 1024
    assert recorder.statistics().failed == 0


async def test_leader_election(client: ApiClient, namespace: str) -> None:
    clock = SystemClock()

    def elector(name: str) -> LeaderElector:
        options = LeaderElectionOptions(
            name="lock", namespace=namespace, identity=name, retry_period=0.05
        )
        lock = LeaseLock(client.derive("leader-election"), "lock", namespace)
        return LeaderElector(lock, options, clock, Pulse(), random=Random(1))

    first, second = elector("first"), elector("second")
    await first.acquire()
    assert first.fence.allowed()
    waiting = asyncio.create_task(second.acquire())
    holding = asyncio.create_task(first.hold())
    times: set[str | None] = set()
    async with asyncio.timeout(60):
        while len(times) < 4:
            times.add((await client.get(LEASES, "lock", namespace)).spec.renew_time)
    assert not waiting.done()
    holding.cancel()
    await asyncio.gather(holding, return_exceptions=True)
    await first.release()
    await asyncio.wait_for(waiting, 60)
    lease = await client.get(LEASES, "lock", namespace)
    assert lease.spec.holder_identity == "second"
    assert lease.spec.lease_transitions == 1
    await second.release()


async def test_reviews(client: ApiClient, control_plane: ControlPlane) -> None:
    who = await review_token(client, control_plane.admin_token)
    assert who.authenticated
    assert (await review_access(client, who.user, path="/metrics", verb="get")).allowed
    stranger = UserInfo(username="stranger")
    review = await review_token(client, "wrong")
    assert not review.authenticated
    assert not (await review_access(client, stranger, path="/metrics", verb="get")).allowed


# The event loop may lose track of a transport whose server dies during the TLS handshake. Its
# socket warns when the collector finds it: here, or later, which tests/conftest.py prevents.
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
async def test_a_crash_and_restart_of_the_server_is_survived(
    fresh_control_plane: ControlPlane,
) -> None:
    async with connected(fresh_control_plane.kubeconfig) as client:
        await create_pod(client, "default", "before")
        async with Following(client, "default", backoff_cap=0.5) as following:
            await asyncio.to_thread(fresh_control_plane.kill_apiserver)
            await asyncio.to_thread(fresh_control_plane.start_apiserver)
            await create_pod(client, "default", "after")
            await until(lambda: ("ADDED", "after") in following.seen)
            types = {delta.type for delta in following.deltas}
    assert types == {DeltaType.ADDED}
    assert following.reflector.statistics().ends["disconnected"] >= 1


async def test_nodes_and_metadata_only(client: ApiClient) -> None:
    name = f"n-{uuid4().hex[:8]}"
    body = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi"}},
    }
    await client.create(NODES, body)
    node = await client.get(NODES, name)
    assert node.status.allocatable == {"cpu": "4", "memory": "8Gi"}
    assert Named(metadata=node.metadata).metadata.uid
    await client.delete(NODES, name)
