"""Bodies that are read as they arrive, over real sockets."""

from __future__ import annotations

import asyncio

import pytest

from devtools.loop_time import pass_time
from scheduler.client.errors import ConnectionFailed, RequestTimeout
from tests.integration.client.faulty_server import until
from tests.integration.client.scripted_server import (
    GET,
    OK,
    PATIENCE,
    TIMEOUT,
    get,
    pooled,
    sends,
    serving,
)

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


async def test_pieces_arrive_and_the_end_is_known() -> None:
    script = sends(HEAD, b"3\r\none\r\n", b"3\r\ntwo\r\n", b"0\r\n\r\n")
    async with serving(script) as server, pooled(server) as pool:
        stream = await pool.open_stream(GET, PATIENCE)
        body = b""
        while piece := await stream.read():
            body += piece
        assert (stream.status, body) == (200, b"onetwo")
        assert b"chunked" in stream.head
        stream.close()


async def test_data_received_before_a_disconnection_is_returned() -> None:
    script = sends(HEAD, b"3\r\none\r\n2\r\nt", close=True)
    async with serving(script) as server, pooled(server) as pool:
        stream = await pool.open_stream(GET, PATIENCE)
        body = b""
        while len(body) < len(b"onet"):
            body += await stream.read()
        assert body == b"onet"
        with pytest.raises(ConnectionFailed):
            await stream.read()


@pytest.mark.parametrize("sent", [b"", HEAD])
async def test_the_idle_timeout_ends_a_stream(sent: bytes) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(sent)
        # In steps: what was sent has to arrive before the timeout.
        while not reader.at_eof():
            pass_time(TIMEOUT / 50)
            await asyncio.sleep(0)

    async with serving(silent) as server, pooled(server) as pool:
        with pytest.raises(RequestTimeout, match="no data for 2 s"):
            await (await pool.open_stream(GET, TIMEOUT)).read()
        await until(lambda: server.ended == 1)


async def test_a_slow_reader_makes_the_server_wait_and_loses_nothing() -> None:
    piece = b"x" * 65536
    count = 512
    written = 0
    counts: list[int] = []

    def stalled() -> bool:
        counts.append(written)
        return written > 0 and counts[-10:] == [written] * 10

    async def floods(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        writer.write(HEAD)
        for _number in range(count):
            writer.write(b"10000\r\n" + piece + b"\r\n")
            await writer.drain()
            written += 1
        writer.write(b"0\r\n\r\n")

    async with serving(floods) as server, pooled(server) as pool:
        stream = await pool.open_stream(GET, PATIENCE)
        await until(stalled)
        assert written < count
        size = 0
        while piece_read := await stream.read():
            size += len(piece_read)
        assert size == count * len(piece)


async def test_a_stream_does_not_take_a_kept_connection() -> None:
    async with serving(sends(OK), sends(HEAD)) as server, pooled(server) as pool:
        await get(pool)
        stream = await pool.open_stream(GET, PATIENCE)
        assert server.connections == 2
        stream.close()
