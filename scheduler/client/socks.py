"""The opening of a connection through a SOCKS5 proxy (RFC 1928, RFC 1929), without I/O.

The proxy resolves names, as with Go's client. Nothing is received beyond the answer of the proxy:
what follows is the server's.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Final
from urllib.parse import unquote, urlsplit

DEFAULT_PORT: Final = 1080
_VERSION, _CONNECT, _NO_METHOD = 5, 1, 0xFF
_IPV4, _NAME, _IPV6 = 1, 3, 4
_REASONS: Final = {
    1: "it failed",
    2: "it does not allow that",
    3: "the network cannot be reached",
    4: "the host cannot be reached",
    5: "connection refused",
    6: "no response in time",
}

Opening = Generator[tuple[bytes, int], bytes, None]
"""Yields bytes to send and the number of bytes to receive then; is sent these."""


CLOSED: Final = "the SOCKS5 proxy closed the connection"


class SocksError(OSError):
    """The proxy refused the connection, or is no SOCKS5 proxy."""


@dataclass(frozen=True, slots=True)
class SocksProxy:
    """A proxy, and the user that it knows."""

    host: str
    port: int
    user: str = ""
    password: str = field(default="", repr=False)

    @classmethod
    def of(cls, url: str) -> SocksProxy | None:
        """Return the proxy of a URL; None for another kind of proxy."""
        parts = urlsplit(url)
        if parts.scheme != "socks5":
            return None
        user, password = unquote(parts.username or ""), unquote(parts.password or "")
        return cls(parts.hostname or "", parts.port or DEFAULT_PORT, user, password)

    def opening(self, host: str, port: int) -> Opening:
        """Return the opening of a connection to a server. It raises SocksError."""
        methods = b"\x00\x02" if self.user else b"\x00"
        version, method = yield bytes((_VERSION, len(methods))) + methods, 2
        if version != _VERSION:
            raise SocksError(f"{self.host}:{self.port} is no SOCKS5 proxy")
        if method == methods[-1] == 2:
            _, status = yield b"\x01" + _counted(self.user) + _counted(self.password), 2
            if status:
                raise SocksError(f"the proxy {self.host} refused the user name or password")
        elif method:
            raise SocksError(f"the proxy {self.host} demands another way to authenticate")
        request = bytes((_VERSION, _CONNECT, 0)) + _address(host) + port.to_bytes(2)
        _, status, _, kind = yield request, 4
        if status:
            reason = _REASONS.get(status, f"error {status}")
            raise SocksError(f"the proxy {self.host} refused the connection: {reason}")
        length = {_IPV4: 4, _IPV6: 16}.get(kind)
        if length is None:
            (length,) = yield b"", 1
        yield b"", length + 2


def _counted(text: str) -> bytes:
    data = text.encode()[:255]
    return bytes((len(data),)) + data


def _address(host: str) -> bytes:
    try:
        found = ip_address(host)
    except ValueError:
        return bytes((_NAME,)) + _counted(host)
    return bytes((_IPV4 if found.version == 4 else _IPV6,)) + found.packed
