"""Connections to one server, kept and reused.

Invariant: never more than `limit` connections; a request that finds all of them taken waits. The
connection used last is taken first, so that as few as possible stay in use. Connections that were
idle for longer than `keepalive` seconds are not reused, nor those opened with an older client
certificate: the server may reject it.

A connection that the server closed while it was idle fails the first request on it. A read is then
sent again on another; a write is not, since the server may have acted on it. A host that vanished
closes nothing: when a request times out, the connections that were idle meanwhile are closed,
instead of each costing a request its timeout.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final

from aiohappyeyeballs import AddrInfoType, addr_to_addr_infos, start_connection

from scheduler.client.errors import ConnectionFailed, RequestTimeout
from scheduler.client.http.connection import FAILURES, Connection, ConnectionLost
from scheduler.client.http.request import Request
from scheduler.client.http.response import Response
from scheduler.client.http.stream import ConnectionStream
from scheduler.client.http.tls import ClientTls, ResumingContext
from scheduler.client.socks import CLOSED, Opening, SocksError, SocksProxy

HAPPY_EYEBALLS_DELAY: Final = 0.25
"""Seconds to wait for one address before the next is tried in parallel (RFC 8305, section 5)."""


@dataclass(frozen=True, slots=True)
class Address:
    """The endpoint of a server, and how to verify its certificate."""

    host: str
    port: int
    tls: ClientTls | None = None
    #: The name that the certificate must have; None means the host.
    server_hostname: str | None = None
    #: Value of the Host header; empty means host and port.
    authority: str = ""
    #: Path of the server's URL, which precedes that of each request.
    prefix: str = ""

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class PoolOptions:
    """Limits of the connections to one server; times in seconds."""

    limit: int
    """Maximum number of connections."""
    keepalive: float
    """Maximum idle time of a connection that is reused."""
    connect_timeout: float
    """Timeout for connecting, TLS included."""
    socks: SocksProxy | None = None
    """A proxy through which each connection is opened."""


class ConnectionPool:
    """Exchanges requests with one server. Belongs to one event loop; `close` it."""

    def __init__(self, address: Address, options: PoolOptions) -> None:
        """Prepare; connections are made when they are needed."""
        self._address = address
        self._host = address.authority or str(address)
        self._options = options
        self._loop = asyncio.get_running_loop()
        self._idle: list[Connection] = []
        self._all: set[Connection] = set()
        self._connecting = 0
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._closed = False
        # Set while there is no connection.
        self._none_left = asyncio.Event()
        self._none_left.set()

    # ------------------------------------------------------------------------------------ requests

    async def exchange(self, request: Request, timeout: float) -> Response:
        """Send one request and read the whole response.

        A GET is sent again when the connection it used proved to be dead.

        Raises:
            RequestTimeout: not complete within `timeout` seconds, waiting for a connection
                included.
            ResponseTooLarge: the body of the response exceeds the limit of the request.
            ConnectionFailed: no connection, or it broke.
        """
        data = request.encode(self._host, self._address.prefix)
        until = self._loop.time() + timeout
        while True:
            connection = self._take_idle()
            if waited := connection is None:
                connection = await self._acquire(request, until)
            used = connection.used
            began = self._loop.time()
            try:
                if waited and request.guard is not None:
                    request.guard()
                response = await connection.exchange(data, until - began, request.max_body)
            except FAILURES as error:
                if isinstance(error, TimeoutError):
                    self._abort_idle(began)
                elif used and request.method == "GET" and _unanswered(error):
                    continue
                raise request.failure(error) from error
            else:
                if not used:
                    self._remember(connection)
                return response
            finally:
                self._release(connection)

    async def open_stream(self, request: Request, idle_timeout: float) -> ConnectionStream:
        """Send one request on a connection of its own and wait for the head of the response.

        Raises: as `exchange`; `idle_timeout` limits the wait for the connection, for the head, and
        for each piece of the body.
        """
        data = request.encode(self._host, self._address.prefix)
        connection = await self._acquire(request, self._loop.time() + idle_timeout, fresh=True)
        try:
            parser = await connection.open_stream(data, idle_timeout)
        except BaseException as error:
            connection.abort()
            if isinstance(error, FAILURES):
                raise request.failure(error) from error
            raise
        return ConnectionStream(request, connection, parser)

    async def close(self) -> None:
        """Close every connection; exchanges under way fail."""
        self._closed = True
        for connection in list(self._all):
            connection.abort()
        self._wake(len(self._waiters))
        await self._none_left.wait()

    # --------------------------------------------------------------------------------- connections

    async def _acquire(self, request: Request, until: float, *, fresh: bool = False) -> Connection:
        waited = False
        while True:
            if not fresh and (connection := self._take_idle()) is not None:
                return connection
            if self._closed:
                text = "the client was closed"
                raise ConnectionFailed(request.method, request.path, text, sent=False)
            if len(self._all) + self._connecting < self._options.limit:
                return await self._connect(request, until)
            if fresh and self._idle:
                self._idle.pop(0).abort()
            await self._wait(request, until, first=waited)
            waited = True

    def _take_idle(self) -> Connection | None:
        oldest = self._loop.time() - self._options.keepalive
        context = self._context()
        while self._idle:
            connection = self._idle.pop()
            if connection.open:
                if connection.idle_since >= oldest and connection.context is context:
                    return connection
                connection.abort()
        return None

    def _abort_idle(self, until: float) -> None:
        """Close connections that became idle before `until`; the others were used since."""
        stale = [each for each in self._idle if each.idle_since <= until]
        self._idle = [each for each in self._idle if each.idle_since > until]
        for connection in stale:
            connection.abort()

    async def _wait(self, request: Request, until: float, *, first: bool) -> None:
        waiter = self._loop.create_future()
        # A waiter that was woken, and lost the connection to a later caller, keeps its place.
        if first:
            self._waiters.appendleft(waiter)
        else:
            self._waiters.append(waiter)
        try:
            async with asyncio.timeout_at(until):
                await waiter
        except BaseException as error:
            if waiter.done() and not waiter.cancelled():
                # Woken and cancelled in the same moment: wake the next waiter instead.
                self._wake(1)
            if not isinstance(error, TimeoutError):
                raise
            text = f"timed out: all {self._options.limit} connections were taken"
            raise RequestTimeout(request.method, request.path, text, sent=False) from error
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    async def _connect(self, request: Request, until: float) -> Connection:
        address = self._address
        context = self._context()
        self._connecting += 1
        limit = min(until, self._loop.time() + self._options.connect_timeout)
        try:
            async with asyncio.timeout_at(limit):
                _, connection = await self._loop.create_connection(
                    lambda: Connection(self._loop, self._lost),
                    sock=await self._connected_socket(),
                    ssl=context,
                    server_hostname=None
                    if context is None
                    else address.server_hostname or address.host,
                )
        except TimeoutError as error:
            text = f"timed out: no connection to {address} in time"
            raise RequestTimeout(request.method, request.path, text, sent=False) from error
        except (*FAILURES, ValueError) as error:
            # ValueError: the host is not a valid name.
            refused = isinstance(error, ConnectionRefusedError)
            text = f"cannot connect to {address}: {str(error) or type(error).__name__}"
            raise ConnectionFailed(
                request.method, request.path, text, sent=False, refused=refused
            ) from error
        finally:
            self._connecting -= 1
            self._wake(1)
        if self._closed or not connection.open:
            connection.abort()
            text = f"cannot connect to {address}: the connection was lost at once"
            raise ConnectionFailed(request.method, request.path, text, sent=False)
        connection.context = context
        self._all.add(connection)
        self._none_left.clear()
        return connection

    async def _connected_socket(self) -> socket.socket:
        """Connect to the server, if necessary through the proxy."""
        address, socks = self._address, self._options.socks
        if socks is None:
            return await self._connected_to(address.host, address.port)
        connected = await self._connected_to(socks.host, socks.port)
        try:
            await self._opened(connected, socks.opening(address.host, address.port))
        except BaseException:
            connected.close()
            raise
        return connected

    async def _opened(self, connected: socket.socket, opening: Opening) -> None:
        """Let a proxy open the connection."""
        sent, size = next(opening)
        with suppress(StopIteration):
            while True:
                await self._loop.sock_sendall(connected, sent)
                received = b""
                while len(received) < size:
                    piece = await self._loop.sock_recv(connected, size - len(received))
                    if not piece:
                        raise SocksError(CLOSED)
                    received += piece
                sent, size = opening.send(received)

    async def _connected_to(self, host: str, port: int) -> socket.socket:
        """Connect to the first of a host's addresses that accepts."""
        addresses: Sequence[AddrInfoType]
        try:
            ip_address(host)
        except ValueError:
            addresses = await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        else:
            # Without the resolver, which takes a thread.
            addresses = addr_to_addr_infos((host, port)) or []
        return await start_connection(
            addresses, happy_eyeballs_delay=HAPPY_EYEBALLS_DELAY, interleave=1
        )

    def _context(self) -> ResumingContext | None:
        tls = self._address.tls
        return None if tls is None else tls.current()

    def _remember(self, connection: Connection) -> None:
        context, handshake = connection.context, connection.handshake
        if context is not None and handshake is not None:
            context.remember(handshake)

    def _release(self, connection: Connection) -> None:
        if connection.reusable and not self._closed:
            connection.idle_since = self._loop.time()
            self._idle.append(connection)
            self._wake(1)
        else:
            connection.abort()

    def _lost(self, connection: Connection) -> None:
        self._all.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        if not self._all:
            self._none_left.set()
        self._wake(1)

    def _wake(self, count: int) -> None:
        while self._waiters and count > 0:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                count -= 1


def _unanswered(error: Exception) -> bool:
    return isinstance(error, ConnectionLost) and error.unanswered
