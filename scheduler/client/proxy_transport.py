"""The API server behind an HTTP proxy (`proxy-url` of a kubeconfig), by aiohttp.

Tunnels, proxy credentials and TLS within a tunnel are a library's work; few clusters need them, so
they need not be fast. Responses and errors are those of `http.pool`.
"""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Final

import aiohttp
from yarl import URL

from scheduler.client.configuration import ClientConfiguration
from scheduler.client.errors import ResponseTooLarge
from scheduler.client.http.parser import MAX_ERROR_BYTES
from scheduler.client.http.pool import PoolOptions
from scheduler.client.http.request import Request
from scheduler.client.http.response import Response
from scheduler.client.http.tls import ResumingContext
from scheduler.client.sessions import RenewedSession, raise_mapped, read_body

_FAILURES: Final = (TimeoutError, aiohttp.ClientError, OSError, ValueError)


class ProxyStream:
    """A `ResponseStream` that aiohttp reads."""

    def __init__(self, request: Request, response: aiohttp.ClientResponse) -> None:
        self._request = request
        self._response = response
        self.status = response.status
        self.head = _head(response)

    async def read(self) -> bytes:
        """Wait for the next bytes of the body; empty at its end."""
        try:
            return await self._response.content.readany()
        except _FAILURES as error:
            raise_mapped(self._request.method, self._request.path, error)

    def close(self) -> None:
        """Close the connection."""
        self._response.close()


class ProxyTransport:
    """An `HttpTransport` through the proxy of a configuration."""

    def __init__(self, configuration: ClientConfiguration, options: PoolOptions) -> None:
        self._configuration = configuration
        self._options = options
        self._session = RenewedSession(configuration.tls, self._open_session)

    def _open_session(self, context: ResumingContext | None) -> aiohttp.ClientSession:
        options = self._options
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=options.limit, keepalive_timeout=options.keepalive, ssl=context or True
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
            trace_configs=[_guarding()],
        )

    async def exchange(self, request: Request, timeout: float) -> Response:
        """Send one request and read the whole response."""
        limits = aiohttp.ClientTimeout(
            total=timeout, sock_connect=min(timeout, self._options.connect_timeout)
        )
        limit = request.max_body
        try:
            response = await self._send(request, limits)
            try:
                if response.status >= 400:
                    limit = min(limit, MAX_ERROR_BYTES)
                content = await read_body(response, limit)
            except BaseException:
                response.close()
                raise
        except _FAILURES as error:
            raise_mapped(request.method, request.path, error)
        if content is None:
            text = f"a body of more than {limit} bytes"
            raise ResponseTooLarge(request.method, request.path, text, sent=True)
        return Response(response.status, content, _head(response))

    async def open_stream(self, request: Request, idle_timeout: float) -> ProxyStream:
        """Send one request and wait for the head of the response."""
        limits = aiohttp.ClientTimeout(
            total=None, sock_connect=self._options.connect_timeout, sock_read=idle_timeout
        )
        try:
            # aiohttp alone would restart its timeout with each byte of the head, and with each of
            # any number of interim responses.
            async with asyncio.timeout(idle_timeout):
                response = await self._send(request, limits)
        except _FAILURES as error:
            raise_mapped(request.method, request.path, error)
        return ProxyStream(request, response)

    async def _send(
        self, request: Request, timeout: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        session = await self._session.current()
        return await session.request(
            request.method,
            URL(self._configuration.server + request.target, encoded=True),
            data=request.body,
            headers=request.headers.all(),
            timeout=timeout,
            allow_redirects=False,
            proxy=self._configuration.proxy,
            server_hostname=self._configuration.server_hostname,
            trace_request_ctx=request.guard,
        )

    async def close(self) -> None:
        """Close the sessions and their connections."""
        await self._session.close()


def _guarding() -> aiohttp.TraceConfig:
    """Return hooks that call the guard of a request that had to wait for its connection."""

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
