"""The bytes of a request. Headers that many requests share are put together once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_UNSAFE_TARGET: Final = re.compile(r"[^!-~]")
_UNSAFE_VALUE: Final = re.compile(r"[^\t -~]")


class HeaderBlock:
    """Headers of requests to one server, Host left out."""

    __slots__ = ("fields", "lines")

    def __init__(self, fields: Mapping[str, str]) -> None:
        """Put them together.

        Raises:
            ValueError: a value has a character that no header can carry.
        """
        for name, value in fields.items():
            if _UNSAFE_VALUE.search(value):
                # Not the value: it may be a credential.
                raise ValueError(f"the header {name} would have a line break or another character")
        self.fields = dict(fields)
        self.lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items()).encode()


def request_bytes(
    method: str, target: str, host: str, headers: HeaderBlock, body: bytes | None
) -> bytes:
    """A whole request.

    Args:
        method: the method.
        target: path and query, quoted.
        host: the server's name and port.
        headers: everything but Host and Content-Length.
        body: None for none.

    Raises:
        ValueError: `target` has a character that must be quoted.
    """
    if _UNSAFE_TARGET.search(target):
        raise ValueError(f"a path with characters that must be quoted: {target!r}")
    start = f"{method} {target} HTTP/1.1\r\nHost: {host}\r\n".encode()
    if body is None:
        return b"%b%b\r\n" % (start, headers.lines)
    return b"%b%bContent-Length: %d\r\n\r\n%b" % (start, headers.lines, len(body), body)
