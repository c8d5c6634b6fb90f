"""The HTTPS server around an application: sockets, TLS, and what bounds every connection.

Ours and not aiohttp's, which would be a ninth of the memory of an idle process and a fifth of its
start, for a few GETs a minute.

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
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final, Self, cast

import structlog

from scheduler.client.clock import Clock, SystemClock
from scheduler.service.options import ServingOptions
from scheduler.service.serving import answers
from scheduler.service.serving.answers import Answer
from scheduler.service.serving.certificates import ServingError, ServingTls
from scheduler.service.serving.requests import BadRequestError, Request, RequestParser

_log = structlog.get_logger(__name__)

CONNECTION_SECONDS: Final = 30.0
"""From accepting a connection to cutting it; three times the longest wait for an access review."""

HANDSHAKE_SECONDS: Final = 5.0
"""A distant client on a bad line needs one."""

MAX_CONNECTIONS: Final = 512
"""Half of what descriptors are usually limited to."""

STOP_SECONDS: Final = 5.0
"""For requests in progress when the process ends, as upstream."""

LINGER_SECONDS: Final = 1.0
"""How long the rest of a request that is answered already may take to arrive. Closing before would
reset the connection, and the answer with it."""

Responder = Callable[[Request], Awaitable[Answer]]
"""Gives the answer to a request; `application.Application` is one."""


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
        self,
        app: Responder,
        options: ServingOptions,
        tls: ServingTls | None,
        clock: Clock | None = None,
    ) -> None:
        """`tls` None serves plain HTTP, which only tests want."""
        self._app = app
        self._options = options
        self._tls = tls
        self._clock = clock or SystemClock()
        self._server: asyncio.Server | None = None
        self._connections: OrderedDict[_Connection, None] = OrderedDict()
        self._at_work: set[asyncio.Task[None]] = set()
        self._accepted = self._timed_out = self._displaced = 0

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
            where = f"{options.bind_address}:{options.secure_port}"
            text = error.strerror or str(error)
            raise ServingError(f"cannot listen on {where}: {text}") from error
        _log.info("serving", address=options.bind_address, port=self.port)

    async def stop(self) -> None:
        """Stop listening, let requests in progress end, and close every connection."""
        if self._server is not None:
            self._server.close()
        if self._at_work:
            _, late = await asyncio.wait(self._at_work, timeout=STOP_SECONDS)
            for task in late:
                task.cancel()
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
        while len(self._connections) >= MAX_CONNECTIONS:
            oldest = next(iter(self._connections))
            self._displaced += 1
            oldest.cut()
        self._accepted += 1
        connection = _Connection(self._serve, self._expired, self._ended)
        self._connections[connection] = None
        return connection

    def _serve(self, connection: _Connection, request: Request | BadRequestError) -> None:
        """Answer in a task of its own."""
        task = asyncio.create_task(self._answer(connection, request), name="request")
        self._at_work.add(task)
        task.add_done_callback(self._at_work.discard)

    async def _answer(self, connection: _Connection, request: Request | BadRequestError) -> None:
        with_body = True
        if isinstance(request, BadRequestError):
            answer = answers.bad_request(request.status, str(request))
        else:
            with_body = request.method != "HEAD"
            try:
                answer = await self._app(request)
            except Exception:  # noqa: BLE001 - boundary of an endpoint: the server goes on
                _log.exception("an endpoint failed", path=request.path)
                answer = answers.error(500, "500 internal server error")
        connection.answer(answer.encode(self._clock.now(), with_body=with_body))

    def _expired(self, connection: _Connection) -> None:
        self._timed_out += 1
        connection.cut()

    def _ended(self, connection: _Connection) -> None:
        self._connections.pop(connection, None)


class _Connection(asyncio.Protocol):
    """Reads a request, sends its answer, and ends in time.

    It counts from accepting on. A connection that never completes its handshake is never made; its
    timer then only takes it out of the table.
    """

    def __init__(
        self,
        serve: Callable[[_Connection, Request | BadRequestError], None],
        expired: Callable[[_Connection], None],
        ended: Callable[[_Connection], None],
    ) -> None:
        self._serve = serve
        self._ended = ended
        self._transport: asyncio.Transport | None = None
        self._parser = RequestParser()
        self._has_request = self._is_answered = self._is_cut = False
        self._timer = asyncio.get_running_loop().call_later(CONNECTION_SECONDS, expired, self)

    def cut(self) -> None:
        """End the connection now."""
        self._is_cut = True
        self._timer.cancel()
        self._ended(self)
        if self._transport is not None:
            self._transport.abort()

    def answer(self, data: bytes) -> None:
        """Send the answer and close, when the client has sent all of its request."""
        self._is_answered = True
        if self._transport is None or self._transport.is_closing():
            return
        self._transport.write(data)
        if self._parser.complete:
            self._transport.close()
        else:
            asyncio.get_running_loop().call_later(LINGER_SECONDS, self._transport.close)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start, unless the connection was cut during its handshake."""
        # uvloop's transports are no subclasses of asyncio's, only alike.
        self._transport = cast("asyncio.Transport", transport)
        if self._is_cut:
            self.cut()

    def data_received(self, data: bytes) -> None:
        """Read on; after the request, only to see it end."""
        assert self._transport is not None
        if self._has_request:
            self._parser.discard(data)
            if self._is_answered and self._parser.complete:
                self._transport.close()
            return
        try:
            request = self._parser.feed(data)
        except BadRequestError as problem:
            self._has_request = True
            self._serve(self, problem)
            return
        if request is not None:
            self._has_request = True
            certificate = self._transport.get_extra_info("peercert")
            self._serve(self, replace(request, certificate=certificate))
        elif self._parser.wants_continue:
            self._transport.write(answers.CONTINUE)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        self._timer.cancel()
        self._ended(self)
        self._transport = None


def _host(address: str) -> str | None:
    """None listens on all addresses of both families, what `0.0.0.0` means upstream too."""
    return None if address in ("", "0.0.0.0", "::") else address  # noqa: S104  (a comparison)
