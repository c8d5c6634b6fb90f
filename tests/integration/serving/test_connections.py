"""Limits of connections: clients that are slow, idle, numerous or too fast."""

from __future__ import annotations

import asyncio
import socket
from contextlib import AsyncExitStack

import pytest
from aiohttp import web

from scheduler.client.reviews import AccessReviewStatus, UserInfo
from scheduler.service.options import AccessOptions, ServingOptions
from scheduler.service.serving import application, connection
from scheduler.service.serving.access import Authorizer
from scheduler.service.serving.certificates import ServingError, ServingTls
from scheduler.service.serving.connections import ConnectionStage
from scheduler.service.serving.server import HttpsServer
from tests.integration.serving.conftest import (
    LOOPBACK,
    EndpointClient,
    Open,
    Site,
    allow_anonymous,
    until_closed,
)

REQUEST = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"


async def connect(client: EndpointClient) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", client.server.port)


async def test_the_second_request_on_a_connection_gets_no_response(
    opened: Open, site: Site
) -> None:
    async with opened(site) as client:
        reader, writer = await connect(client)
        writer.write(REQUEST * 2)
        received = await until_closed(reader)
        writer.close()
    assert received.count(b"HTTP/1.1 200 OK") == 1
    assert b"Connection: close" in received


async def nothing(_: web.BaseRequest) -> web.Response:
    return web.Response()


@pytest.mark.parametrize("sent", [b"", b"GET /healthz HTTP/1.1\r\nHost: x\r\n", b"PUT "])
async def test_a_connection_without_a_whole_request_is_cut(
    opened: Open, site: Site, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(connection, "DEADLINES", dict.fromkeys(ConnectionStage, 0.0))
    async with opened(site) as client:
        reader, writer = await connect(client)
        writer.write(sent)
        assert await until_closed(reader) == b""
        writer.close()
        statistics = client.server.statistics()
    assert (statistics.open, statistics.timed_out) == (0, 1)


async def test_idle_connections_do_not_block_others(opened: Open, site: Site) -> None:
    async with opened(site, max_connections=8) as client, AsyncExitStack() as stack:
        silent = []
        for _ in range(10):
            reader, writer = await connect(client)
            stack.callback(writer.close)
            silent.append(reader)
        assert (await client.request("/healthz")).text == "ok"
        # The oldest were closed, not the newest.
        assert await until_closed(silent[0]) == b""
        statistics = client.server.statistics()
    assert statistics.open <= 4
    assert statistics.displaced >= 6


@pytest.mark.parametrize(
    "request_",
    [
        b"GET /" + b"a" * 40_000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nX: " + b"a" * 40_000 + b"\r\n\r\n",
        b"not http at all\r\n\r\n",
    ],
    ids=["long line", "long header", "not http"],
)
async def test_a_bad_head_is_rejected(opened: Open, site: Site, request_: bytes) -> None:
    async with opened(site) as client:
        reader, writer = await connect(client)
        writer.write(request_)
        received = await until_closed(reader)
        writer.close()
        assert (await client.request("/healthz")).text == "ok"
    assert received.startswith((b"HTTP/1.0 400 ", b"HTTP/1.1 400 "))


async def test_a_long_body_is_not_read(opened: Open, site: Site) -> None:
    async with opened(site) as client:
        response = await client.request("/debug/flags/v", "PUT", data=b"1" * 5_000)
        assert (await client.request("/healthz")).text == "ok"
    assert (response.status, site.verbosity) == (400, [])


@pytest.mark.parametrize("path", [b"/open/../metrics", b"/open/%2e%2e/metrics", b"//metrics"])
async def test_no_spelling_of_a_path_escapes_the_allowed_paths(
    opened: Open, site: Site, path: bytes
) -> None:
    async with opened(site, authorizer=allow_anonymous("/open/*")) as client:
        reader, writer = await connect(client)
        writer.write(b"GET " + path + b" HTTP/1.1\r\nHost: x\r\n\r\n")
        received = await until_closed(reader)
        writer.close()
    assert received.startswith(b"HTTP/1.1 403 ")


async def test_too_many_concurrent_requests_are_rejected_and_health_is_served(
    opened: Open, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(application, "MAX_IN_FLIGHT", 1)
    at_work, go_on = asyncio.Event(), asyncio.Event()

    async def review(_: UserInfo, *, path: str, verb: str) -> AccessReviewStatus:
        if path == "/version":
            at_work.set()
            await go_on.wait()
        return AccessReviewStatus(allowed=True)

    async with opened(site, authorizer=Authorizer(review, AccessOptions())) as client:
        slow = asyncio.create_task(client.request("/version"))
        await at_work.wait()
        rejected = await client.request("/configz")
        health = await client.request("/readyz")
        go_on.set()
        assert (await slow).status == 200
        assert (await client.request("/configz")).status == 200
    assert (rejected.status, rejected.headers["Retry-After"]) == (429, "1")
    assert health.status == 200


async def test_a_port_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        options = ServingOptions(bind_address="127.0.0.1", secure_port=port)
        with pytest.raises(
            ServingError, match=rf"cannot listen on 127.0.0.1:{port}: .*in use.*; .*--secure-port"
        ):
            await HttpsServer(nothing, options, None).start()


async def test_a_port_may_be_shared() -> None:
    async with (
        HttpsServer(nothing, _shared(0), None) as first,
        HttpsServer(nothing, _shared(first.port), None) as second,
    ):
        assert first.port == second.port


def _shared(port: int) -> ServingOptions:
    return ServingOptions(bind_address="127.0.0.1", secure_port=port, permit_port_sharing=True)


async def test_stopping_ends_open_connections(opened: Open, site: Site) -> None:
    async with opened(site) as client:
        reader, writer = await connect(client)
        await client.request("/healthz")
    assert await until_closed(reader) == b""
    writer.close()
    assert client.server.statistics().open == 0


async def test_plain_http_fails_on_a_tls_port(opened: Open, site: Site) -> None:
    async with opened(site, tls=ServingTls(LOOPBACK)) as client:
        assert (await client.request("/healthz")).text == "ok"
        reader, writer = await connect(client)
        writer.write(REQUEST)
        assert b"200 OK" not in await until_closed(reader)
        writer.close()
