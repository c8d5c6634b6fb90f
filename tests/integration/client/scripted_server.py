"""A server that responds with scripted bytes, and pools of connections to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

from devtools.loop_time import pass_time
from scheduler.client.http.pool import Address, ConnectionPool, PoolOptions
from scheduler.client.http.request import HeaderBlock, Request
from scheduler.client.http.response import Response

HEADERS = HeaderBlock({})
GET = Request("GET", "/x", HEADERS)
POST = Request("POST", "/x", HEADERS)
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

PATIENCE = 60.0
"""Seconds for what does not fail; a loaded machine may take some of them."""
TIMEOUT = 2.0
"""Seconds for what has no response; `never` lets them pass."""

Step = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def sends(*pieces: bytes, close: bool = False) -> Step:
    """Response with these bytes, each in a packet of its own."""

    async def step(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        if close:
            writer.close()

    return step


class Server:
    """Responds to the requests of all connections, in order, with the steps of a script."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps = list(steps)
        self.connections = 0
        self.requests = 0
        self.ended = 0
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                await reader.readuntil(b"\r\n\r\n")
                self.requests += 1
                await self.steps.pop(0)(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.ended += 1
            writer.close()


@asynccontextmanager
async def serving(*steps: Step) -> AsyncIterator[Server]:
    server = Server(steps)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.port = listening.sockets[0].getsockname()[1]
    async with listening:
        yield server


@asynccontextmanager
async def pooled(
    server: Server, *, limit: int = 8, keepalive: float = PATIENCE
) -> AsyncIterator[ConnectionPool]:
    options = PoolOptions(limit, keepalive, PATIENCE)
    pool = ConnectionPool(Address("127.0.0.1", server.port), options)
    try:
        yield pool
    finally:
        await pool.close()


async def get(pool: ConnectionPool, timeout: float = PATIENCE) -> Response:
    return await pool.exchange(GET, timeout)


async def post(pool: ConnectionPool, timeout: float = PATIENCE) -> Response:
    return await pool.exchange(POST, timeout)


async def hang(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    """Never respond; ends with the connection."""
    await reader.read()


async def never(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    """Never respond, and let the time for a response pass."""
    pass_time(TIMEOUT)
    await reader.read()
