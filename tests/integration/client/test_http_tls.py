"""TLS under the client: whose certificate is believed, and what a refusal becomes."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from scheduler.client.errors import ConnectionFailed
from scheduler.client.http import Address, ConnectionPool
from scheduler.client.http.tls import ResumingContext, client_context
from scheduler.service.serving.self_signed import make_pair
from tests.integration.client.test_http_pool import OK, REQUEST, Server, post, sends

LAST = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"


class Authority:
    """A certificate for localhost, and contexts of both sides."""

    def __init__(self, folder: Path) -> None:
        certificate, key = make_pair(datetime.now(UTC), timedelta(days=1))
        self.certificate, self.key = folder / "tls.crt", folder / "tls.key"
        self.certificate.write_bytes(certificate)
        self.key.write_bytes(key)

    def server(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self.key)
        return context

    def client(self) -> ResumingContext:
        return client_context(str(self.certificate))


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@asynccontextmanager
async def serving_tls(authority: Authority, server: Server) -> AsyncIterator[int]:
    async with serving(authority.server(), server) as port:
        yield port


@asynccontextmanager
async def serving(context: ssl.SSLContext, server: Server, port: int = 0) -> AsyncIterator[int]:
    listening = await asyncio.start_server(server.serve, "127.0.0.1", port, ssl=context)
    async with listening:
        yield listening.sockets[0].getsockname()[1]


@asynccontextmanager
async def pooled(address: Address) -> AsyncIterator[ConnectionPool]:
    pool = ConnectionPool(address, limit=2, keepalive=60.0, connect_timeout=2.0)
    try:
        yield pool
    finally:
        await pool.close()


@pytest.mark.parametrize(("host", "name"), [("localhost", None), ("127.0.0.1", "localhost")])
async def test_a_believed_server(authority: Authority, host: str, name: str | None) -> None:
    server = Server([sends(OK)] * 3)
    async with (
        serving_tls(authority, server) as port,
        pooled(Address(host, port, authority.client(), name)) as pool,
    ):
        for _ in range(3):
            assert (await post(pool)).body == b"ok"
        assert server.connections == 1


@pytest.mark.parametrize("stranger", ["authority", "name"])
async def test_a_server_that_is_not_believed_gets_no_request(
    authority: Authority, stranger: str
) -> None:
    server = Server([sends(OK)])
    if stranger == "authority":
        address = client_context(), "localhost"
    else:
        address = authority.client(), "another.example"
    async with (
        serving_tls(authority, server) as port,
        pooled(Address("127.0.0.1", port, *address)) as pool,
    ):
        with pytest.raises(ConnectionFailed, match="certificate verify failed") as caught:
            await post(pool)
        assert not caught.value.outcome_unknown
    assert server.requests == 0


async def test_later_connections_resume_the_first_ones_session(authority: Authority) -> None:
    context = authority.server()
    server = Server([sends(LAST, close=True)] * 4)
    async with (
        serving(context, server) as port,
        pooled(Address("localhost", port, authority.client())) as pool,
    ):
        for _ in range(4):
            assert (await post(pool)).body == b"ok"
    assert server.connections == 4
    assert context.session_stats()["hits"] == 3


async def test_a_session_the_server_does_not_know_costs_a_handshake(authority: Authority) -> None:
    # As after a restart of the API server: the keys of its tickets are new.
    client, before, after = authority.client(), authority.server(), authority.server()
    port = 0
    for context, posts in ((before, 2), (after, 3)):
        server = Server([sends(LAST, close=True)] * posts)
        async with (
            serving(context, server, port) as port,
            pooled(Address("localhost", port, client)) as pool,
        ):
            for _ in range(posts):
                assert (await post(pool)).body == b"ok"
    assert before.session_stats()["hits"] == 1
    assert after.session_stats()["hits"] == 2


async def test_a_new_client_certificate_is_shown(authority: Authority) -> None:
    # A resumed session would go on with the identity it was agreed upon with.
    context, client = authority.server(), authority.client()
    server = Server([sends(LAST, close=True)] * 2)
    async with (
        serving(context, server) as port,
        pooled(Address("localhost", port, client)) as pool,
    ):
        assert (await post(pool)).body == b"ok"
        client.load_cert_chain(authority.certificate, authority.key)
        assert (await post(pool)).body == b"ok"
    assert context.session_stats()["hits"] == 0


async def test_a_stream_is_cut_and_says_so(authority: Authority) -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n"
    server = Server([sends(head, close=True)])
    async with (
        serving_tls(authority, server) as port,
        pooled(Address("localhost", port, authority.client())) as pool,
    ):
        stream = await pool.open_stream("GET", "/x", REQUEST, 2.0)
        assert await stream.read() == b"one"
        with pytest.raises(ConnectionFailed):
            await stream.read()
