"""POST to an HTTP extender: one session per extender, limits of time and size.

Knows HTTP, not what extenders do: bytes go in and come out, and everything that goes wrong is a
`RequestError` that tells whether the extender may have acted.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Final, NoReturn, Self

import aiohttp
from yarl import URL

from scheduler.client.errors import ConfigurationError
from scheduler.client.extender_tls import (
    ExtenderAnswerTooLarge,
    ExtenderStatusError,
    ExtenderTLS,
    ssl_context,
)
from scheduler.client.proxied import raise_mapped

MOST_ANSWER_BYTES: Final = 64 * 1024 * 1024
"""What an answer may have on top of the size of its request: an extender that sends nodes back
sends no more than it was given."""

_CHUNK: Final = 1 << 16
_VERB: Final = "POST"


class ExtenderHttp:
    """Sends requests to one extender. The session opens with the first request."""

    def __init__(
        self,
        prefix: str,
        *,
        timeout: float,
        tls: ExtenderTLS | None = None,
        most_answer_bytes: int = MOST_ANSWER_BYTES,
    ) -> None:
        """Prepare; nothing is sent.

        Raises:
            ConfigurationError: `prefix` is no HTTP URL, or TLS cannot work.
        """
        prefix = prefix.rstrip("/")
        try:
            url = URL(prefix)
        except ValueError as error:
            raise ConfigurationError(f"urlPrefix: {error}") from error
        if url.scheme not in ("http", "https") or not url.host:
            raise ConfigurationError(
                "urlPrefix: must be a URL that begins with http:// or https://"
            )
        self._prefix = prefix
        #: Without the password that may be in it.
        self._shown = str(url.with_user(None)).rstrip("/")
        self._tls = tls or ExtenderTLS()
        self._ssl = ssl_context(self._tls) if url.scheme == "https" else None
        self._timeout = timeout
        self._most = most_answer_bytes
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def url(self, verb: str) -> str:
        """Where requests of `verb` go, for people."""
        return f"{self._shown}/{verb}"

    async def post(self, verb: str, body: bytes) -> bytes:
        """Send JSON and return the answer's body.

        Raises:
            RequestError: no whole answer with status 200 within the limits.
        """
        url = self.url(verb)
        try:
            async with self._open().post(
                URL(f"{self._prefix}/{verb}"),
                data=body,
                headers={"Content-Type": "application/json", "Accept-Encoding": "identity"},
                timeout=aiohttp.ClientTimeout(total=self._timeout),
                allow_redirects=False,
                server_hostname=self._tls.server_name or None,
            ) as response:
                if response.status != HTTPStatus.OK:
                    text = f"failed {verb} with extender at URL {url}, code {response.status}"
                    raise ExtenderStatusError(_VERB, url, text)
                return await self._read(response, url, len(body))
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError) as error:
            _raise(url, self._timeout, error)

    async def _read(self, response: aiohttp.ClientResponse, url: str, sent: int) -> bytes:
        limit = self._most + sent
        chunks: list[bytes] = []
        size = 0
        async for chunk in response.content.iter_chunked(_CHUNK):
            size += len(chunk)
            if size > limit:
                response.close()
                raise ExtenderAnswerTooLarge(_VERB, url, f"the answer is longer than {limit} bytes")
            chunks.append(chunk)
        return b"".join(chunks)

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=self._ssl or True),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                trust_env=False,
            )
        return self._session


def _raise(url: str, seconds: float, error: Exception) -> NoReturn:
    if isinstance(error, TimeoutError) and not isinstance(error, aiohttp.ConnectionTimeoutError):
        raise_mapped(_VERB, url, TimeoutError(f"no answer within {seconds:g}s"))
    raise_mapped(_VERB, url, error)
