"""The bytes of a request. Headers that many requests share are encoded once."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from scheduler.client.errors import (
    ConnectionFailed,
    RequestError,
    RequestTimeout,
    ResponseTooLarge,
)
from scheduler.client.http.parser import MAX_BODY_BYTES, BodyTooLargeError

_UNSAFE_TARGET: Final = re.compile(r"[^!-~]")
_UNSAFE_VALUE: Final = re.compile(r"[^\t -~]")

Guard = Callable[[], None]
"""Raises when a request must not be sent any more."""


class HeaderBlock:
    """The header fields of requests to one server, except Host and Content-Length."""

    __slots__ = ("fields", "lines", "repeated")

    def __init__(self, fields: Mapping[str, str], repeated: Sequence[tuple[str, str]] = ()) -> None:
        """Encode the fields, and further ones whose names may be repeated.

        Raises:
            ValueError: a value contains a character that is not allowed in a header.
        """
        for name, value in fields.items():
            if _UNSAFE_VALUE.search(value):
                # Not the value: it may be a credential.
                raise ValueError(
                    f"the header {name} would contain a line break or another forbidden character"
                )
        self.fields = dict(fields)
        self.repeated = tuple(repeated)
        self.lines = "".join(f"{name}: {value}\r\n" for name, value in self.all()).encode()

    def all(self) -> list[tuple[str, str]]:
        """Return all names and values."""
        return [*self.fields.items(), *self.repeated]

    def adding(self, fields: Mapping[str, str]) -> HeaderBlock:
        """Return these headers and more. Raises ValueError."""
        return HeaderBlock({**self.fields, **fields}, self.repeated)


class Request(msgspec.Struct, frozen=True):
    """One request and the limits of its response; `target` is the quoted path and query."""

    method: str
    target: str
    headers: HeaderBlock
    body: bytes | None = None
    #: Limit for the body of the response, bytes.
    max_body: int = MAX_BODY_BYTES
    #: Called immediately before the request is written, if it had to wait for a connection. What
    #: it raises keeps the request from being sent.
    guard: Guard | None = None

    @property
    def path(self) -> str:
        """The target without its query, which error texts leave out."""
        return self.target.partition("?")[0]

    def encode(self, host: str, prefix: str = "") -> bytes:
        """Return all bytes of the request to `host`, with `prefix` before the target.

        Raises:
            ConnectionFailed: the target contains a character that must be quoted.
        """
        target = prefix + self.target
        if _UNSAFE_TARGET.search(target):
            text = f"a path with characters that must be quoted: {target!r}"
            raise ConnectionFailed(self.method, self.path, text, sent=False)
        start = f"{self.method} {target} HTTP/1.1\r\nHost: {host}\r\n".encode()
        lines, body = self.headers.lines, self.body
        if body is None:
            return b"%b%b\r\n" % (start, lines)
        return b"%b%bContent-Length: %d\r\n\r\n%b" % (start, lines, len(body), body)

    def failure(self, error: Exception) -> RequestError:
        """Return the error to raise when sending it or reading its response raised `error`."""
        if isinstance(error, TimeoutError):
            return RequestTimeout(self.method, self.path, f"timed out: {error}", sent=True)
        kind = ResponseTooLarge if isinstance(error, BodyTooLargeError) else ConnectionFailed
        return kind(self.method, self.path, str(error), sent=True)
