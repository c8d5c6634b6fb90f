"""Byte streams in layers: TCP, TLS on any of them, and HTTP on top.

The way to the leader has TLS within a WebSocket within TLS, perhaps within a proxy's tunnel. All of
it is synchronous: one request at a time needs no event loop, and its libraries take long to load.
"""

from __future__ import annotations

import base64
import io
import socket
import ssl
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from hashlib import sha256
from http.client import HTTPConnection, HTTPMessage, HTTPResponse
from typing import Final, Protocol, TypeVar, cast
from urllib.parse import SplitResult, unquote, urlsplit

from scheduler.client.socks import CLOSED, SocksError, SocksProxy

RECEIVE_BYTES: Final = 64 * 1024

R = TypeVar("R")


class Stream(Protocol):
    """A connection, whatever carries it. All methods raise OSError when it is broken."""

    def send(self, data: bytes) -> None:
        """Send all of the data."""
        ...

    def receive(self) -> bytes:
        """Wait for some bytes; empty at the end."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


class SocketStream:
    """A TCP connection; every wait ends after `timeout` seconds."""

    def __init__(self, host: str, port: int, timeout: float) -> None:
        self._socket = socket.create_connection((host, port), timeout)

    def send(self, data: bytes) -> None:
        """See `Stream`."""
        self._socket.sendall(data)

    def receive(self, most: int = RECEIVE_BYTES) -> bytes:
        """See `Stream`; at most `most` bytes."""
        return self._socket.recv(most)

    def close(self) -> None:
        """See `Stream`."""
        self._socket.close()


class TlsStream:
    """TLS on another stream, which it owns from then on."""

    def __init__(self, below: Stream, context: ssl.SSLContext, name: str) -> None:
        """Perform the handshake; a failure leaves `below` open."""
        self._below = below
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=name)
        self._repeat(self._tls.do_handshake)

    def certificate(self) -> bytes:
        """Return the certificate of the server (DER), verified or not."""
        return self._tls.getpeercert(binary_form=True) or b""

    def certificate_sha256(self) -> str:
        """Return the hash of the certificate, in hexadecimal digits."""
        return sha256(self.certificate()).hexdigest()

    def send(self, data: bytes) -> None:
        """See `Stream`."""
        if data:
            self._repeat(lambda: self._tls.write(data))

    def receive(self) -> bytes:
        """See `Stream`."""
        try:
            return self._repeat(lambda: self._tls.read(RECEIVE_BYTES))
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            # Servers often close without a farewell. HTTP tells whether the response was complete.
            return b""

    def close(self) -> None:
        """See `Stream`."""
        self._below.close()

    def _repeat(self, operation: Callable[[], R]) -> R:
        """Call it until it needs no more bytes of the server."""
        while True:
            try:
                result = operation()
            except ssl.SSLWantReadError:
                self._flush()
                received = self._below.receive()
                if received:
                    self._incoming.write(received)
                else:
                    self._incoming.write_eof()
                continue
            self._flush()
            return result

    def _flush(self) -> None:
        if self._outgoing.pending:
            self._below.send(self._outgoing.read())


class _Reader(io.RawIOBase):
    """The receiving side of a stream, as a file."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._left = b""

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # what io passes
        """Read what has arrived, as much as fits."""
        data = self._left or self._stream.receive()
        count = min(len(buffer), len(data))
        buffer[:count] = data[:count]
        self._left = data[count:]
        return count


class _StreamSocket:
    """The part of a socket that `http.client` uses; the owner of the stream closes it."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def sendall(self, data: bytes) -> None:
        """Send all of the data."""
        self._stream.send(bytes(data))

    def makefile(self, _: str) -> io.BufferedReader:
        """Return a file to read the response from."""
        return io.BufferedReader(_Reader(self._stream), RECEIVE_BYTES)

    def close(self) -> None:
        """Do nothing."""


@contextmanager
def exchange(
    stream: Stream,
    host: str,
    method: str,
    target: str,
    headers: Mapping[str, str],
    body: bytes | None = None,
    repeated: Iterable[tuple[str, str]] = (),
) -> Iterator[HTTPResponse]:
    """Send a request on a stream and open its response; OSError and HTTPException propagate.

    `repeated` are further headers, whose names may be repeated.
    """
    lines = HTTPMessage()
    for header, value in (*headers.items(), *repeated):
        lines.add_header(header, value.encode().decode("latin-1"))
    connection = HTTPConnection(host)
    connection.sock = _StreamSocket(stream)
    # Were the connection lost, http.client would open another, to `host` itself.
    connection.auto_open = 0
    connection.request(method, target, body, cast("Mapping[str, str]", lines))
    with closing(connection.getresponse()) as response:
        yield response


def connect(
    server: str,
    timeout: float,
    *,
    tls: ssl.SSLContext | None,
    name: str | None = None,
    proxy: str | None = None,
) -> Stream:
    """Connect to an HTTP server, through an HTTP proxy if there is one.

    Args:
        server: its URL.
        timeout: seconds that each wait may take.
        tls: for `https`.
        name: the name that its certificate must have, if not that in the URL.
        proxy: the URL of the proxy, as `proxy-url` of a kubeconfig.
    """
    parts = urlsplit(server)
    host, port = parts.hostname or "", parts.port or (80 if parts.scheme == "http" else 443)
    socks = SocksProxy.of(proxy or "")
    stream: Stream
    if socks is not None:
        stream = _through(socks, host, port, timeout)
    else:
        stream = _to_proxy(proxy, timeout) if proxy else SocketStream(host, port, timeout)
    try:
        if proxy and socks is None:
            _ask_proxy(
                stream, urlsplit(proxy), f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            )
        if parts.scheme == "https":
            stream = TlsStream(stream, tls or ssl.create_default_context(), name or host)
    except BaseException:
        stream.close()
        raise
    return stream


def _through(socks: SocksProxy, host: str, port: int, timeout: float) -> SocketStream:
    """Connect to a server through a SOCKS5 proxy."""
    stream = SocketStream(socks.host, socks.port, timeout)
    opening = socks.opening(host, port)
    try:
        sent, size = next(opening)
        with suppress(StopIteration):
            while True:
                stream.send(sent)
                received = b""
                while len(received) < size:
                    piece = stream.receive(size - len(received))
                    if not piece:
                        raise SocksError(CLOSED)
                    received += piece
                sent, size = opening.send(received)
    except BaseException:
        stream.close()
        raise
    return stream


def _to_proxy(proxy: str, timeout: float) -> Stream:
    parts = urlsplit(proxy)
    if parts.scheme not in ("http", "https"):
        raise OSError(
            f"proxy-url: {parts.scheme}:// proxies are not supported, only http and https"
        )
    default = 80 if parts.scheme == "http" else 443
    stream = SocketStream(parts.hostname or "", parts.port or default, timeout)
    if parts.scheme == "http":
        return stream
    try:
        return TlsStream(stream, ssl.create_default_context(), parts.hostname or "")
    except BaseException:
        stream.close()
        raise


def _ask_proxy(stream: Stream, proxy: SplitResult, address: str) -> None:
    headers = {"Host": address}
    if proxy.username is not None:
        user = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
        headers["Proxy-Authorization"] = f"Basic {base64.b64encode(user.encode()).decode()}"
    with exchange(stream, proxy.hostname or "", "CONNECT", address, headers) as response:
        if response.status != 200:
            # Not the URL: it may contain a password.
            answer = f"{response.status} {response.reason}"
            raise OSError(f"the proxy {proxy.hostname} refused the tunnel: {answer}")
