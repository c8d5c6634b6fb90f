"""The verbs over a real socket: what is sent, and what each fault becomes."""

from __future__ import annotations

import asyncio
import gc
import weakref
from pathlib import Path
from random import Random

import pytest
from aiohttp import web

from scheduler.api.meta import ObjectMeta
from scheduler.api.node import Node
from scheduler.api.pod import Pod
from scheduler.cli import quota_requests
from scheduler.client import paging, rest
from scheduler.client.configuration import ClientConfiguration
from scheduler.client.credentials import Issued, IssuedCredentials, TokenFileCredentials
from scheduler.client.errors import (
    ApiError,
    ConnectionFailed,
    MalformedResponse,
    NotLeader,
    RequestError,
    RequestTimeout,
)
from scheduler.client.lease_lock import LeaseLock
from scheduler.client.rate_limit import RateLimiter
from scheduler.client.resources import EVENTS, NODES, PODS
from scheduler.client.rest import ApiClient
from scheduler.client.reviews import UserInfo, review_access, review_token
from scheduler.client.status_patch import PodStatusPatch, send_status_patch, version_of
from scheduler.client.transport import Transport
from tests.integration.client.faulty_server import FaultyServer, Handler, node, pod, until
from tests.unit.client.deep_objects import deep_fields, deep_json
from tests.unit.client.virtual_clock import InstantClock

NODE_PATH = "/api/v1/nodes/a"
BINDING_PATH = "/api/v1/namespaces/default/pods/p/binding"


def a_pod() -> Pod:
    return Pod(metadata=ObjectMeta(name="p", namespace="default", uid="u1"))


class ShutFence:
    def allowed(self) -> bool:
        return False


async def test_a_refused_request_leaves_no_cycle_that_holds_its_callers(
    server: FaultyServer, client: ApiClient
) -> None:
    server.on("GET", NODE_PATH, server.status(404, "NotFound"))
    gc.collect()
    gc.disable()
    try:
        with pytest.raises(ApiError) as caught:
            await client.get(NODES, "a")
        error = weakref.ref(caught.value)
        del caught
        assert error() is None
    finally:
        gc.enable()


async def test_get_decodes_into_the_struct(server: FaultyServer, client: ApiClient) -> None:
    server.on("GET", NODE_PATH, server.json(node("a", spec={"unschedulable": True})))
    got = await client.get(NODES, "a")
    assert isinstance(got, Node)
    assert got.spec.unschedulable
    headers = server.seen[0].headers
    assert headers["Accept"] == "application/json"
    assert headers["Accept-Encoding"] == "identity"
    assert headers["User-Agent"] == "kubestow"


async def test_names_are_quoted_in_paths(server: FaultyServer, client: ApiClient) -> None:
    server.on("GET", "/api/v1/nodes/a/../b?c", server.json(node("x")))
    await client.get(NODES, "a/../b?c")
    assert server.seen[0].path == "/api/v1/nodes/a/../b?c"


async def test_list_follows_continue_tokens(server: FaultyServer, client: ApiClient) -> None:
    server.on(
        "GET",
        "/api/v1/nodes",
        server.page([node("a")], continue_token="more/+="),
        server.page([node("b")]),
    )
    items = await client.list(NODES)
    assert [item.name for item in items] == ["a", "b"]
    first, second = server.seen
    assert first.query == {"limit": "500"}
    assert second.query["continue"] == "more/+="


async def test_bind_sends_the_binding_with_uid_and_annotations(
    server: FaultyServer, client: ApiClient
) -> None:
    server.on("POST", BINDING_PATH, server.json({"kind": "Status", "status": "Success"}, 201))
    await client.bind(a_pod(), "node-1", {"k": "v"})
    await client.bind(a_pod(), "node-2")
    assert server.seen[0].json == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "p", "namespace": "default", "uid": "u1", "annotations": {"k": "v"}},
        "target": {"kind": "Node", "name": "node-1"},
    }
    assert "annotations" not in server.seen[1].json["metadata"]
    assert server.seen[0].headers["Content-Type"] == "application/json"


async def test_create_adds_kind_and_version(server: FaultyServer, client: ApiClient) -> None:
    path = "/apis/events.k8s.io/v1/namespaces/default/events"
    server.on("POST", path, server.json({"metadata": {"name": "e"}}, 201))
    await client.create(EVENTS, EVENTS.encode(EVENTS.type(reason="Scheduled")), "default")
    sent = server.seen[0].json
    assert (sent["apiVersion"], sent["kind"], sent["reason"]) == (
        "events.k8s.io/v1",
        "Event",
        "Scheduled",
    )


async def test_patch_names_its_type(server: FaultyServer, client: ApiClient) -> None:
    path = "/api/v1/namespaces/default/pods/p/status"
    server.on("PATCH", path, server.json(pod("p")))
    await client.patch(PODS, "p", "default", body={"status": {}}, subresource="status")
    assert server.seen[0].headers["Content-Type"] == "application/strategic-merge-patch+json"


async def test_delete_sends_preconditions(server: FaultyServer, client: ApiClient) -> None:
    path = "/api/v1/namespaces/default/pods/p"
    server.on("DELETE", path, server.json(pod("p")))
    await client.delete(PODS, "p", "default", uid="u1", grace_period_seconds=0)
    body = server.seen[0].json
    assert body["preconditions"] == {"uid": "u1"}
    assert body["gracePeriodSeconds"] == 0


async def test_error_responses_carry_the_status(server: FaultyServer, client: ApiClient) -> None:
    server.on("GET", NODE_PATH, server.status(404, "NotFound", 'nodes "a" not found'))
    with pytest.raises(ApiError) as caught:
        await client.get(NODES, "a")
    assert (caught.value.status, caught.value.reason) == (404, "NotFound")
    assert str(caught.value) == f'GET {NODE_PATH}: 404 NotFound: nodes "a" not found'
    assert not caught.value.outcome_unknown


async def test_an_error_that_is_no_status_keeps_its_text(
    server: FaultyServer, client: ApiClient
) -> None:
    server.on("GET", NODE_PATH, server.text(b"<html>bad gateway</html>", 502))
    with pytest.raises(ApiError, match="502 BadGateway: <html>bad gateway</html>"):
        await client.get(NODES, "a")


@pytest.mark.parametrize("body", [b"nonsense", b"[]", b'{"metadata":{"name":7}}'])
async def test_an_unreadable_success_names_the_path(
    server: FaultyServer, client: ApiClient, body: bytes
) -> None:
    server.on("GET", NODE_PATH, server.text(body))
    with pytest.raises(MalformedResponse, match="GET /api/v1/nodes/a: not a Node"):
        await client.get(NODES, "a")


async def test_nulls_for_empty_slices_are_read_as_absent(
    server: FaultyServer, client: ApiClient
) -> None:
    server.on("GET", NODE_PATH, server.json(node("a", spec={"taints": None}, status=None)))
    assert (await client.get(NODES, "a")).spec.taints == ()


class TestUnknownOutcomes:
    """Settling depends on whether a failed bind may have been executed."""

    @pytest.mark.parametrize(
        ("fault", "kind", "unknown"),
        [
            ("cut", ConnectionFailed, True),
            ("hang", RequestTimeout, True),
            (500, ApiError, True),
            (504, ApiError, True),
            (409, ApiError, True),
            (404, ApiError, False),
            (403, ApiError, False),
            (422, ApiError, False),
        ],
    )
    async def test_after_a_response_or_none(
        self,
        server: FaultyServer,
        transport: Transport,
        fault: str | int,
        kind: type[RequestError],
        unknown: bool,
    ) -> None:
        handlers: dict[str | int, Handler] = {"cut": server.cut(), "hang": server.hang(seconds=2.0)}
        server.on("POST", BINDING_PATH, handlers.get(fault) or server.status(int(fault)))
        client = ApiClient(transport, bind_timeout=2.0)
        with pytest.raises(kind) as caught:
            await client.bind(a_pod(), "n")
        assert caught.value.outcome_unknown is unknown
        assert caught.value.method == "POST"
        assert caught.value.path == BINDING_PATH

    async def test_a_closed_port_is_certain(self) -> None:
        async with Transport(ClientConfiguration("http://127.0.0.1:1")) as closed:
            with pytest.raises(ConnectionFailed) as caught:
                await ApiClient(closed).bind(a_pod(), "n")
        assert caught.value.refused
        assert not caught.value.outcome_unknown


class TestRetriesOfRequestsThatWereNotCarriedOut:
    async def test_429_is_retried_after_the_demanded_delay(
        self, server: FaultyServer, client: ApiClient, clock: InstantClock
    ) -> None:
        server.on(
            "POST",
            BINDING_PATH,
            server.status(429, headers={"Retry-After": "3"}),
            server.json({}, 201),
        )
        await client.bind(a_pod(), "n")
        assert clock.sleeps == [3.0]
        assert len(server.seen) == 2

    async def test_endless_429_ends(
        self, server: FaultyServer, client: ApiClient, clock: InstantClock
    ) -> None:
        server.on("GET", NODE_PATH, server.status(429, headers={"Retry-After": "1"}))
        with pytest.raises(ApiError, match="429"):
            await client.get(NODES, "a")
        assert len(server.seen) == 10

    async def test_401_reads_the_rotated_token_and_tries_again(
        self, server: FaultyServer, clock: InstantClock, tmp_path: Path
    ) -> None:
        token = tmp_path / "token"
        token.write_text("old\n")
        credentials = TokenFileCredentials(token, clock)
        configuration = ClientConfiguration(server.url, credentials=credentials)
        server.on("GET", NODE_PATH, server.status(401), server.json(node("a")))
        token.write_text("new\n")
        async with Transport(configuration) as transport:
            await ApiClient(transport, clock=clock).get(NODES, "a")
        assert [seen.headers["Authorization"] for seen in server.seen] == [
            "Bearer old",
            "Bearer new",
        ]

    async def test_401_to_a_token_that_was_replaced_meanwhile_needs_no_renewal(
        self, server: FaultyServer, clock: InstantClock, tmp_path: Path
    ) -> None:
        class Counted(TokenFileCredentials):
            renewals = 0

            async def renew(self) -> None:
                self.renewals += 1
                await super().renew()

        gate = asyncio.Event()

        async def late(_: web.Request) -> web.StreamResponse:
            await gate.wait()
            return web.json_response({}, status=401)

        token = tmp_path / "token"
        token.write_text("old\n")
        credentials = Counted(token, clock)
        configuration = ClientConfiguration(server.url, credentials=credentials)
        server.on("GET", "/api/v1/nodes/b", late, server.json(node("b")))
        server.on("GET", NODE_PATH, server.status(401), server.json(node("a")))
        token.write_text("new\n")
        async with Transport(configuration) as transport:
            client = ApiClient(transport, clock=clock)
            second = asyncio.create_task(client.get(NODES, "b"))
            await until(lambda: server.seen)
            await client.get(NODES, "a")
            gate.set()
            assert (await second).metadata.name == "b"
        assert credentials.renewals == 1

    async def test_401_with_the_same_token_is_not_repeated(
        self, server: FaultyServer, client: ApiClient
    ) -> None:
        server.on("GET", NODE_PATH, server.status(401, "Unauthorized"))
        with pytest.raises(ApiError, match="401"):
            await client.get(NODES, "a")
        assert len(server.seen) == 1


async def test_a_shut_fence_stops_writes_but_not_reads(
    server: FaultyServer, transport: Transport
) -> None:
    client = ApiClient(transport, fence=ShutFence())
    server.on("GET", NODE_PATH, server.json(node("a")))
    await client.get(NODES, "a")
    with pytest.raises(NotLeader) as caught:
        await client.bind(a_pod(), "n")
    assert not caught.value.outcome_unknown
    assert server.requests("POST") == []


async def test_the_fence_is_checked_after_waiting_for_a_token(
    server: FaultyServer, transport: Transport, clock: InstantClock
) -> None:
    class LosesLeadershipAfterOneSecond:
        def allowed(self) -> bool:
            return clock.monotonic() < 1.0

    limiter = RateLimiter(clock, qps=0.5, burst=1)
    fence = LosesLeadershipAfterOneSecond()
    client = ApiClient(transport, fence=fence, limiter=limiter, clock=clock)
    server.on("POST", BINDING_PATH, server.json({}, 201))
    await client.bind(a_pod(), "n")
    with pytest.raises(NotLeader):
        await client.bind(a_pod(), "n")
    assert len(server.seen) == 1


async def test_derived_clients_share_connections_only(
    server: FaultyServer, transport: Transport
) -> None:
    client = ApiClient(transport, fence=ShutFence(), user_agent="kubestow/1")
    server.on("POST", BINDING_PATH, server.json({}, 201))
    await client.derive("leader-election", timeout=30.0).bind(a_pod(), "n")
    assert server.seen[0].headers["User-Agent"] == "kubestow/1/leader-election"


async def test_reviews(server: FaultyServer, client: ApiClient) -> None:
    status = {"authenticated": True, "user": {"username": "jane", "groups": ["g"]}}
    server.on(
        "POST", "/apis/authentication.k8s.io/v1/tokenreviews", server.json({"status": status}, 201)
    )
    server.on(
        "POST",
        "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        server.json({"status": {"allowed": True}}, 201),
    )
    who = await review_token(client, "secret")
    assert who.authenticated
    assert who.user.username == "jane"
    assert (await review_access(client, who.user, path="/metrics", verb="get")).allowed
    spec = server.seen[1].json["spec"]
    assert spec["nonResourceAttributes"] == {"path": "/metrics", "verb": "get"}
    assert UserInfo().groups == ()


async def test_large_objects_come_a_few_at_a_time(
    server: FaultyServer, client: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rest, "MAX_PAGE_BYTES", 200_000)
    monkeypatch.setattr(paging, "TARGET_PAGE_BYTES", 50_000)
    nodes = [node(f"n{number}", text="x" * 20_000) for number in range(20)]

    async def handler(request: web.Request) -> web.Response:
        start = int(request.query.get("continue", "0"))
        end = start + int(request.query["limit"])
        metadata = {"resourceVersion": "1", "continue": str(end) if end < len(nodes) else ""}
        return web.json_response({"metadata": metadata, "items": nodes[start:end]})

    server.on("GET", "/api/v1/nodes", handler)
    items = await client.list(NODES)
    assert [item.name for item in items] == [f"n{number}" for number in range(20)]
    limits = [seen.query["limit"] for seen in server.seen]
    assert limits[:5] == ["500", "125", "31", "7", "2"]
    assert set(limits[5:]) == {"2"}


class TestDeepNesting:
    """Unread fields of a response nest deeper than a decoder can follow."""

    async def test_objects_and_their_responses(
        self, server: FaultyServer, client: ApiClient
    ) -> None:
        path = "/api/v1/namespaces/default/pods/p"
        handler = server.text(deep_json({**pod("p", "5"), "extra": deep_fields()}))
        for method in ("GET", "PATCH"):
            server.on(method, path, handler)
        server.on("POST", "/api/v1/namespaces/default/pods", handler)
        server.on("PATCH", f"{path}/status", handler)
        patch = PodStatusPatch("default", "p", "uid-p")
        assert (await client.get(PODS, "p", "default")).metadata.resource_version == "5"
        assert (await client.patch(PODS, "p", "default", body={})).key == "default/p"
        assert (await client.create(PODS, {}, "default")).key == "default/p"
        assert version_of(await send_status_patch(client, patch, Random(1))) == "5"

    async def test_lists_keep_their_items_as_they_are(
        self, server: FaultyServer, client: ApiClient
    ) -> None:
        items = [node("a"), node("b", extra=deep_fields()), node("c", extra={"items": [{}]})]
        metadata = {"resourceVersion": "7", "continue": "", "extra": [{"items": deep_fields()}]}
        body = {"kind": "NodeList", "metadata": metadata, "items": items}
        server.on("GET", "/api/v1/nodes", server.text(deep_json(body)))
        page = await client.list_page(NODES)
        assert page.metadata.resource_version == "7"
        assert [bytes(item) for item in page.items or ()] == [deep_json(item) for item in items]
        assert [item.name for item in await client.list(NODES)] == ["a", "b", "c"]

    async def test_errors(self, server: FaultyServer, client: ApiClient) -> None:
        status = {"kind": "Status", "extra": deep_fields(), "reason": "NotFound", "message": "gone"}
        server.on("GET", NODE_PATH, server.text(deep_json(status), 404))
        with pytest.raises(ApiError, match="404 NotFound: gone"):
            await client.get(NODES, "a")

    async def test_reviews_and_the_lease(self, server: FaultyServer, client: ApiClient) -> None:
        tokens, accesses = (
            "/apis/authentication.k8s.io/v1/tokenreviews",
            "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        )
        status = {"authenticated": True, "allowed": True}
        handler = server.text(deep_json({"metadata": deep_fields(), "status": status}))
        server.on("POST", tokens, handler)
        server.on("POST", accesses, handler)
        assert (await review_token(client, "secret")).authenticated
        assert (await review_access(client, UserInfo(), path="/", verb="get")).allowed
        lease = {"metadata": {"managedFields": deep_fields()}, "spec": {"holderIdentity": "me"}}
        path = "/apis/coordination.k8s.io/v1/namespaces/system/leases/kubestow"
        server.on("GET", path, server.text(deep_json(lease)))
        server.on("PUT", path, server.json({}))
        lock = LeaseLock(client, "kubestow", "system")
        found = await lock.get(1.0)
        assert found is not None
        assert found["spec"] == lease["spec"]
        await lock.replace(found, 1.0)
        assert server.requests("PUT")[0].json["spec"] == lease["spec"]

    async def test_commands(self, server: FaultyServer, client: ApiClient) -> None:
        path = "/api/v1/namespaces/default/resourcequotas"
        meta = {"name": "q", "namespace": "default"}
        hard = {"deferred.kubestow.io/requests.cpu-millis": "1"}
        deep = {"metadata": meta, "spec": {"hard": hard}, "extra": deep_fields()}
        page = {"metadata": {"resourceVersion": "1"}, "items": [deep]}
        server.on("GET", path, server.text(deep_json(page)))
        server.on("GET", f"{path}/q", server.text(deep_json(deep)))
        server.on("GET", "/api/v1/namespaces/default/pods", server.json({**page, "items": []}))
        found = await quota_requests.get(client, "default", "q")
        assert found is not None
        assert found["metadata"] == meta
        (listed,), _ = await quota_requests.read_deferred(client, "default")
        assert listed["metadata"] == meta


async def test_closing_cancels_a_renewal_in_progress(
    server: FaultyServer, clock: InstantClock
) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def hangs() -> Issued:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        raise AssertionError

    credentials = IssuedCredentials(hangs, Issued("Bearer 1", due_at=clock.now()), clock)
    server.on("GET", NODE_PATH, server.json(node("a")))
    configuration = ClientConfiguration(server.url, credentials=credentials)
    async with Transport(configuration) as transport:
        await ApiClient(transport, clock=clock).get(NODES, "a")
        await begun.wait()
    assert ended.is_set()
    assert server.seen[0].headers["Authorization"] == "Bearer 1"


async def test_a_closed_transport_raises_an_error_that_explains_it(transport: Transport) -> None:
    await transport.close()
    with pytest.raises(RuntimeError, match="async with"):
        await ApiClient(transport).get(NODES, "a")


async def test_no_write_leaves_after_the_fence_shut_while_it_connected(
    server: FaultyServer, transport: Transport
) -> None:
    """The event loop was blocked, say, while the connection was made."""

    class ShutsWhileConnecting:
        checks = 0

        def allowed(self) -> bool:
            self.checks += 1
            return self.checks == 1

    client = ApiClient(transport, fence=ShutsWhileConnecting())
    with pytest.raises(NotLeader) as caught:
        await client.bind(a_pod(), "node-1")
    assert not caught.value.outcome_unknown
    assert server.seen == []
