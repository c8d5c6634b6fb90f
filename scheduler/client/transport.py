"""The connections to one API server.

Knows HTTP, not Kubernetes: paths and bytes go in, status and bytes come out. Every call has a
timeout. Answers are never compressed (localhost and cluster networks are faster than gzip),
redirects are not followed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, Protocol, Self
from urllib.parse import SplitResult, urlsplit

from scheduler.client.configuration import ClientConfiguration
from scheduler.client.errors import ConfigurationError, ConnectionFailed, RequestTimeout
from scheduler.client.http import Address, BodyStream, ConnectionPool, Response
from scheduler.client.http.parser import MAX_BODY_BYTES, MAX_ERROR_BYTES
from scheduler.client.http.request import HeaderBlock, request_bytes
from scheduler.client.http.response import header
from scheduler.client.http.tls import ClientTls
from scheduler.client.proxy_transport import ProxyTransport

CONNECTION_LIMIT: Final = 256
"""Sockets to the server: 100 binds, some twenty watches, and room; the dispatcher bounds writes,
and the reads that settle them, anyway."""

KEEPALIVE_SECONDS: Final = 60.0
"""Below the API server's own idle limit of 90 s, so that a reused connection is rarely a dead
one."""

ERROR_BODY_SECONDS: Final = 10.0
"""How long the body of an error may take that was the answer to a stream's request."""

Guard = Callable[[], None]
"""Raises where a request must not be sent any more."""


@dataclass(frozen=True, slots=True)
class TransportStatistics:
    """Counters since the start."""

    requests: int
    in_flight: int
    failed: int
    timed_out: int


class RawStream(Protocol):
    """The body of an answer as it arrives, whoever reads it from the network."""

    @property
    def status(self) -> int:
        """Status code."""
        ...

    @property
    def head(self) -> bytes:
        """Status line and headers."""
        ...

    async def read(self) -> bytes:
        """Whatever has arrived; empty at the end."""
        ...

    def close(self) -> None:
        """Cut it."""
        ...


class HttpTransport(Protocol):
    """Two ways to the server: `http` directly, `proxied` through a proxy."""

    async def exchange(
        self,
        method: str,
        target: str,
        headers: HeaderBlock,
        body: bytes | None,
        timeout: float,
        max_body: int,
        guard: Guard | None,
    ) -> Response:
        """Send one request and read the whole answer; `guard` as of `Transport.request`."""
        ...

    async def open_stream(
        self, method: str, target: str, headers: HeaderBlock, idle_timeout: float
    ) -> RawStream:
        """Open an answer without end."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...


class ByteStream:
    """The body of a watch, chunk by chunk."""

    __slots__ = ("_stream", "status")

    def __init__(self, stream: RawStream) -> None:
        self._stream = stream
        self.status = stream.status

    def header(self, name: str) -> str | None:
        """The first value of a header; None where it is absent."""
        return header(self._stream.head, name)

    async def read(self) -> bytes:
        """Whatever has arrived; empty at the end.

        Raises:
            RequestTimeout: silence for longer than the stream's limit.
            ConnectionFailed: the connection broke.
        """
        return await self._stream.read()

    async def read_all(self) -> bytes:
        """The rest of the body, for error answers: its beginning, when it is longer than those are.

        Raises: as `read`; RequestTimeout also when the body does not end in time.
        """
        pieces: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(ERROR_BODY_SECONDS):
                while size < MAX_ERROR_BYTES and (piece := await self._stream.read()):
                    pieces.append(piece)
                    size += len(piece)
        except TimeoutError:
            # What came tells as much as the rest would.
            pass
        return b"".join(pieces)[:MAX_ERROR_BYTES]


class Transport:
    """Owns the connections. Use `async with`; share it between `ApiClient`s."""

    def __init__(self, configuration: ClientConfiguration, *, connect_timeout: float = 5.0) -> None:
        """Prepare; nothing is sent.

        Raises:
            ConfigurationError: the server's address is none.
        """
        self.configuration = configuration
        self._server = _split(configuration.server)
        self.host = self._server.hostname or ""
        self._connect_timeout = connect_timeout
        self._connections: HttpTransport | None = None
        self._requests = self._in_flight = self._failed = self._timed_out = 0

    async def __aenter__(self) -> Self:
        kind = _DirectTransport if self.configuration.proxy is None else ProxyTransport
        self._connections = kind(
            self.configuration,
            limit=CONNECTION_LIMIT,
            keepalive=KEEPALIVE_SECONDS,
            connect_timeout=self._connect_timeout,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections; streams that are still open end with an error.

        A renewal of the credential under way is given up.
        """
        if self._connections is not None:
            connections, self._connections = self._connections, None
            await connections.close()
            await self.configuration.credentials.close()

    def statistics(self) -> TransportStatistics:
        """Counters since the start."""
        return TransportStatistics(self._requests, self._in_flight, self._failed, self._timed_out)

    def _open_connections(self) -> HttpTransport:
        if self._connections is None:
            msg = "the transport is closed: use it within `async with`"
            raise RuntimeError(msg)
        return self._connections

    async def request(
        self,
        method: str,
        target: str,
        headers: HeaderBlock,
        body: bytes | None,
        timeout: float,
        max_body: int = MAX_BODY_BYTES,
        guard: Guard | None = None,
    ) -> Response:
        """Send one request and read the whole answer; any status is an answer.

        `target` is path and query, quoted already. `max_body` limits the answer's body, bytes.
        `guard` is called when the request had to wait for a connection and is about to leave; what
        it raises keeps the request from being sent.

        Raises:
            RequestTimeout: not complete within `timeout` seconds, waiting for a connection
            included. ResponseTooLarge: the answer's body goes past `max_body`. ConnectionFailed: no
            connection, or it broke.
        """
        connections = self._open_connections()
        self._requests += 1
        self._in_flight += 1
        try:
            return await connections.exchange(
                method, target, headers, body, timeout, max_body, guard
            )
        except RequestTimeout:
            self._timed_out += 1
            raise
        except ConnectionFailed:
            self._failed += 1
            raise
        finally:
            self._in_flight -= 1

    @asynccontextmanager
    async def stream(
        self, method: str, target: str, headers: HeaderBlock, *, idle_timeout: float
    ) -> AsyncIterator[ByteStream]:
        """Open a response without end; `idle_timeout` limits the wait for the next byte, in s."""
        stream = await self._open_connections().open_stream(method, target, headers, idle_timeout)
        try:
            yield ByteStream(stream)
        finally:
            # Not kept: the rest of a watch never ends.
            stream.close()


class _DirectTransport:
    """`http`, with the errors of requests."""

    def __init__(
        self,
        configuration: ClientConfiguration,
        *,
        limit: int,
        keepalive: float,
        connect_timeout: float,
    ) -> None:
        server = _split(configuration.server)
        encrypted = server.scheme == "https"
        address = Address(
            server.hostname or "",
            server.port or (443 if encrypted else 80),
            (configuration.tls or ClientTls()) if encrypted else None,
            configuration.server_hostname,
        )
        self._pool = ConnectionPool(
            address, limit=limit, keepalive=keepalive, connect_timeout=connect_timeout
        )
        self._host = server.netloc.rpartition("@")[2]
        self._prefix = server.path

    async def exchange(
        self,
        method: str,
        target: str,
        headers: HeaderBlock,
        body: bytes | None,
        timeout: float,
        max_body: int,
        guard: Guard | None,
    ) -> Response:
        path = target.partition("?")[0]
        request = self._request(method, path, target, headers, body)
        return await self._pool.exchange(method, path, request, timeout, max_body, guard)

    async def open_stream(
        self, method: str, target: str, headers: HeaderBlock, idle_timeout: float
    ) -> BodyStream:
        path = target.partition("?")[0]
        request = self._request(method, path, target, headers, None)
        return await self._pool.open_stream(method, path, request, idle_timeout)

    async def close(self) -> None:
        await self._pool.close()

    def _request(
        self, method: str, path: str, target: str, headers: HeaderBlock, body: bytes | None
    ) -> bytes:
        try:
            return request_bytes(method, self._prefix + target, self._host, headers, body)
        except ValueError as error:
            raise ConnectionFailed(method, path, str(error), sent=False) from error


def _split(server: str) -> SplitResult:
    try:
        parts = urlsplit(server)
        port = parts.port
    except ValueError as error:
        raise ConfigurationError(f"the API server's address {server!r}: {error}") from error
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise ConfigurationError(
            f"the API server's address {server!r} is no URL such as https://10.0.0.1:6443"
        )
    return parts
