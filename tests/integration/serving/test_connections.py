"""Limits of connections: clients that are slow, silent, many or too talkative."""

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
from scheduler.service.serving.connections import Stage
from scheduler.service.serving.server import HttpsServer
from tests.integration.serving.conftest import (
    LOOPBACK,
    Open,
    Site,
    Visitor,
    open_to_everyone,
    until_closed,
)

REQUEST = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"


async def connect(visitor: Visitor) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", visitor.server.port)


async def test_the_second_request_on_a_connection_is_not_answered(opened: Open, site: Site) -> None:
    async with opened(site) as visitor:
        reader, writer = await connect(visitor)
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
    monkeypatch.setattr(connection, "DEADLINES", dict.fromkeys(Stage, 0.0))
    async with opened(site) as visitor:
        reader, writer = await connect(visitor)
        writer.write(sent)
        assert await until_closed(reader) == b""
        writer.close()
        statistics = visitor.server.statistics()
    assert (statistics.open, statistics.timed_out) == (0, 1)


async def test_silent_connections_do_not_keep_others_out(opened: Open, site: Site) -> None:
    async with opened(site, max_connections=8) as visitor, AsyncExitStack() as stack:
        silent = []
        for _ in range(10):
            reader, writer = await connect(visitor)
            stack.callback(writer.close)
            silent.append(reader)
        assert (await visitor.ask("/healthz")).text == "ok"
        # The oldest were given up, not the newest.
        assert await until_closed(silent[0]) == b""
        statistics = visitor.server.statistics()
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
async def test_a_bad_head_is_refused(opened: Open, site: Site, request_: bytes) -> None:
    async with opened(site) as visitor:
        reader, writer = await connect(visitor)
        writer.write(request_)
        received = await until_closed(reader)
        writer.close()
        assert (await visitor.ask("/healthz")).text == "ok"
    assert received.startswith((b"HTTP/1.0 400 ", b"HTTP/1.1 400 "))


async def test_a_long_body_is_not_read(opened: Open, site: Site) -> None:
    async with opened(site) as visitor:
        answer = await visitor.ask("/debug/flags/v", "PUT", data=b"1" * 5_000)
        assert (await visitor.ask("/healthz")).text == "ok"
    assert (answer.status, site.verbosity) == (400, [])


@pytest.mark.parametrize("path", [b"/open/../metrics", b"/open/%2e%2e/metrics", b"//metrics"])
async def test_no_spelling_of_a_path_leads_out_of_what_is_open(
    opened: Open, site: Site, path: bytes
) -> None:
    async with opened(site, authorizer=open_to_everyone("/open/*")) as visitor:
        reader, writer = await connect(visitor)
        writer.write(b"GET " + path + b" HTTP/1.1\r\nHost: x\r\n\r\n")
        received = await until_closed(reader)
        writer.close()
    assert received.startswith(b"HTTP/1.1 403 ")


async def test_too_many_requests_at_once_are_refused_and_health_is_answered(
    opened: Open, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(application, "MAX_IN_FLIGHT", 1)
    at_work, go_on = asyncio.Event(), asyncio.Event()

    async def review(_: UserInfo, *, path: str, verb: str) -> AccessReviewStatus:
        if path == "/version":
            at_work.set()
            await go_on.wait()
        return AccessReviewStatus(allowed=True)

    async with opened(site, authorizer=Authorizer(review, AccessOptions())) as visitor:
        slow = asyncio.create_task(visitor.ask("/version"))
        await at_work.wait()
        refused = await visitor.ask("/configz")
        health = await visitor.ask("/readyz")
        go_on.set()
        assert (await slow).status == 200
        assert (await visitor.ask("/configz")).status == 200
    assert (refused.status, refused.headers["Retry-After"]) == (429, "1")
    assert health.status == 200


async def test_a_port_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        options = ServingOptions(bind_address="127.0.0.1", secure_port=port)
        with pytest.raises(ServingError, match=rf"cannot listen on 127.0.0.1:{port}: .*in use"):
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
    async with opened(site) as visitor:
        reader, writer = await connect(visitor)
        await visitor.ask("/healthz")
    assert await until_closed(reader) == b""
    writer.close()
    assert visitor.server.statistics().open == 0


async def test_plain_http_is_not_understood_where_tls_is_spoken(opened: Open, site: Site) -> None:
    async with opened(site, tls=ServingTls(LOOPBACK)) as visitor:
        assert (await visitor.ask("/healthz")).text == "ok"
        reader, writer = await connect(visitor)
        writer.write(REQUEST)
        assert b"200 OK" not in await until_closed(reader)
        writer.close()
