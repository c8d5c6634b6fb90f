"""An API server, proxy or extender that sends what is no response, or one without end.

Each case: a named error, the connection closed, a bounded number of bytes taken from the socket,
and the next request succeeds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from devtools.loop_time import pass_time
from scheduler.client.configuration import ClientConfiguration
from scheduler.client.errors import (
    ApiError,
    ConnectionFailed,
    RequestError,
    RequestTimeout,
    ResponseTooLarge,
)
from scheduler.client.http.connection import Connection
from scheduler.client.http.parser import MAX_ERROR_BYTES, MAX_HEAD_BYTES, MAX_PAGE_BYTES
from scheduler.client.http.pool import ConnectionPool
from scheduler.client.http.request import HeaderBlock, Request
from scheduler.client.resources import PODS
from scheduler.client.rest import ApiClient
from scheduler.client.transport import Transport, read_error_body
from scheduler.extenders.http_client import ExtenderHttp
from tests.integration.client.faulty_server import until
from tests.integration.client.scripted_server import (
    OK,
    PATIENCE,
    TIMEOUT,
    Server,
    Step,
    pooled,
    sends,
    serving,
)
from tests.unit.client.malformed_responses import CHUNKED, ENDLESS, MALFORMED, Endless, Malformed

HEADERS = HeaderBlock({"Accept": "application/json"})
LIMIT = 100_000
GET = Request("GET", "/x", HEADERS)
POST = Request("POST", "/x", HEADERS)
POST_LIMITED = Request("POST", "/x", HEADERS, max_body=LIMIT)
READ_AHEAD = 1024 * 1024
"""Bytes that kernel and loop may have read before the parser refused them."""

Call = Callable[[ConnectionPool], Awaitable[object]]


async def exchange(pool: ConnectionPool) -> object:
    return await pool.exchange(POST_LIMITED, PATIENCE)


async def stream(pool: ConnectionPool) -> object:
    body = await pool.open_stream(GET, PATIENCE)
    while await body.read():
        pass
    return body


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record the size of each read of a connection."""
    sizes: list[int] = []
    receive = Connection.data_received

    def count(connection: Connection, data: bytes) -> None:
        sizes.append(len(data))
        receive(connection, data)

    monkeypatch.setattr(Connection, "data_received", count)
    return sizes


def goes_on(head: bytes, piece: bytes) -> Step:
    """Send the head, then the piece until the peer closes, 4 MiB in 2 * TIMEOUT; then be silent."""

    async def step(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        block = piece * (1 + 16384 // len(piece))
        writer.write(head)
        count = 4 * 1024 * 1024 // len(block)
        for _number in range(count):
            writer.write(block)
            sent = asyncio.ensure_future(writer.drain())
            while True:
                pass_time(2 * TIMEOUT / count)
                await asyncio.sleep(0)
                # A peer that reads no more has to give up by itself.
                if sent.done():
                    break
            await sent
        while not reader.at_eof():
            pass_time(TIMEOUT / 50)
            await asyncio.sleep(0)

    return step


@pytest.mark.parametrize("call", [exchange, stream])
@pytest.mark.parametrize("case", MALFORMED, ids=lambda case: case.name)
async def test_a_malformed_response(case: Malformed, call: Call) -> None:
    async with serving(sends(case.data), sends(OK)) as server, pooled(server) as pool:
        with pytest.raises(ConnectionFailed, match=case.error) as caught:
            await call(pool)
        assert caught.value.outcome_unknown
        await until(lambda: server.ended == 1)
        assert (await pool.exchange(POST, PATIENCE)).body == b"ok"
        assert server.connections == 2


@pytest.mark.parametrize(
    ("case", "call"),
    [
        pytest.param(case, call, id=f"{case.name}, {call.__name__}")
        for case in ENDLESS
        for call in (exchange, stream)
        if case.streams or call is exchange
    ],
)
async def test_a_response_without_end(case: Endless, call: Call, taken: list[int]) -> None:
    script = goes_on(case.head, case.piece), sends(OK)
    async with serving(*script) as server, pooled(server) as pool:
        with pytest.raises(ConnectionFailed, match=case.error):
            await call(pool)
        assert sum(taken) < MAX_ERROR_BYTES + MAX_HEAD_BYTES + READ_AHEAD
        await until(lambda: server.ended == 1)
        assert (await pool.exchange(POST, PATIENCE)).body == b"ok"


def drips(piece: bytes, head: bytes = b"") -> Step:
    """Send the head, then a piece now and then until the peer closes."""

    async def step(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        while True:
            writer.write(piece)
            await writer.drain()
            pass_time(TIMEOUT / 50)
            await asyncio.sleep(0)

    return step


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(drips(b"x", b"HTTP/1.1 200 OK\r\nX: "), id="head"),
        pytest.param(drips(b"x", CHUNKED + b"1;"), id="chunk extension"),
        pytest.param(drips(b"X: y\r\n", CHUNKED + b"0\r\n"), id="trailers"),
    ],
)
@pytest.mark.parametrize("call", [exchange, stream])
async def test_a_byte_now_and_then_does_not_extend_the_timeout(step: Step, call: Call) -> None:
    async def soon(pool: ConnectionPool) -> object:
        if call is exchange:
            return await pool.exchange(POST, TIMEOUT)
        body = await pool.open_stream(GET, TIMEOUT)
        return await body.read()

    async with serving(step, sends(OK)) as server, pooled(server) as pool:
        with pytest.raises(RequestTimeout):
            await soon(pool)
        await until(lambda: server.ended == 1)
        assert (await pool.exchange(POST, PATIENCE)).body == b"ok"


async def test_a_body_byte_by_byte_ends_with_the_time_of_the_request() -> None:
    step = drips(b"1\r\nx\r\n", CHUNKED)
    async with serving(step, sends(OK)) as server, pooled(server) as pool:
        with pytest.raises(RequestTimeout):
            await pool.exchange(POST, TIMEOUT)
        assert (await pool.exchange(POST, PATIENCE)).body == b"ok"


# ------------------------------------------------------------------------------------- API requests


def transport_to(server: Server, *, proxied: bool = False) -> Transport:
    address = f"http://127.0.0.1:{server.port}"
    if proxied:
        return Transport(ClientConfiguration("http://api.invalid", proxy=address))
    return Transport(ClientConfiguration(address))


@pytest.mark.slow
@pytest.mark.parametrize("proxied", [False, True], ids=["direct", "proxied"])
async def test_the_body_of_an_error_is_cut(proxied: bool) -> None:
    step = goes_on(b"HTTP/1.1 500 X\r\nTransfer-Encoding: chunked\r\n\r\n", b"5\r\nwrong\r\n")
    async with serving(step, step) as server, transport_to(server, proxied=proxied) as transport:
        with pytest.raises(ResponseTooLarge, match=f"more than {MAX_ERROR_BYTES} bytes"):
            await transport.exchange(GET, PATIENCE)
        async with transport.stream(GET, idle_timeout=PATIENCE) as body:
            assert body.status == 500
            assert len(await read_error_body(body)) == MAX_ERROR_BYTES


@pytest.mark.parametrize("status", [429, 503])
async def test_a_demanded_delay_is_capped(status: int) -> None:
    response = b"HTTP/1.1 %d X\r\nRetry-After: 999999999\r\nContent-Length: 0\r\n\r\n" % status
    async with (
        serving(*[sends(response)] * 20) as server,
        transport_to(server) as transport,
    ):
        client = ApiClient(transport, clock=NoWaiting())
        with pytest.raises(ApiError) as caught:
            await client.request("GET", "/x")
        assert caught.value.retry_after == 60.0
        assert server.requests == (10 if status == 429 else 1)


class NoWaiting:
    """A clock on which no wait takes longer than is allowed."""

    def monotonic(self) -> float:
        return 0.0

    def now(self) -> float:
        return 1700000000.0

    async def sleep(self, seconds: float) -> None:
        assert seconds <= 60.0


async def test_a_page_that_is_too_long_is_read_in_smaller_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limits: list[str] = []
    monkeypatch.setattr("scheduler.client.rest.MAX_PAGE_BYTES", 4000)
    item = b'{"metadata":{"name":"p","annotations":{"x":"' + b"x" * 900 + b'"}}}'

    async def pages(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        limit = int(limits[-1])
        body = b'{"metadata":{"resourceVersion":"1","continue":"%s"},"items":[%s]}' % (
            b"" if len(limits) > 8 else b"more",
            b",".join([item] * limit),
        )
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))

    class Recording(Server):
        async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                while True:
                    head = await reader.readuntil(b"\r\n\r\n")
                    limits.append(head.partition(b"limit=")[2].split()[0].split(b"&")[0].decode())
                    await pages(reader, writer)
            except (asyncio.IncompleteReadError, ConnectionError):
                writer.close()

    server = Recording([])
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.port = listening.sockets[0].getsockname()[1]
    async with listening, transport_to(server) as transport:
        found = await ApiClient(transport).list(PODS)
    assert limits == ["500", "125", "31", "7", "1", "2", "4", "8", "2"]
    assert len(found) == 1 + 2 + 4 + 2


async def test_one_object_that_is_too_long_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.client.rest.MAX_PAGE_BYTES", 100)
    response = b"HTTP/1.1 200 OK\r\nContent-Length: 101\r\n\r\n" + b"x" * 101
    async with serving(*[sends(response)] * 5) as server, transport_to(server) as transport:
        with pytest.raises(ResponseTooLarge):
            await ApiClient(transport).list_page(PODS)
        assert server.requests == 5
    assert MAX_PAGE_BYTES > 100


# ---------------------------------------------------------------------------- by way of aiohttp


@pytest.mark.parametrize("case", ENDLESS, ids=lambda case: case.name)
async def test_a_response_without_end_through_a_proxy(case: Endless) -> None:
    script = goes_on(case.head, case.piece), sends(OK)
    async with serving(*script) as server, transport_to(server, proxied=True) as transport:
        with pytest.raises(RequestError):
            await transport.exchange(POST_LIMITED, TIMEOUT)
        await until(lambda: server.ended == 1)
        assert (await transport.exchange(POST, PATIENCE)).body == b"ok"


async def watch(transport: Transport) -> None:
    async with transport.stream(GET, idle_timeout=TIMEOUT) as body:
        while await body.read():
            pass


@pytest.mark.parametrize(
    "case", [case for case in ENDLESS if case.streams], ids=lambda case: case.name
)
async def test_an_endless_head_of_a_watch_through_a_proxy(case: Endless) -> None:
    async with (
        serving(goes_on(case.head, case.piece)) as server,
        transport_to(server, proxied=True) as transport,
    ):
        with pytest.raises(RequestError):
            await watch(transport)
        await until(lambda: server.ended == 1)


@pytest.mark.parametrize("case", ENDLESS, ids=lambda case: case.name)
async def test_an_extenders_response_without_end(case: Endless) -> None:
    async with serving(goes_on(case.head, case.piece)) as server:
        url = f"http://127.0.0.1:{server.port}"
        async with ExtenderHttp(url, timeout=TIMEOUT, max_response_bytes=LIMIT) as http:
            with pytest.raises(RequestError):
                await http.post("filter", b"{}")
            await until(lambda: server.ended == 1)
