"""The connections to one API server, direct or through a proxy.

This layer is HTTP without Kubernetes: it takes paths and bytes, and returns a status and bytes.
Every call has a timeout. Responses are not compressed (localhost and cluster networks are faster
than gzip), and redirects are not followed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, Protocol, Self
from urllib.parse import SplitResult, urlsplit

from scheduler.api.signal import Signal
from scheduler.client.configuration import ClientConfiguration
from scheduler.client.errors import ConfigurationError
from scheduler.client.http.parser import MAX_ERROR_BYTES
from scheduler.client.http.pool import Address, ConnectionPool, PoolOptions
from scheduler.client.http.request import Request
from scheduler.client.http.response import Response
from scheduler.client.http.stream import ResponseStream
from scheduler.client.http.tls import ClientTls
from scheduler.client.proxy_transport import ProxyTransport
from scheduler.client.socks import SocksProxy

CONNECTION_LIMIT: Final = 256
"""Sockets to the server: 100 binds, some twenty watches, and spare ones. The dispatcher bounds the
writes, and the reads that settle them."""

CONNECT_SECONDS: Final = 5.0
KEEPALIVE_SECONDS: Final = 60.0
"""Below the API server's own idle limit of 90 s, so that a reused connection is rarely a dead
one."""

ERROR_BODY_TIMEOUT_SECONDS: Final = 10.0
"""For the body of an error response to a request that opens a stream."""


class HttpTransport(Protocol):
    """A way to the server: `ConnectionPool` directly, `ProxyTransport` through a proxy."""

    async def exchange(self, request: Request, timeout: float) -> Response:
        """Send one request and read the whole response; errors as of `Transport.exchange`."""
        ...

    async def open_stream(self, request: Request, idle_timeout: float) -> ResponseStream:
        """Send one request and wait for the head of the response."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...


class Transport:
    """Owns the connections. Use `async with`; share it between `ApiClient`s."""

    def __init__(self, configuration: ClientConfiguration) -> None:
        """Prepare; nothing is sent.

        Raises:
            ConfigurationError: the server's address is not an HTTP URL.
        """
        self.configuration = configuration
        self._server = _split(configuration.server)
        self.host = self._server.hostname or ""
        #: Called after each write that the server forbade, whichever client sent it.
        self.on_forbidden_write = Signal[[]]()
        self._transport: HttpTransport | None = None

    async def __aenter__(self) -> Self:
        configuration = self.configuration
        socks = SocksProxy.of(configuration.proxy or "")
        options = PoolOptions(CONNECTION_LIMIT, KEEPALIVE_SECONDS, CONNECT_SECONDS, socks)
        if configuration.proxy is None or socks is not None:
            self._transport = ConnectionPool(_address(self._server, configuration), options)
        else:
            self._transport = ProxyTransport(configuration, options)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections and cancel a credential renewal; open streams raise an error."""
        if self._transport is not None:
            transport, self._transport = self._transport, None
            await transport.close()
            await self.configuration.credentials.close()

    def _open_transport(self) -> HttpTransport:
        if self._transport is None:
            raise RuntimeError("the transport is closed: use it within `async with`")
        return self._transport

    async def exchange(self, request: Request, timeout: float) -> Response:
        """Send one request and read the whole response, whatever its status.

        Raises:
            RequestTimeout: not complete within `timeout` seconds, waiting for a connection
                included.
            ResponseTooLarge: the body of the response exceeds the limit of the request.
            ConnectionFailed: no connection, or it broke.
        """
        return await self._open_transport().exchange(request, timeout)

    @asynccontextmanager
    async def stream(
        self, request: Request, *, idle_timeout: float
    ) -> AsyncIterator[ResponseStream]:
        """Open a response without end; it fails after `idle_timeout` seconds without data."""
        stream = await self._open_transport().open_stream(request, idle_timeout)
        try:
            yield stream
        finally:
            # Not kept for another request: a watch cannot be read to its end.
            stream.close()


async def read_error_body(stream: ResponseStream) -> bytes:
    """Read the body of an error response, at most MAX_ERROR_BYTES of it.

    Raises: as `ResponseStream.read`. A body that does not end in time is returned as far as it
    arrived.
    """
    pieces: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(ERROR_BODY_TIMEOUT_SECONDS):
            while size < MAX_ERROR_BYTES and (piece := await stream.read()):
                pieces.append(piece)
                size += len(piece)
    except TimeoutError:
        pass
    return b"".join(pieces)[:MAX_ERROR_BYTES]


def _address(server: SplitResult, configuration: ClientConfiguration) -> Address:
    encrypted = server.scheme == "https"
    return Address(
        server.hostname or "",
        server.port or (443 if encrypted else 80),
        (configuration.tls or ClientTls()) if encrypted else None,
        configuration.server_hostname,
        authority=server.netloc.rpartition("@")[2],
        prefix=server.path,
    )


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
