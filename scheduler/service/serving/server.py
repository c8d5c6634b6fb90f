"""The HTTPS server of a request handler, with bounds on every connection.

Invariants: a connection is counted before its TLS handshake, serves one request and ends, finished
or not, after a fixed time; all connections and those of one client are limited, and at the limit an
older one is closed for the newest (`connections`). So a client that is slow, silent or hostile
costs an entry in a table for some seconds, and a health probe always gets through.

One request for each connection because nothing else bounds how slowly the next head may trickle in;
with the elliptic-curve key a handshake costs a fraction of a millisecond, and probes open a new
connection each time anyway.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, Self

import structlog
from aiohttp import HttpVersion10, web
from yarl import URL

from scheduler.service.limited_log import LimitedLog
from scheduler.service.options import ServingOptions
from scheduler.service.serving import descriptors
from scheduler.service.serving.certificates import ServingError, ServingTls
from scheduler.service.serving.connection import RequestProtocol, ServedConnection
from scheduler.service.serving.connections import ConnectionTable, client_of
from scheduler.service.serving.listening import Acceptor, listen

_log = structlog.get_logger(__name__)

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

CLIENT_SHARE: Final = 2
"""One client may have half of all connections: several may stand behind one address."""

_ADVICE: Final = {
    errno.EADDRINUSE: "; another scheduler may run here: choose another --secure-port",
    errno.EACCES: "; choose a --secure-port above 1023",
    errno.EADDRNOTAVAIL: "; give --bind-address an address of this machine",
}
"""What to do about an error of listening."""
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
    """Serves requests from `start` (or `async with`) to `stop`."""

    def __init__(
        self,
        handler: Handler,
        options: ServingOptions,
        tls: ServingTls | None,
        *,
        max_connections: int | None = None,
    ) -> None:
        """Prepare; without `tls` it serves plain HTTP, which only tests do.

        `max_connections`: by default as many as the descriptors allow.
        """
        self._handler = handler
        self._options = options
        self._tls = tls
        limit = max_connections or descriptors.connection_limit()
        self._connections: ConnectionTable[ServedConnection] = ConnectionTable(
            limit=limit, limit_per_client=max(1, limit // CLIENT_SHARE)
        )
        self._accepted = self._timed_out = self._displaced = 0
        self._limited_log = LimitedLog(__name__)
        self._acceptors: list[Acceptor] = []
        self._http: web.Server | None = None
        #: The port listened on, 0 before `start`.
        self.port = 0

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
        options = self._options
        self._http = web.Server(self._serve, request_factory=_request)
        try:
            listeners = listen(options)
        except OSError as error:
            where = f"{options.bind_address}:{options.secure_port}"
            text = error.strerror or str(error)
            advice = _ADVICE.get(error.errno or 0, "")
            raise ServingError(f"cannot listen on {where}: {text}{advice}") from error
        self.port = listeners[0].getsockname()[1]
        self._acceptors = [Acceptor(each, self._accept, self._make_room) for each in listeners]
        for acceptor in self._acceptors:
            acceptor.start()
        _log.info("serving", address=options.bind_address, port=self.port)

    async def stop(self) -> None:
        """Stop listening, let requests in progress end, and close every connection."""
        for acceptor in self._acceptors:
            acceptor.close()
        self._acceptors.clear()
        if self._http is not None:
            self._http.pre_shutdown()
            await self._http.shutdown(STOP_SECONDS)
        left = self._connections.connections()
        for connection in left:
            connection.cut()
        await asyncio.gather(*(connection.wait_closed() for connection in left))

    def statistics(self) -> ServerStatistics:
        """Return the connections now and since the start."""
        return ServerStatistics(
            len(self._connections), self._accepted, self._timed_out, self._displaced
        )

    def _accept(self, accepted: socket.socket, host: str) -> None:
        """Add a new connection; a callback of the loop, so it must not raise."""
        if self._tls is not None:
            self._tls.refresh()
        self._accepted += 1
        client = client_of(host)
        connection = ServedConnection(
            accepted,
            client,
            None if self._tls is None else self._tls.context,
            self._make_protocol,
            advanced=self._connections.advance,
            ended=self._connections.remove,
            expired=self._expire,
        )
        victim = self._connections.add(connection, client)
        if victim is not None:
            self._displace(victim)

    def _make_protocol(self, connection: ServedConnection) -> asyncio.Protocol:
        assert self._http is not None
        return RequestProtocol(self._http, connection, self._limited_log)

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        protocol = request.protocol
        assert isinstance(protocol, RequestProtocol)
        if isinstance(request, _MalformedRequest):
            return protocol.handle_error(request, 400)
        protocol.connection.started()
        return await self._handler(request)

    def _expire(self, connection: ServedConnection) -> None:
        self._timed_out += 1
        connection.cut()

    def _make_room(self, error: OSError) -> None:
        self._limited_log.warning("cannot accept connections", error=error.strerror)
        victim = self._connections.oldest()
        if victim is not None:
            self._displace(victim)

    def _displace(self, connection: ServedConnection) -> None:
        self._displaced += 1
        self._limited_log.warning(
            "too many connections: closing the oldest", client=connection.client
        )
        connection.cut()


class _Request(web.BaseRequest):
    """A request whose response gets the headers common to all."""

    async def _prepare_hook(self, response: web.StreamResponse) -> None:
        """Complete the headers; aiohttp calls it before it sends them."""
        response.headers.setdefault("Cache-Control", "no-cache, private")
        response.headers.setdefault("X-Content-Type-Options", "nosniff")
        response.headers.popall("Server", None)
        # One request for each connection; the client should know.
        response.force_close()
        response.headers["Connection"] = "close"


class _MalformedRequest(_Request):
    """A request of a version before HTTP/1.0, which the parser accepts; it may have no target."""


def _request(message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> _Request:
    """Build a request, as the default factory of `web.Server` does, of our classes."""
    kind = _Request
    if message.version < HttpVersion10:
        kind = _MalformedRequest
        message = message._replace(path="/", url=URL("/"), version=HttpVersion10)
    return kind(message, payload, protocol, writer, task, asyncio.get_running_loop())
