"""Bytes of a connection to the one request in them (RFC 9112). Pure: no sockets, no clock.

Invariants: however the bytes are cut, the same request comes out; and no more is kept of them than
`MAX_HEAD_BYTES` and `MAX_BODY_BYTES`. As a connection serves one request, what follows the request
is of no interest, and where it ends matters only to who closes the connection.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

MAX_HEAD_BYTES: Final = 32 * 1024
"""For request line and headers together; tokens of identity providers are long."""

MAX_BODY_BYTES: Final = 1024
"""What is kept of a body. Nothing that is served reads one, but for one number."""

_MAX_QUERY_FIELDS: Final = 100
_MAX_DIGITS: Final = 18
_END: Final = b"\r\n\r\n"
_REQUEST_LINE: Final = re.compile(rb"([A-Z]{1,32}) ([!-~]+) HTTP/1\.([01])")
_HEADER: Final = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\t -~\x80-\xff]*)")


class BadRequestError(Exception):
    """What arrived is no request that can be answered; the message says why."""

    def __init__(self, reason: str, status: int = 400) -> None:
        super().__init__(reason)
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request, read as far as anything here wants to know."""

    method: str
    #: Decoded, without dot segments: what is authorised is what is served.
    path: str
    #: The first value of each field.
    query: Mapping[str, str]
    fields: tuple[tuple[str, str], ...]
    #: By lower-case name; repeated ones are joined by commas.
    headers: Mapping[str, str]
    body: bytes
    #: The client's certificate as `ssl` gives it; None without one.
    certificate: Mapping[str, Any] | None = None

    def all_of(self, name: str) -> list[str]:
        """Every value of a field of the query."""
        return [value for each, value in self.fields if each == name]


class RequestParser:
    """Parses one request: feed it bytes until it gives the request."""

    __slots__ = ("_ended", "_head", "_left", "_received")

    def __init__(self) -> None:
        self._received = bytearray()
        self._head: tuple[str, str, dict[str, str]] | None = None
        #: Whether the end of the head was seen, whatever was in it.
        self._ended = False
        #: Bytes of the body that have not arrived.
        self._left = 0

    @property
    def complete(self) -> bool:
        """Whether head and body have arrived altogether, kept or not, good or bad."""
        return self._ended and self._left <= 0

    @property
    def wants_continue(self) -> bool:
        """Whether the client waits to be told that it may send the body."""
        return (
            self._head is not None
            and self._left > 0
            and not self._received
            and self._head[2].get("expect", "").lower() == "100-continue"
        )

    def feed(self, data: bytes) -> Request | None:
        """Take bytes as they came; the request when there is enough of it.

        Raises:
            BadRequestError: it cannot be answered but with an error.
        """
        self._received += data
        if self._head is None:
            end = self._received.find(_END)
            self._ended = end >= 0
            if (end if self._ended else len(self._received)) > MAX_HEAD_BYTES:
                del self._received[:-3]
                raise BadRequestError(f"a head of more than {MAX_HEAD_BYTES} bytes")
            if not self._ended:
                return None
            head = bytes(self._received[:end])
            del self._received[: end + 4]
            method, target, headers = _read_head(head)
            self._left = _length(headers) - len(self._received)
            self._head = method, target, headers
        else:
            self._left -= len(data)
        if self._left > 0 and len(self._received) < MAX_BODY_BYTES:
            return None
        return _request(*self._head, bytes(self._received[:MAX_BODY_BYTES]))

    def discard(self, data: bytes) -> None:
        """Take more bytes of a request that has been answered already."""
        if self._ended:
            self._left -= len(data)
            return
        self._received += data
        self._ended = self._received.find(_END) >= 0
        del self._received[:-3]


def _read_head(head: bytes) -> tuple[str, str, dict[str, str]]:
    first, *lines = head.split(b"\r\n")
    matched = _REQUEST_LINE.fullmatch(first)
    if matched is None:
        raise BadRequestError("no HTTP/1.1 request")
    headers: dict[str, str] = {}
    for line in lines:
        field = _HEADER.fullmatch(line)
        if field is None:
            raise BadRequestError("malformed header")
        name = field[1].decode("ascii").lower()
        value = field[2].rstrip(b" \t").decode("latin-1")
        if name in headers:
            if name in ("authorization", "content-length", "host"):
                raise BadRequestError(f"more than one {name} header")
            value = f"{headers[name]}, {value}"
        headers[name] = value
    if matched[3] == b"1" and "host" not in headers:
        raise BadRequestError("missing required Host header")
    return matched[1].decode("ascii"), matched[2].decode("ascii"), headers


def _length(headers: Mapping[str, str]) -> int:
    if "transfer-encoding" in headers:
        raise BadRequestError("say the length of the body", 411)
    text = headers.get("content-length", "0")
    if not (text.isascii() and text.isdecimal()) or len(text) > _MAX_DIGITS:
        raise BadRequestError("malformed Content-Length")
    return int(text)


def _request(method: str, target: str, headers: dict[str, str], body: bytes) -> Request:
    try:
        # Before a path that begins with two slashes, what follows would be a host.
        parts = urlsplit(target if "://" in target.partition("?")[0] else "http://-" + target)
        fields = parse_qsl(parts.query, keep_blank_values=True, max_num_fields=_MAX_QUERY_FIELDS)
    except ValueError as error:
        raise BadRequestError("malformed request target") from error
    path = unquote(parts.path)
    if not path.startswith("/") or parts.fragment:
        raise BadRequestError("malformed request target")
    query: dict[str, str] = {}
    for name, value in fields:
        query.setdefault(name, value)
    return Request(
        method=method,
        path=_without_dots(path),
        query=query,
        fields=tuple(fields),
        headers=headers,
        body=body,
    )


def _without_dots(path: str) -> str:
    """As RFC 3986, 5.2.4, resolves `.` and `..`.

    >>> _without_dots("/open/../metrics"), _without_dots("/a/./b/.."), _without_dots("//../x")
    ('/metrics', '/a/', '/x')
    """
    if "/." not in path:
        return path
    kept: list[str] = []
    segments = path.split("/")[1:]
    for segment in segments:
        if segment == "..":
            del kept[-1:]
        elif segment != ".":
            kept.append(segment)
    if segments[-1] in (".", ".."):
        kept.append("")
    return "/" + "/".join(kept)
