"""A bind whose outcome is unknown is settled by asking, never by guessing."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest
from aiohttp import web

from scheduler.api.meta import ObjectMeta
from scheduler.api.pod import Pod
from scheduler.client import binding
from scheduler.client.binding import BindOutcome, BindResult
from scheduler.client.dispatcher import Dispatcher
from scheduler.client.errors import NotLeader
from scheduler.client.rest import ApiClient
from scheduler.client.transport import Transport
from tests.integration.client.faulty_server import FaultyServer, Handler, pod
from tests.unit.client.virtual_clock import InstantClock

POD_PATH = "/api/v1/namespaces/default/pods/p"
BINDING_PATH = f"{POD_PATH}/binding"
POD = Pod(metadata=ObjectMeta(name="p", namespace="default", uid="uid-p"))


class PodOnServer:
    """The pod as the server has it; binding it is what a committed request does."""

    def __init__(self, server: FaultyServer, **fields: Any) -> None:
        self.json = pod("p", **fields)

        async def get(_: web.Request) -> web.StreamResponse:
            return web.json_response(self.json)

        server.on("GET", POD_PATH, get)

    def bind(self, _: web.Request) -> None:
        self.json = pod("p", "2", node_name="node-1")


async def bind(client: ApiClient) -> BindResult:
    async with asyncio.timeout(60):
        return await Dispatcher(client, random=Random(1)).bind(POD, "node-1")


async def test_a_success_needs_no_read(server: FaultyServer, client: ApiClient) -> None:
    server.on("POST", BINDING_PATH, server.json({}, 201))
    result = await bind(client)
    assert result.bound
    assert server.requests("GET") == []
    assert server.seen[0].query == {"timeout": "30s"}


@pytest.mark.parametrize("fault", ["cut", "hang"])
async def test_committed_but_the_response_was_lost(
    server: FaultyServer, transport: Transport, clock: InstantClock, fault: str
) -> None:
    state = PodOnServer(server)
    late = server.hang(state.bind, seconds=2.0)
    server.on("POST", BINDING_PATH, late if fault == "hang" else server.cut(state.bind))
    client = ApiClient(transport, clock=clock, bind_timeout=2.0)
    result = await bind(client)
    assert result.outcome is BindOutcome.BOUND
    assert len(server.requests("GET")) == 1
    assert clock.sleeps == [0.5]
    assert len(server.requests("POST")) == 1


@pytest.mark.parametrize(
    ("response", "then", "outcome"),
    [
        (409, {}, BindOutcome.UNBOUND),
        (409, {"node_name": "node-1"}, BindOutcome.BOUND),
        (409, {"node_name": "other"}, BindOutcome.ELSEWHERE),
        (409, {"uid": "reborn"}, BindOutcome.GONE),
        (409, {"uid": "reborn", "node_name": "node-1"}, BindOutcome.GONE),
        (504, {"node_name": "node-1"}, BindOutcome.BOUND),
        (404, {"uid": "reborn"}, BindOutcome.GONE),
        (404, {}, BindOutcome.UNBOUND),
    ],
)
async def test_an_error_is_settled_by_what_the_pod_is(
    server: FaultyServer,
    client: ApiClient,
    response: int,
    then: dict[str, str],
    outcome: BindOutcome,
) -> None:
    PodOnServer(server, **then)
    server.on("POST", BINDING_PATH, server.status(response))
    result = await bind(client)
    assert result.outcome is outcome
    assert len(server.requests("GET")) == 1
    assert str(response) in str(result.error)


@pytest.mark.parametrize(
    ("statuses", "binds", "bound"),
    [([500, 503], 3, True), ([503] * 4, 4, False), ([409], 1, False), ([422], 1, False)],
)
async def test_an_error_that_may_pass_is_retried_once_the_pod_is_seen_on_no_node(
    server: FaultyServer, client: ApiClient, statuses: list[int], binds: int, bound: bool
) -> None:
    PodOnServer(server)
    server.on("POST", BINDING_PATH, *map(server.status, statuses), server.json({}, 201))
    result = await bind(client)
    assert result.bound is bound
    assert len(server.requests("POST")) == binds


async def test_a_retry_ends_when_another_client_has_bound_the_pod(
    server: FaultyServer, client: ApiClient
) -> None:
    state = PodOnServer(server)

    def elsewhere(_: web.Request) -> None:
        state.json = pod("p", "2", node_name="other")

    server.on("POST", BINDING_PATH, server.status(500), server.cut(elsewhere))
    result = await bind(client)
    assert result.outcome is BindOutcome.ELSEWHERE
    assert len(server.requests("POST")) == 2


async def test_a_deleted_pod_is_gone(server: FaultyServer, client: ApiClient) -> None:
    server.on("POST", BINDING_PATH, server.status(404, "NotFound"))
    server.on("GET", POD_PATH, server.status(404, "NotFound"))
    assert (await bind(client)).outcome is BindOutcome.GONE


@pytest.mark.parametrize("status", [400, 403, 422])
async def test_a_refusal_is_certain(server: FaultyServer, client: ApiClient, status: int) -> None:
    server.on("POST", BINDING_PATH, server.status(status, message="no"))
    result = await bind(client)
    assert result.outcome is BindOutcome.UNBOUND
    assert server.requests("GET") == []


async def test_reads_are_repeated_until_one_succeeds(
    server: FaultyServer, client: ApiClient, clock: InstantClock
) -> None:
    bound = pod("p", node_name="node-1")
    failures: list[Handler] = [
        server.status(500),
        server.cut(),
        server.status(403),
        server.text(b"x"),
    ]
    server.on("POST", BINDING_PATH, server.status(500))
    server.on("GET", POD_PATH, *failures, server.json(bound))
    assert (await bind(client)).bound
    assert len(server.requests("GET")) >= 5
    assert clock.sleeps == sorted(clock.sleeps)


async def test_a_read_that_hangs_is_soon_repeated(
    server: FaultyServer, transport: Transport, clock: InstantClock
) -> None:
    server.on("POST", BINDING_PATH, server.status(500))
    late = server.hang(seconds=binding.SETTLE_TIMEOUT_SECONDS)
    server.on("GET", POD_PATH, late, server.json(pod("p", node_name="node-1")))
    assert (await bind(ApiClient(transport, clock=clock))).bound
    assert len(server.requests("GET")) == 2


async def test_a_shut_fence_is_a_certain_failure(
    server: FaultyServer, transport: Transport, clock: InstantClock
) -> None:
    class Shut:
        def allowed(self) -> bool:
            return False

    result = await bind(ApiClient(transport, clock=clock, fence=Shut()))
    assert result.outcome is BindOutcome.UNBOUND
    assert isinstance(result.error, NotLeader)
    assert server.seen == []
