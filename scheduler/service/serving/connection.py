"""One accepted connection: the socket before its first byte, the TLS handshake, one HTTP request.

Each stage has its deadline, and `cut` ends any of them at once. A silent socket costs only its
entry in the table: TLS state and a task exist from the first byte on.

HTTP is aiohttp's. Added here: a bound on the bytes of a connection, and fixed responses to
malformed requests, with rate-limited log lines.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, cast

from aiohttp import web

from scheduler.service.limited_log import LimitedLog
from scheduler.service.serving.connections import ConnectionStage

DEADLINES: Final = {
    ConnectionStage.SILENT: 5.0,
    ConnectionStage.STARTING: 10.0,
    ConnectionStage.SERVING: 30.0,
}
"""Seconds that a connection may stay in each stage: until its first byte (a distant client on a bad
line needs one); for handshake and request head; for the response, three times the longest wait for
an access review."""

MAX_LINE_BYTES: Final = 32 * 1024
"""For the request line and for each header; tokens of identity providers are long."""

MAX_RECEIVED_BYTES: Final = 128 * 1024
"""For a whole request. The largest body that is read is a question of 64 KiB."""

LINGERING_SECONDS: Final = 1.0
"""How long an unread body is discarded, so that the client gets the response and no reset."""

_RESET: Final = struct.pack("ii", 1, 0)
"""SO_LINGER: the kernel forgets the connection as well."""


class ServedConnection:
    """A connection from accepting to its end."""

    def __init__(
        self,
        accepted: socket.socket,
        client: str,
        tls: ssl.SSLContext | None,
        make_protocol: Callable[[ServedConnection], asyncio.Protocol],
        *,
        advanced: Callable[[ServedConnection, ConnectionStage], None],
        ended: Callable[[ServedConnection], None],
        expired: Callable[[ServedConnection], None],
    ) -> None:
        """Wait for the first byte.

        `advanced` is called with each later stage, `expired` when the deadline of a stage has
        passed, and `ended` once at the end.
        """
        self.client = client
        self._socket = accepted
        self._tls = tls
        self._make_protocol = make_protocol
        self._advanced = advanced
        self._ended = ended
        self._expired = expired
        self._loop = asyncio.get_running_loop()
        self._opening: asyncio.Task[None] | None = None
        self._owns_socket = True
        self._transport: asyncio.Transport | None = None
        self._gone: asyncio.Future[None] | None = None
        self._over = False
        self._timer = self._loop.call_later(DEADLINES[ConnectionStage.SILENT], expired, self)
        self._loop.add_reader(accepted.fileno(), self._readable)

    def cut(self) -> None:
        """Close the connection now, whatever its stage."""
        if self._owns_socket:
            self._close_socket()
        if self._opening is not None:
            self._opening.cancel()
        if self._transport is not None:
            self._transport.abort()
        self._end()

    async def wait_closed(self) -> None:
        """Wait for the end of a connection that was cut."""
        if self._opening is not None:
            await asyncio.wait((self._opening,))
        if self._transport is not None:
            self._gone = self._loop.create_future()
            await self._gone

    def made(self, transport: asyncio.BaseTransport) -> None:
        """Note that the handshake is done. The protocol calls this method, as the next two."""
        # uvloop's transports are no subclasses of asyncio's, only alike.
        self._transport = cast("asyncio.Transport", transport)
        if self._over:
            self._transport.abort()

    def started(self) -> None:
        """Note that the request head is complete."""
        self._advance(ConnectionStage.SERVING)

    def lost(self) -> None:
        """Note that the transport is closed."""
        self._transport = None
        if self._gone is not None:
            self._gone.set_result(None)
        self._end()

    def _advance(self, stage: ConnectionStage) -> None:
        if self._over:
            return
        self._timer.cancel()
        self._timer = self._loop.call_later(DEADLINES[stage], self._expired, self)
        self._advanced(self, stage)

    def _readable(self) -> None:
        self._loop.remove_reader(self._socket.fileno())
        self._advance(ConnectionStage.STARTING)
        self._opening = self._loop.create_task(self._open(), name="opening a connection")

    async def _open(self) -> None:
        self._owns_socket = False
        # Longer than our own deadline, which therefore ends a slow handshake.
        timeout = None if self._tls is None else 2 * DEADLINES[ConnectionStage.STARTING]
        try:
            await self._loop.connect_accepted_socket(
                lambda: self._make_protocol(self),
                self._socket,
                ssl=self._tls,
                ssl_handshake_timeout=timeout,
            )
        except (OSError, asyncio.CancelledError):
            # No acceptable TLS, or the connection was cut. Its transport closes the socket.
            self._end()

    def _close_socket(self) -> None:
        self._owns_socket = False
        self._loop.remove_reader(self._socket.fileno())
        with suppress(OSError):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._socket.close()

    def _end(self) -> None:
        if not self._over:
            self._over = True
            self._timer.cancel()
            self._ended(self)


class RequestProtocol(web.RequestHandler):
    """HTTP on one connection, with fixed texts for malformed requests."""

    def __init__(self, server: web.Server, connection: ServedConnection, log: LimitedLog) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type]  # as AppRunner does without one
            max_line_size=MAX_LINE_BYTES,
            max_field_size=MAX_LINE_BYTES,
            lingering_time=LINGERING_SECONDS,
            # Nothing here reads a compressed body.
            auto_decompress=False,
        )
        self.connection = connection
        self._log = log
        self._received = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Pass the transport to the connection."""
        self.connection.made(transport)
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Report the end to the connection."""
        super().connection_lost(exc)
        self.connection.lost()

    def data_received(self, data: bytes) -> None:
        """Pass data on, up to a bound; further data is dropped until the deadline."""
        self._received += len(data)
        if self._received <= MAX_RECEIVED_BYTES:
            super().data_received(data)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Respond to a malformed request, or one whose handler failed, with a fixed text."""
        if status == 400:
            # Not the message: it quotes the request.
            self._log.warning(
                "malformed request",
                client=self.connection.client,
                kind="version" if exc is None else type(exc).__name__,
            )
        elif exc is not None:
            self._log.exception("cannot answer a request", exc)
        if request.writer.output_size > 0:
            # As in aiohttp's own method: closes the connection.
            raise ConnectionError("the response has begun")
        response = web.Response(status=status, text=_TEXTS.get(status, "Error") + "\n")
        response.force_close()
        return response

    def log_exception(self, *args: Any, **fields: Any) -> None:
        """Log other errors of aiohttp, rate-limited."""
        error = fields.get("exc_info")
        if isinstance(error, BaseException):
            self._log.exception("cannot serve a connection", error)


_TEXTS: Final = {400: "400 Bad Request", 500: "500 Internal Server Error", 504: "504 Timeout"}
