"""Shared by users of aiohttp: sessions with renewed certificates, bodies with a limit, errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

import aiohttp

from scheduler.client.errors import ConnectionFailed, RequestTimeout
from scheduler.client.http.tls import ClientTls, ResumingContext


class RenewedSession:
    """Provides the session whose connections are opened with the current TLS context.

    A new context leads to a new session; the previous one finishes its requests, and is closed when
    the next one replaces it.
    """

    def __init__(
        self,
        tls: ClientTls | None,
        open_session: Callable[[ResumingContext | None], aiohttp.ClientSession],
    ) -> None:
        """Prepare; `current` opens sessions."""
        self._tls = tls
        self._open = open_session
        self._context: ResumingContext | None = None
        self._session: aiohttp.ClientSession | None = None
        self._previous: aiohttp.ClientSession | None = None

    async def current(self) -> aiohttp.ClientSession:
        """Return the session for a request sent now."""
        context = None if self._tls is None else self._tls.current()
        session = self._session
        if session is None or context is not self._context:
            outdated, self._previous = self._previous, session
            self._context = context
            session = self._session = self._open(context)
            if outdated is not None:
                await outdated.close()
        return session

    async def close(self) -> None:
        """Close the sessions and their connections."""
        sessions = self._previous, self._session
        self._previous = self._session = None
        for session in sessions:
            if session is not None:
                await session.close()


async def read_body(response: aiohttp.ClientResponse, limit: int) -> bytes | None:
    """Return the whole body; if it has more than `limit` bytes, close the connection: None."""
    chunks: list[bytes] = []
    size = 0
    async for chunk in response.content.iter_any():
        size += len(chunk)
        if size > limit:
            response.close()
            return None
        chunks.append(chunk)
    return b"".join(chunks)


def raise_mapped(method: str, path: str, error: Exception) -> NoReturn:
    """Raise the RequestError for an exception of aiohttp."""
    text = str(error) or type(error).__name__
    if isinstance(error, aiohttp.ClientResponseError):
        # Its own text contains the proxy's URL, with the password that may be in it.
        text = f"responded {error.status} {error.message}"
    if isinstance(error, TimeoutError):
        sent = not isinstance(error, aiohttp.ConnectionTimeoutError)
        raise RequestTimeout(method, path, f"timed out: {text}", sent=sent) from error
    sent = not isinstance(error, aiohttp.ClientConnectorError)
    refused = isinstance(getattr(error, "os_error", None), ConnectionRefusedError)
    raise ConnectionFailed(method, path, text, sent=sent, refused=refused) from error
