"""The HTTPS server around an application: sockets, TLS, and what bounds every connection.

Invariants: a connection serves one request and ends, finished or not, after a fixed time; there is
a limit on connections, and the oldest gives way to the newest. So a client that is slow, silent or
hostile costs one entry in a table for half a minute, and a health probe always gets through. Only
time bounds a TLS handshake: until it is done, asyncio keeps the connection to itself.

One request for each connection because nothing else bounds how slowly the next head may trickle in;
with the elliptic-curve key a handshake costs a fraction of a millisecond, and probes open a new
connection each time anyway.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Self, cast

import structlog
from aiohttp import web

from scheduler.service.options import ServingOptions
from scheduler.service.serving.certificates import ServingError, ServingTls

_log = structlog.get_logger(__name__)

CONNECTION_SECONDS: Final = 30.0
"""From accepting a connection to cutting it; three times the longest wait for an access review."""

HANDSHAKE_SECONDS: Final = 5.0
"""A distant client on a bad line needs one."""

MAX_CONNECTIONS: Final = 512
"""Half of what descriptors are usually limited to."""

MAX_HEAD_BYTES: Final = 32 * 1024
"""For the request line and for each header; tokens of identity providers are long."""

STOP_SECONDS: Final = 5.0
"""For requests in progress when the process ends, as upstream."""


@dataclass(frozen=True, slots=True)
class ServerStatistics:
    """Connections of a server."""

    open: int
    accepted: int
    timed_out: int
    displaced: int


class HttpsServer:
    """Serves an application from `start` (or `async with`) to `stop`."""

    def __init__(
        self, app: web.Application, options: ServingOptions, tls: ServingTls | None
    ) -> None:
        """`tls` None serves plain HTTP, which only tests want."""
        self._options = options
        self._tls = tls
        self._runner = web.AppRunner(
            app,
            access_log=None,
            handle_signals=False,
            shutdown_timeout=STOP_SECONDS,
            lingering_time=1.0,
            max_line_size=MAX_HEAD_BYTES,
            max_field_size=MAX_HEAD_BYTES,
        )
        self._server: asyncio.Server | None = None
        self._connections: OrderedDict[_Connection, None] = OrderedDict()
        self._accepted = self._timed_out = self._displaced = 0
        self._make_protocol: Callable[[], asyncio.Protocol] | None = None

    @property
    def port(self) -> int:
        """The port that is listened on."""
        assert self._server is not None
        port = self._server.sockets[0].getsockname()[1]
        assert isinstance(port, int)
        return port

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listen.

        Raises:
            ServingError: the address cannot be listened on.
        """
        await self._runner.setup()
        self._make_protocol = self._runner.server
        context: ssl.SSLContext | None = self._tls.context if self._tls is not None else None
        loop = asyncio.get_running_loop()
        options = self._options
        try:
            self._server = await loop.create_server(
                self._accept,
                _host(options.bind_address),
                options.secure_port,
                ssl=context,
                ssl_handshake_timeout=HANDSHAKE_SECONDS if context is not None else None,
                reuse_port=options.permit_port_sharing or None,
            )
        except OSError as error:
            await self._runner.cleanup()
            where = f"{options.bind_address}:{options.secure_port}"
            text = error.strerror or str(error)
            raise ServingError(f"cannot listen on {where}: {text}") from error
        _log.info("serving", address=options.bind_address, port=self.port)

    async def stop(self) -> None:
        """Stop listening, let requests in progress end, and close every connection."""
        if self._server is not None:
            self._server.close()
        await self._runner.cleanup()
        for connection in list(self._connections):
            connection.cut()
        if self._server is not None:
            await self._server.wait_closed()
            self._server = None

    def statistics(self) -> ServerStatistics:
        """Connections now and since the start."""
        return ServerStatistics(
            len(self._connections), self._accepted, self._timed_out, self._displaced
        )

    def _accept(self) -> asyncio.Protocol:
        """Make the protocol of a new connection; asyncio's callback, so it must not raise."""
        if self._tls is not None:
            self._tls.refresh()
        assert self._make_protocol is not None
        while len(self._connections) >= MAX_CONNECTIONS:
            oldest = next(iter(self._connections))
            self._displaced += 1
            oldest.cut()
        self._accepted += 1
        connection = _Connection(self._make_protocol(), self._expired, self._ended)
        self._connections[connection] = None
        return connection

    def _expired(self, connection: _Connection) -> None:
        self._timed_out += 1
        connection.cut()

    def _ended(self, connection: _Connection) -> None:
        self._connections.pop(connection, None)


class _Connection(asyncio.Protocol):
    """Passes everything to the protocol of the HTTP server, and cuts the connection in time.

    It counts from accepting on. A connection that never completes its handshake is never made; its
    timer then only takes it out of the table.
    """

    def __init__(
        self,
        inner: asyncio.Protocol,
        expired: Callable[[_Connection], None],
        ended: Callable[[_Connection], None],
    ) -> None:
        self._inner = inner
        self._ended = ended
        self._transport: asyncio.Transport | None = None
        self._is_cut = False
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(CONNECTION_SECONDS, expired, self)

    def cut(self) -> None:
        """End the connection now."""
        self._is_cut = True
        self._timer.cancel()
        self._ended(self)
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start, unless the connection was cut during its handshake."""
        # uvloop's transports are no subclasses of asyncio's, only alike.
        self._transport = cast("asyncio.Transport", transport)
        self._inner.connection_made(transport)
        if self._is_cut:
            self.cut()

    def data_received(self, data: bytes) -> None:
        """Pass on."""
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        """Pass on."""
        return self._inner.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Pass on, and forget."""
        self._timer.cancel()
        self._ended(self)
        self._inner.connection_lost(exc)

    def pause_writing(self) -> None:
        """Pass on."""
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """Pass on."""
        self._inner.resume_writing()


def _host(address: str) -> str | None:
    """None listens on all addresses of both families, what `0.0.0.0` means upstream too."""
    return None if address in ("", "0.0.0.0", "::") else address  # noqa: S104  (a comparison)
