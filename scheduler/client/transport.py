"""One aiohttp session to one API server, with aiohttp's errors turned into ours.

Knows HTTP, not Kubernetes: paths and bytes go in, status and bytes come out. Every call has a
timeout. Answers are never compressed (localhost and cluster networks are faster than gzip),
redirects are not followed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, NoReturn, Self

import aiohttp
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from scheduler.client.configuration import ClientConfiguration
from scheduler.client.errors import ConnectionFailed, RequestTimeout

CONNECTION_LIMIT: Final = 256
"""Sockets to the server: 100 binds, some twenty watches, and room; the dispatcher bounds writes
anyway."""

KEEPALIVE_SECONDS: Final = 60.0
"""Below the API server's own idle limit of 90 s, so that a reused connection is rarely a dead
one."""


@dataclass(frozen=True, slots=True)
class TransportStatistics:
    """Counters since the start."""

    requests: int
    in_flight: int
    failed: int
    timed_out: int


class ByteStream:
    """The body of a watch, chunk by chunk."""

    __slots__ = ("_content", "_path", "_response", "_verb", "headers", "status")

    def __init__(self, verb: str, path: str, response: aiohttp.ClientResponse) -> None:
        self._verb = verb
        self._path = path
        self._response = response
        self._content = response.content
        self.status = response.status
        self.headers: CIMultiDictProxy[str] = response.headers

    async def read(self) -> bytes:
        """Whatever has arrived; empty at the end.

        Raises:
            RequestTimeout: silence for longer than the stream's limit.
            ConnectionFailed: the connection broke.
        """
        try:
            return await self._content.readany()
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise_mapped(self._verb, self._path, error)

    async def read_all(self) -> bytes:
        """The rest of the body, for error answers."""
        try:
            return await self._response.read()
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise_mapped(self._verb, self._path, error)


class Transport:
    """Owns the session. Use `async with`; share it between `ApiClient`s."""

    def __init__(self, configuration: ClientConfiguration, *, connect_timeout: float = 5.0) -> None:
        self.configuration = configuration
        self.host = URL(configuration.server).host or ""
        self._connect_timeout = connect_timeout
        self._session: aiohttp.ClientSession | None = None
        self._timeouts: dict[float, aiohttp.ClientTimeout] = {}
        self._requests = self._in_flight = self._failed = self._timed_out = 0

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=CONNECTION_LIMIT,
                keepalive_timeout=KEEPALIVE_SECONDS,
                ssl=self.configuration.ssl_context or True,
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the session and its connections; streams that are still open end with an error."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def url(self, path: str) -> URL:
        """The address of `path`, which must be quoted already."""
        return URL(self.configuration.server + path, encoded=True)

    def statistics(self) -> TransportStatistics:
        """Counters since the start."""
        return TransportStatistics(self._requests, self._in_flight, self._failed, self._timed_out)

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            msg = "the transport is closed: use it within `async with`"
            raise RuntimeError(msg)
        return self._session

    def _timeout(self, seconds: float) -> aiohttp.ClientTimeout:
        timeout = self._timeouts.get(seconds)
        if timeout is None:
            timeout = aiohttp.ClientTimeout(
                total=seconds, sock_connect=min(seconds, self._connect_timeout)
            )
            if len(self._timeouts) < 64:
                self._timeouts[seconds] = timeout
        return timeout

    async def request(
        self,
        verb: str,
        url: URL,
        headers: CIMultiDict[str],
        body: bytes | None,
        within: float,
    ) -> tuple[int, bytes, CIMultiDictProxy[str]]:
        """Send one request and read the whole answer; any status is an answer.

        Raises:
            RequestTimeout: not complete within `within` seconds, waiting for a connection included.
            ConnectionFailed: no connection, or it broke.
        """
        session = self._open_session()
        self._requests += 1
        self._in_flight += 1
        try:
            response = await session.request(
                verb,
                url,
                data=body,
                headers=headers,
                timeout=self._timeout(within),
                allow_redirects=False,
                proxy=self.configuration.proxy,
                server_hostname=self.configuration.server_hostname,
            )
            try:
                content = await response.read()
            except BaseException:
                response.close()
                raise
            return response.status, content, response.headers
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            if isinstance(error, TimeoutError):
                self._timed_out += 1
            else:
                self._failed += 1
            raise_mapped(verb, url.raw_path, error)
        finally:
            self._in_flight -= 1

    @asynccontextmanager
    async def stream(
        self, verb: str, url: URL, headers: CIMultiDict[str], *, silence: float
    ) -> AsyncIterator[ByteStream]:
        """Open an answer without end. `silence` is the longest wait for the next byte, seconds."""
        session = self._open_session()
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=self._connect_timeout, sock_read=silence
        )
        try:
            response = await session.request(
                verb,
                url,
                headers=headers,
                timeout=timeout,
                allow_redirects=False,
                proxy=self.configuration.proxy,
                server_hostname=self.configuration.server_hostname,
            )
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise_mapped(verb, url.raw_path, error)
        try:
            yield ByteStream(verb, url.raw_path, response)
        finally:
            # Not released: the rest of a watch never ends.
            response.close()


def raise_mapped(verb: str, path: str, error: Exception) -> NoReturn:
    """Raise our error for one of aiohttp's."""
    text = str(error) or type(error).__name__
    if isinstance(error, TimeoutError):
        sent = not isinstance(error, aiohttp.ConnectionTimeoutError)
        raise RequestTimeout(verb, path, f"timed out: {text}", sent=sent) from error
    sent = not isinstance(error, aiohttp.ClientConnectorError)
    refused = isinstance(getattr(error, "os_error", None), ConnectionRefusedError)
    raise ConnectionFailed(verb, path, text, sent=sent, refused=refused) from error
