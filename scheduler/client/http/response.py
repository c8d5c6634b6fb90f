"""A whole response. Headers are looked up on demand: hardly any is ever read."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Response:
    """Status, body, and the head as received: status line and header lines, without the end."""

    status: int
    body: bytes
    head: bytes = b""

    def header(self, name: str) -> str | None:
        """Return the first value of a header; None if absent."""
        return header(self.head, name)


def header(head: bytes, name: str) -> str | None:
    r"""Return the first value of the header `name` (in any case) in a head; None if absent.

    >>> header(b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 3", "retry-after")
    '3'
    """
    wanted = name.lower().encode()
    for line in head.split(b"\r\n")[1:]:
        key, _, value = line.partition(b":")
        if key.strip().lower() == wanted:
            return value.strip().decode("latin-1")
    return None
