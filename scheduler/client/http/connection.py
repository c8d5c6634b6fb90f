"""One connection to the server: one exchange at a time, or one response read as a stream.

Invariant: a connection that is reused holds nothing of its last exchange. After a timeout, a
cancellation, unexpected bytes, or a response that announces the end, it is closed instead.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Final, cast

from scheduler.client.http.parser import MAX_BODY_BYTES, ProtocolError, ResponseParser
from scheduler.client.http.response import Response
from scheduler.client.http.tls import ResumingContext

HIGH_WATER_BYTES: Final = 4 * 1024 * 1024
"""Unread bytes of a stream beyond which reading from the socket is paused."""

FAILURES: Final = (OSError, ProtocolError)
"""Everything an exchange can raise: ConnectionLost, TimeoutError and TLS errors are OSErrors."""


class ConnectionLost(ConnectionError):  # noqa: N818  (says what happened)
    """The connection ended before the response did.

    `unanswered` is true when no byte of the response had arrived.
    """

    def __init__(self, text: str, *, unanswered: bool) -> None:
        super().__init__(text)
        self.unanswered = unanswered


class Connection(asyncio.Protocol):
    """A protocol for `loop.create_connection`; the pool owns it."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, on_close: Callable[[Connection], None]
    ) -> None:
        #: Loop time at which it became idle.
        self.idle_since = 0.0
        #: The TLS context it was opened with; None without TLS.
        self.context: ResumingContext | None = None
        #: Whether a request has been sent on it.
        self.used = False
        #: Whether more than HIGH_WATER_BYTES are unread, so that the socket is not read.
        self.reading_paused = False
        self._loop = loop
        self._on_close = on_close
        self._transport: asyncio.Transport | None = None
        self._parser = ResponseParser()
        self._body: list[bytes] = []
        self._waiter: asyncio.Future[None] | None = None
        self._stream = False
        # Loop time of the last byte of a stream, and the timer of its idle timeout.
        self._last_received = 0.0
        self._timer: asyncio.TimerHandle | None = None
        # The error that ended a stream.
        self._broken: Exception | None = None

    # ------------------------------------------------------------------------------------ exchange

    @property
    def open(self) -> bool:
        """Whether a request can be sent."""
        transport = self._transport
        return transport is not None and not transport.is_closing()

    @property
    def handshake(self) -> ssl.SSLObject | None:
        """The TLS state of an open connection; None without TLS."""
        transport = self._transport
        return None if transport is None else transport.get_extra_info("ssl_object")

    @property
    def reusable(self) -> bool:
        """Whether the exchange is complete, so that another may follow."""
        parser = self._parser
        ended = not self.used or (
            parser.is_complete() and parser.reusable and not parser.trailing_data
        )
        # A server may respond before it has read the whole request.
        return (
            ended
            and self.open
            and cast("asyncio.Transport", self._transport).get_write_buffer_size() == 0
        )

    async def exchange(
        self, request: bytes, timeout: float, max_body: int = MAX_BODY_BYTES
    ) -> Response:
        """Send a request and read the whole response.

        Raises:
            TimeoutError: not complete within `timeout` seconds.
            ConnectionLost: the connection ended first.
            ProtocolError: not a valid response, or its body has more than `max_body` bytes.
        """
        parser = self._begin(request, max_body)
        waiter = self._waiter = self._loop.create_future()
        timer = self._loop.call_later(timeout, self._expire, timeout)
        try:
            await waiter
        except BaseException:
            self.abort()
            raise
        finally:
            timer.cancel()
            self._waiter = None
            # A future with an exception refers to this frame, and the frame to the future.
            del waiter
        body, self._body = self._body, []
        return Response(parser.status, body[0] if len(body) == 1 else b"".join(body), parser.head)

    def _begin(self, request: bytes, max_body: int | None) -> ResponseParser:
        transport = self._transport
        if transport is None or transport.is_closing():
            raise ConnectionLost("the connection was lost", unanswered=True)
        parser = self._parser
        parser.begin(max_body)
        self._body = []
        self.used = True
        transport.write(request)
        return parser

    def _expire(self, timeout: float) -> None:
        self._fail(TimeoutError(f"no complete response within {timeout:g} s"))

    # -------------------------------------------------------------------------------------- stream

    async def open_stream(self, request: bytes, idle_timeout: float) -> ResponseParser:
        """Send a request and wait for the head of a response whose body is read piece by piece.

        `idle_timeout` limits the wait, in seconds, for the whole head, and then for each next byte
        of the body: interim responses, chunk extensions and trailers do not count.

        Raises: as `exchange`.
        """
        parser = self._begin(request, None)
        self._stream = True
        self._last_received = self._loop.time()
        self._timer = self._loop.call_later(idle_timeout, self._check_idle, idle_timeout)
        while not parser.status:
            await self.wait_readable()
        return parser

    def _check_idle(self, idle_timeout: float) -> None:
        # One timer that looks back, instead of one that each event resets.
        since = self._loop.time() if self.reading_paused else self._last_received
        left = since + idle_timeout - self._loop.time()
        if left > 0:
            self._timer = self._loop.call_later(left, self._check_idle, idle_timeout)
        else:
            self._fail(TimeoutError(f"no data for {idle_timeout:g} s"))
            self.abort()

    async def wait_readable(self) -> None:
        """Wait until more of a stream has arrived.

        Raises:
            ConnectionLost, ProtocolError, TimeoutError: the stream ended with this error.
        """
        if self._broken is not None:
            raise self._broken
        waiter = self._waiter = self._loop.create_future()
        try:
            await waiter
        finally:
            self._waiter = None
            del waiter

    def read_nowait(self) -> bytes:
        """Return the bytes of a stream that arrived since the last call; resume reading."""
        body, self._body = self._body, []
        if self.reading_paused:
            self.reading_paused = False
            self._last_received = self._loop.time()
            if self._transport is not None:
                self._transport.resume_reading()
        return body[0] if len(body) == 1 else b"".join(body)

    # ------------------------------------------------------------------------------------ protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        # uvloop's transports are no subclasses of asyncio's, only alike.
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Parse, and wake the caller that waits."""
        parser = self._parser
        if not self.used or parser.is_complete():
            # A response to no request: the next one could not be matched to its request either.
            self.abort()
            return
        head_before = parser.status
        try:
            piece = parser.feed(data)
        except ProtocolError as error:
            self._fail(error)
            self.abort()
            return
        if piece:
            self._body.append(piece)
        if self._stream:
            if piece or parser.status != head_before:
                self._last_received = self._loop.time()
                self._wake()
                self._pause_reading()
            elif parser.is_complete():
                self._wake()
        elif parser.is_complete():
            self._wake()

    def _pause_reading(self) -> None:
        if self.reading_paused or self._transport is None or len(self._body) == 1:
            return
        if sum(map(len, self._body)) > HIGH_WATER_BYTES:
            self.reading_paused = True
            self._transport.pause_reading()

    def eof_received(self) -> None:
        """Complete a response that ends with the connection, and close."""
        parser = self._parser
        if self.used and not parser.is_complete() and parser.feed_end():
            self._wake()
        # Abort, not close: under TLS asyncio first sends close_notify and `open` stays true
        # meanwhile.
        self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the exchange or stream in progress."""
        parser = self._parser
        self._transport = None
        if self._timer is not None:
            self._timer.cancel()
        if not self.used or not parser.is_complete():
            unanswered = not self.used or not parser.begun
            text = "the connection was lost" if exc is None else f"the connection was lost: {exc}"
            self._fail(ConnectionLost(text, unanswered=unanswered))
        parser.close()
        self._on_close(self)

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _fail(self, error: Exception) -> None:
        if self._stream and self._broken is None:
            self._broken = error
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_exception(error)
