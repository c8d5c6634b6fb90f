"""The API server behind an HTTP proxy (`proxy-url` of a kubeconfig), by aiohttp.

Tunnels, proxies with credentials and TLS within them are a library's work; few need them, so they
need not be fast. Same answers and errors as `http`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import NoReturn

import aiohttp
from yarl import URL

from scheduler.client.configuration import ClientConfiguration
from scheduler.client.errors import ConnectionFailed, RequestTimeout, ResponseTooLarge
from scheduler.client.http import Response
from scheduler.client.http.parser import MAX_ERROR_BYTES
from scheduler.client.http.request import HeaderBlock
from scheduler.client.http.tls import ResumingContext
from scheduler.client.sessions import RenewedSession, read_body


class ProxiedStream:
    """The body of an answer, as it arrives."""

    def __init__(self, method: str, path: str, response: aiohttp.ClientResponse) -> None:
        self._method = method
        self._path = path
        self._response = response
        self.status = response.status
        self.head = _head(response)

    async def read(self) -> bytes:
        """Whatever has arrived; empty at the end.

        Raises:
            RequestTimeout: silence for longer than the stream's limit.
            ConnectionFailed: the connection broke.
        """
        try:
            return await self._response.content.readany()
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError) as error:
            raise_mapped(self._method, self._path, error)

    def close(self) -> None:
        """Cut it."""
        self._response.close()


class ProxyTransport:
    """A session that goes through the proxy of a configuration."""

    def __init__(
        self,
        configuration: ClientConfiguration,
        *,
        limit: int,
        keepalive: float,
        connect_timeout: float,
    ) -> None:
        self._configuration = configuration
        self._limit = limit
        self._keepalive = keepalive
        self._connect_timeout = connect_timeout
        self._session = RenewedSession(configuration.tls, self._open_session)

    def _open_session(self, context: ResumingContext | None) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=self._limit, keepalive_timeout=self._keepalive, ssl=context or True
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
            trace_configs=[_guarding()],
        )

    async def exchange(
        self,
        method: str,
        target: str,
        headers: HeaderBlock,
        body: bytes | None,
        timeout: float,
        max_body: int,
        guard: Callable[[], None] | None,
    ) -> Response:
        """Send one request and read the whole answer; errors as of `http`."""
        limits = aiohttp.ClientTimeout(
            total=timeout, sock_connect=min(timeout, self._connect_timeout)
        )
        try:
            response = await self._send(method, target, headers, body, limits, guard)
            try:
                limit = min(max_body, MAX_ERROR_BYTES) if response.status >= 400 else max_body
                content = await read_body(response, limit)
            except BaseException:
                response.close()
                raise
            if content is None:
                path = target.partition("?")[0]
                raise ResponseTooLarge(
                    method, path, f"a body of more than {limit} bytes", sent=True
                )
            return Response(response.status, content, _head(response))
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError) as error:
            raise_mapped(method, target.partition("?")[0], error)

    async def open_stream(
        self, method: str, target: str, headers: HeaderBlock, idle_timeout: float
    ) -> ProxiedStream:
        """Open an answer without end."""
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=self._connect_timeout, sock_read=idle_timeout
        )
        path = target.partition("?")[0]
        try:
            # aiohttp waits for each byte of the head anew, and skips any number of interim
            # responses.
            async with asyncio.timeout(idle_timeout):
                response = await self._send(method, target, headers, None, timeout)
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError) as error:
            raise_mapped(method, path, error)
        return ProxiedStream(method, path, response)

    async def _send(
        self,
        method: str,
        target: str,
        headers: HeaderBlock,
        body: bytes | None,
        timeout: aiohttp.ClientTimeout,
        guard: Callable[[], None] | None = None,
    ) -> aiohttp.ClientResponse:
        session = await self._session.current()
        return await session.request(
            method,
            URL(self._configuration.server + target, encoded=True),
            data=body,
            headers=headers.fields,
            timeout=timeout,
            allow_redirects=False,
            proxy=self._configuration.proxy,
            server_hostname=self._configuration.server_hostname,
            trace_request_ctx=guard,
        )

    async def close(self) -> None:
        """Close the sessions and their connections."""
        await self._session.close()


def _guarding() -> aiohttp.TraceConfig:
    """Has aiohttp call the guard of a request that had to wait for its connection."""

    async def waited(_: aiohttp.ClientSession, context: SimpleNamespace, __: object) -> None:
        guard = context.trace_request_ctx
        if guard is not None:
            guard()

    trace = aiohttp.TraceConfig()
    trace.on_connection_create_end.append(waited)
    trace.on_connection_queued_end.append(waited)
    return trace


def _head(response: aiohttp.ClientResponse) -> bytes:
    lines = [f"HTTP/1.1 {response.status}".encode()]
    lines += [b"%b: %b" % (name, value) for name, value in response.raw_headers]
    return b"\r\n".join(lines)


def raise_mapped(method: str, path: str, error: Exception) -> NoReturn:
    """Raise our error for one of aiohttp's."""
    text = str(error) or type(error).__name__
    if isinstance(error, aiohttp.ClientResponseError):
        # Its own words have the proxy's URL, with the password that may be in it.
        text = f"answered {error.status} {error.message}"
    if isinstance(error, TimeoutError):
        sent = not isinstance(error, aiohttp.ConnectionTimeoutError)
        raise RequestTimeout(method, path, f"timed out: {text}", sent=sent) from error
    sent = not isinstance(error, aiohttp.ClientConnectorError)
    refused = isinstance(getattr(error, "os_error", None), ConnectionRefusedError)
    raise ConnectionFailed(method, path, text, sent=sent, refused=refused) from error
