"""Connections over real sockets: which are kept, which are closed, what each fault becomes."""

from __future__ import annotations

import asyncio
import socket

import pytest

from devtools.loop_time import pass_time
from scheduler.client.errors import ConnectionFailed, RequestTimeout
from scheduler.client.http.connection import Connection
from scheduler.client.http.pool import Address, ConnectionPool, PoolOptions
from scheduler.client.http.request import Request
from scheduler.client.http.response import Response
from scheduler.client.http.tls import ClientTls
from tests.integration.client.faulty_server import until
from tests.integration.client.scripted_server import (
    GET,
    HEADERS,
    OK,
    PATIENCE,
    TIMEOUT,
    get,
    hang,
    never,
    pooled,
    post,
    sends,
    serving,
)


class TooLateError(Exception):
    """Raised by a guard."""


async def guarded_post(pool: ConnectionPool, calls: list[str], *, late: bool) -> Response:
    def guard() -> None:
        calls.append("checked")
        if late:
            raise TooLateError

    return await pool.exchange(Request("POST", "/x", HEADERS, guard=guard), PATIENCE)


async def test_a_connection_is_used_again() -> None:
    async with serving(*[sends(OK)] * 3) as server, pooled(server) as pool:
        responses = [await get(pool) for _ in range(3)]
        assert [(response.status, response.body) for response in responses] == [(200, b"ok")] * 3
        assert server.connections == 1


@pytest.mark.parametrize(
    "response",
    [
        pytest.param(
            b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", id="close"
        ),
        pytest.param(b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", id="old"),
        pytest.param(OK + b"surplus", id="surplus"),
    ],
)
async def test_a_connection_with_unread_data_is_not_used_again(response: bytes) -> None:
    async with serving(sends(response), sends(OK)) as server, pooled(server) as pool:
        assert (await post(pool)).body == b"ok"
        assert (await post(pool)).body == b"ok"
        assert server.connections == 2


async def test_unsolicited_bytes_close_the_connection() -> None:
    gate = asyncio.Event()

    async def talkative(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(OK)
        await gate.wait()
        writer.write(OK)

    async with serving(talkative, sends(OK)) as server, pooled(server) as pool:
        await post(pool)
        gate.set()
        await until(lambda: server.ended == 1)
        assert (await post(pool)).body == b"ok"
        assert server.connections == 2


async def test_a_connection_idle_for_too_long_is_not_used_again() -> None:
    async with serving(sends(OK), sends(OK)) as server, pooled(server, keepalive=-1.0) as pool:
        await post(pool)
        await post(pool)
        assert server.connections == 2


async def test_a_body_until_the_end_of_the_connection() -> None:
    script = sends(b"HTTP/1.1 200 OK\r\n\r\nall", b" of it", close=True)
    async with serving(script) as server, pooled(server) as pool:
        assert (await get(pool)).body == b"all of it"


class TestAConnectionThatDiedWhileIdle:
    """The server closed it just when the request left."""

    async def test_a_read_is_sent_again(self) -> None:
        script = sends(OK), sends(close=True), sends(OK)
        async with serving(*script) as server, pooled(server) as pool:
            await get(pool)
            assert (await get(pool)).body == b"ok"
            assert server.connections == 2

    async def test_a_write_is_not(self) -> None:
        async with serving(sends(OK), sends(close=True)) as server, pooled(server) as pool:
            await post(pool)
            with pytest.raises(ConnectionFailed) as caught:
                await post(pool)
            assert caught.value.outcome_unknown
            assert server.requests == 2

    async def test_nor_a_read_whose_response_had_begun(self) -> None:
        script = sends(OK), sends(OK[:30], close=True)
        async with serving(*script) as server, pooled(server) as pool:
            await get(pool)
            with pytest.raises(ConnectionFailed, match="connection was lost"):
                await get(pool)

    async def test_a_first_request_is_not_repeated_for_ever(self) -> None:
        async with serving(*[sends(close=True)] * 2) as server, pooled(server) as pool:
            with pytest.raises(ConnectionFailed):
                await get(pool)
            assert server.requests == 1


@pytest.mark.parametrize(
    "response",
    [b"SSH-2.0\r\n\r\n", OK[:-1], b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"],
)
async def test_an_invalid_response_is_a_lost_connection(response: bytes) -> None:
    async with serving(sends(response, close=True), sends(OK)) as server, pooled(server) as pool:
        with pytest.raises(ConnectionFailed) as caught:
            await post(pool)
        assert caught.value.sent
        assert (await post(pool)).body == b"ok"


async def test_a_timeout_closes_the_connection() -> None:
    async with serving(never, sends(OK)) as server, pooled(server) as pool:
        with pytest.raises(RequestTimeout, match=r"no complete response within") as caught:
            await post(pool, timeout=TIMEOUT)
        assert caught.value.outcome_unknown
        assert (await post(pool)).body == b"ok"
        assert server.connections == 2


class TestAMachineThatIsGone:
    """It closes nothing: connections to it look open and deliver nothing."""

    async def test_costs_one_request_its_timeout(self) -> None:
        script = sends(OK), sends(OK), never, sends(OK)
        async with serving(*script) as server, pooled(server) as pool:
            await asyncio.gather(post(pool), post(pool))
            with pytest.raises(RequestTimeout):
                await post(pool, timeout=TIMEOUT)
            assert (await post(pool)).body == b"ok"
            assert server.connections == 3

    async def test_connections_that_responded_meanwhile_are_kept(self) -> None:
        script = sends(OK), sends(OK), hang, sends(OK), sends(OK)
        async with serving(*script) as server, pooled(server) as pool:
            await asyncio.gather(post(pool), post(pool))
            silent = asyncio.create_task(post(pool, timeout=TIMEOUT))
            await until(lambda: server.requests == 3)
            # uvloop counts milliseconds, and this may be the same one.
            pass_time(TIMEOUT / 2)
            await post(pool)
            pass_time(TIMEOUT / 2)
            with pytest.raises(RequestTimeout):
                await silent
            assert (await post(pool)).body == b"ok"
            assert server.connections == 2


async def test_a_cancelled_caller_takes_its_connection_with_it() -> None:
    async with serving(hang, sends(OK)) as server, pooled(server) as pool:
        call = asyncio.create_task(post(pool))
        await until(lambda: server.requests == 1)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert (await post(pool)).body == b"ok"
        assert server.connections == 2


async def test_a_caller_cancelled_while_it_connects_closes_the_descriptor_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # uvloop before 0.23 closed it and left it to the socket object, which closed it again when it
    # might be that of another connection (https://github.com/MagicStack/uvloop/issues/738).
    sockets: list[socket.socket] = []
    connect = ConnectionPool._connected_socket

    async def cancel_next(self: ConnectionPool) -> socket.socket:
        sockets.append(await connect(self))
        asyncio.get_running_loop().call_soon(call.cancel)
        return sockets[-1]

    monkeypatch.setattr(ConnectionPool, "_connected_socket", cancel_next)
    async with serving(hang) as server, pooled(server) as pool:
        call = asyncio.create_task(post(pool))
        with pytest.raises(asyncio.CancelledError):
            await call
        await until(lambda: server.ended == 1)
        assert [each.fileno() for each in sockets] == [-1]


class TestTheLimit:
    """Never more connections; each waiter gets one, or an error with the reason."""

    async def test_all_get_a_response_over_few_connections(self) -> None:
        async with serving(*[sends(OK)] * 50) as server, pooled(server, limit=2) as pool:
            responses = await asyncio.gather(*(post(pool) for _ in range(50)))
            assert [response.body for response in responses] == [b"ok"] * 50
            assert server.connections == 2

    async def test_waiting_ends_in_time(self) -> None:
        async with serving(hang) as server, pooled(server, limit=1) as pool:
            call = asyncio.create_task(post(pool))
            await until(lambda: server.requests == 1)
            with pytest.raises(RequestTimeout, match="all 1 connections were taken") as caught:
                await post(pool, timeout=0.05)
            assert not caught.value.outcome_unknown
            call.cancel()

    async def test_a_failed_connection_leaves_its_place_to_the_next(self) -> None:
        async with serving(never, sends(OK), sends(OK)) as server, pooled(server, limit=1) as pool:
            first = asyncio.create_task(post(pool, timeout=TIMEOUT))
            others = [asyncio.create_task(post(pool)) for _ in range(2)]
            with pytest.raises(RequestTimeout):
                await first
            assert [(await other).body for other in others] == [b"ok", b"ok"]
            assert server.connections == 2

    async def test_a_waiter_that_gives_up_as_it_is_woken_wakes_the_next(self) -> None:
        gate = asyncio.Event()

        async def slow(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await gate.wait()
            writer.write(OK)

        async def first_of_all() -> None:
            await post(pool)
            # The connection is free and the next one woken, but not running yet.
            given_up.cancel()

        async with serving(slow, sends(OK)) as server, pooled(server, limit=1) as pool:
            first = asyncio.create_task(first_of_all())
            await until(lambda: server.requests == 1)
            given_up, patient = (asyncio.create_task(post(pool)) for _ in range(2))
            await asyncio.sleep(0)
            gate.set()
            await first
            assert (await patient).body == b"ok"
            assert given_up.cancelled()


async def test_an_idle_connection_keeps_nothing_of_a_response() -> None:
    connection = Connection(asyncio.get_running_loop(), lambda _: None)
    async with serving(sends(OK)) as server:
        await asyncio.get_running_loop().create_connection(
            lambda: connection, "127.0.0.1", server.port
        )
        assert (await connection.exchange(GET.encode("h"), PATIENCE)).body == b"ok"
        assert connection.reusable
        assert connection.read_nowait() == b""
        connection.abort()


async def test_closing_does_not_complete_half_a_body() -> None:
    sent = asyncio.Event()

    async def half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nhalf")
        await writer.drain()
        sent.set()
        await reader.read()

    async with serving(half) as server, pooled(server) as pool:
        stream = await pool.open_stream(GET, PATIENCE)
        await sent.wait()
        assert await stream.read() == b"half"
        await pool.close()
        with pytest.raises(ConnectionFailed):
            await stream.read()


@pytest.mark.parametrize("name", [".example", "a\0b"])
async def test_an_invalid_host_is_an_error_of_the_request(name: str) -> None:
    address = Address(name, 1, ClientTls())
    pool = ConnectionPool(address, PoolOptions(1, 1.0, PATIENCE))
    with pytest.raises(ConnectionFailed) as caught:
        await post(pool)
    assert not caught.value.outcome_unknown
    await pool.close()


async def test_a_closed_port() -> None:
    pool = ConnectionPool(Address("127.0.0.1", 1), PoolOptions(1, 1.0, PATIENCE))
    for _ in range(2):
        with pytest.raises(ConnectionFailed, match=r"cannot connect to 127\.0\.0\.1:1") as caught:
            await post(pool)
        assert caught.value.refused
        assert not caught.value.outcome_unknown
    await pool.close()


async def test_a_server_without_tls_is_named_in_the_error() -> None:
    async with serving(sends(OK)) as server:
        address = Address("127.0.0.1", server.port, ClientTls())
        pool = ConnectionPool(address, PoolOptions(1, 1.0, 0.2))
        with pytest.raises((ConnectionFailed, RequestTimeout)) as caught:
            await post(pool)
        assert not caught.value.outcome_unknown
        await pool.close()


async def test_after_close_nothing_is_sent() -> None:
    async with serving(hang) as server, pooled(server) as pool:
        call = asyncio.create_task(post(pool))
        await until(lambda: server.requests == 1)
        await pool.close()
        with pytest.raises(ConnectionFailed):
            await call
        with pytest.raises(ConnectionFailed, match="closed") as caught:
            await post(pool)
        assert not caught.value.outcome_unknown


class TestAWriteThatWaitedForItsConnection:
    """Meanwhile the Lease may have been lost: its guard runs once more."""

    async def test_is_not_sent_on_a_new_connection(self) -> None:
        calls: list[str] = []
        async with serving(sends(OK)) as server, pooled(server) as pool:
            with pytest.raises(TooLateError):
                await guarded_post(pool, calls, late=True)
            assert calls == ["checked"]
            # The connection is as good as new.
            await post(pool)
            assert (server.connections, server.requests) == (1, 1)

    async def test_is_not_sent_on_one_that_became_free(self) -> None:
        go_on = asyncio.Event()

        async def slow(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await go_on.wait()
            writer.write(OK)

        calls: list[str] = []
        async with serving(slow, sends(OK)) as server, pooled(server, limit=1) as pool:
            first = asyncio.create_task(post(pool))
            await until(lambda: server.requests == 1)
            second = asyncio.create_task(guarded_post(pool, calls, late=True))
            await asyncio.sleep(0)
            go_on.set()
            await first
            with pytest.raises(TooLateError):
                await second
            await post(pool)
            assert (server.connections, server.requests) == (1, 2)

    async def test_is_not_guarded_again_if_it_did_not_wait(self) -> None:
        calls: list[str] = []
        async with serving(sends(OK), sends(OK)) as server, pooled(server) as pool:
            await post(pool)
            await guarded_post(pool, calls, late=True)
            assert calls == []
            assert server.requests == 2
