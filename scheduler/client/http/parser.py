"""ResponseParser: turns bytes of a connection into responses (RFC 9112). Pure: no I/O, no clock.

The parser is llhttp (`httptools`) in its strict mode, which refuses whatever two readers could
frame differently: two lengths, a length beside chunks, folded headers, a space before a colon,
line ends that are not CRLF. This module adds what llhttp leaves to its user: limits, and the
refusal of transfer codings other than chunked.

Invariant: the result does not depend on how the bytes are cut, and memory per response is bounded.
Bytes that are not a response raise ProtocolError, after which the connection cannot be used: the
start of the next response is unknown.
"""

from __future__ import annotations

from typing import Final

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

MAX_HEAD_BYTES: Final = 64 * 1024
"""Status line and headers, those of interim responses included. kube-apiserver sends about 500
bytes, and 4 KiB of warnings at most."""

MAX_INTERIM_RESPONSES: Final = 5
"""Responses 1xx before the final one, as Go's client; no request here asks for one."""

MAX_OVERHEAD_BYTES: Final = 64 * 1024
"""Chunk extensions and trailers between two bytes of a body."""

MAX_BODY_BYTES: Final = 32 * 1024 * 1024
"""One object as JSON: etcd stores 1.5 MiB of it by default, and escapes make six bytes of one."""

MAX_PAGE_BYTES: Final = 64 * 1024 * 1024
"""A page of a list: 500 nodes with long lists of images take 20 MiB. A page that is longer is
requested again in smaller ones, so that this does not limit the size of objects."""

MAX_UNPAGED_BYTES: Final = 512 * 1024 * 1024
"""A list read without pages, because their continue token expired."""

MAX_ERROR_BYTES: Final = 1024 * 1024
"""The Status of an error response."""

_NO_BODY: Final = (204, 304)
_SWITCHING_PROTOCOLS: Final = 101


class ProtocolError(Exception):
    """The peer did not send a valid HTTP/1.1 response."""


class BodyTooLargeError(ProtocolError):
    """The body goes past the limit of its request."""


class ResponseParser:
    """Parses the responses of one connection: `begin` one, feed bytes until it `is_complete`.

    One parser serves a connection for its whole life, since llhttp refers to the parser and the
    parser to llhttp: `close` it, or each of them waits for the garbage collector.
    """

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        #: llhttp's callback. Not a method, since every piece of every body passes here.
        self.on_body = self._parts.append
        self._llhttp: HttpResponseParser | None = HttpResponseParser(self)
        self.begin()

    def begin(self, max_body: int | None = MAX_BODY_BYTES) -> None:
        """Expect the next response; `max_body` limits its body, None is for a stream."""
        #: Status code; 0 until the head is read.
        self.status = 0
        #: Status line and headers, without the empty line.
        self.head = b""
        #: Whether the server leaves the connection open after this response.
        self.reusable = True
        #: Whether anything of the response has been fed.
        self.begun = False
        #: Whether bytes followed the response.
        self.trailing_data = False
        self._limit = max_body
        self._complete = False
        self._until_close = False
        self._interim = 0
        self._raw = b""
        self._head_end = 0
        self._body_size = 0
        self._overhead = 0

    def close(self) -> None:
        """Release llhttp; nothing can be fed any more."""
        self._llhttp = None

    def is_complete(self) -> bool:
        """Whether the whole response has been fed."""
        return self._complete

    def feed(self, data: bytes) -> bytes:
        """Parse bytes and return what they add to the body.

        Raises:
            ProtocolError: not a response, or one that exceeds its limits.
        """
        llhttp = self._llhttp
        if llhttp is None:
            raise ProtocolError("the connection was closed")
        self.begun = True
        in_head = not self.status
        if in_head:
            self._raw += data
        try:
            llhttp.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            if not self._complete:
                raise self._refusal(error) from None
            self.trailing_data = True
        if in_head:
            if len(self._raw) > MAX_HEAD_BYTES and not self.status:
                raise ProtocolError(f"a head of more than {MAX_HEAD_BYTES} bytes")
            if self.status:
                self._raw = b""
        parts = self._parts
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        parts.clear()
        if body:
            self._overhead = 0
            self._body_size += len(body)
            if self._limit is not None and self._body_size > self._limit:
                raise BodyTooLargeError(f"a body of more than {self._limit} bytes")
        elif not in_head:
            self._overhead += len(data)
            if self._overhead > MAX_OVERHEAD_BYTES:
                raise ProtocolError(
                    f"chunk extensions or trailers of more than {MAX_OVERHEAD_BYTES} bytes"
                )
        return body

    def feed_end(self) -> bool:
        """Note the end of the connection; return whether that completes the response."""
        if self._until_close:
            self._complete = True
        return self._complete

    def _refusal(self, error: Exception) -> ProtocolError:
        raised = error.__context__
        if isinstance(raised, ProtocolError):
            # Raised by one of the callbacks below and wrapped by llhttp.
            return raised
        if isinstance(error, HttpParserUpgrade):
            return ProtocolError("the server switched protocols without a request")
        return ProtocolError(f"no HTTP/1.1 response: {error}")

    # ------------------------------------------------------------------------- callbacks of llhttp

    def on_message_begin(self) -> None:
        """Refuse a second response."""
        if self._complete:
            raise ProtocolError("a response to no request")

    def on_headers_complete(self) -> None:
        """Keep the head, and refuse framing that llhttp would let pass."""
        raw = self._raw
        # Empty lines may precede a status line.
        start = raw.find(b"HTTP/", self._head_end)
        end = raw.find(b"\r\n\r\n", start)
        self._head_end = end + 4
        if end > MAX_HEAD_BYTES:
            raise ProtocolError(f"a head of more than {MAX_HEAD_BYTES} bytes")
        head = raw[start:end]
        llhttp = self._llhttp
        assert llhttp is not None
        status = llhttp.get_status_code()
        if not head.startswith((b"HTTP/1.1 ", b"HTTP/1.0 ")) or status < 100:
            raise ProtocolError(f"no HTTP/1.1 response: {head[:40]!r}")
        if status < 200:
            self._count_interim(status)
            return
        # llhttp has refused spaces before colons and line ends within values.
        lower = head.lower()
        coded = b"\r\ntransfer-encoding:" in lower
        if coded:
            _check_chunked(lower)
        elif status not in _NO_BODY and b"\r\ncontent-length:" not in lower:
            self._until_close, self.reusable = True, False
        self.status, self.head = status, head
        if status >= 400 and self._limit is not None:
            self._limit = min(self._limit, MAX_ERROR_BYTES)

    def _count_interim(self, status: int) -> None:
        self._interim += 1
        if status == _SWITCHING_PROTOCOLS:
            raise ProtocolError("the server switched protocols without a request")
        if self._interim > MAX_INTERIM_RESPONSES:
            raise ProtocolError(f"more than {MAX_INTERIM_RESPONSES} interim responses")

    def on_message_complete(self) -> None:
        """Note the end of the response, unless it is an interim one's."""
        if self.status:
            llhttp = self._llhttp
            assert llhttp is not None
            self._complete = True
            self.reusable = llhttp.should_keep_alive()


def _check_chunked(head: bytes) -> None:
    """Refuse transfer codings other than chunked; `head` is lower case."""
    codings = [
        line.partition(b":")[2].strip(b" \t")
        for line in head.split(b"\r\n")
        if line.startswith(b"transfer-encoding:")
    ]
    if codings != [b"chunked"] or head.startswith(b"http/1.0"):
        # gzip would have to be decoded, by which a small body can become a large one.
        raise ProtocolError(
            f"a transfer coding that is not supported: {b', '.join(codings)[:80]!r}"
        )
