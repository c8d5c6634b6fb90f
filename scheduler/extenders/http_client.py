"""POST to an HTTP extender: TLS settings, one session per extender, limits of time and size.

Bodies are opaque bytes here. Every failure is a `RequestError` that tells whether the extender may
have acted. TLS, redirects and the proxy of the environment are as upstream's (`extender.go:
makeTransport`): the URL's scheme decides whether TLS is used.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Final, NoReturn, Self

import aiohttp
from yarl import URL

from config import ExtenderTLSConfig
from scheduler.client.environment_proxy import environment_proxy
from scheduler.client.errors import ConfigurationError, RequestError
from scheduler.client.http.tls import ClientTls, Pem, ResumingContext, TlsSettings
from scheduler.client.sessions import RenewedSession, raise_mapped, read_body
from scheduler.sanitizing.redaction import shown_url

MAX_RESPONSE_BYTES: Final = 64 * 1024 * 1024
"""Bound of a response's size beyond that of its request: an extender returns at most the nodes that
it was sent."""

_METHOD: Final = "POST"

_PROXY_ERRORS: Final = frozenset(
    (HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT)
)
"""Statuses that a proxy sends in the place of an extender that it cannot reach."""


class ExtenderStatusError(RequestError):
    """A response with a status other than 200."""

    def __init__(self, verb: str, path: str, text: str, status: int) -> None:
        super().__init__(verb, path, text)
        self.status = status

    @property
    def unreachable(self) -> bool:
        """Whether a proxy could not reach the extender; the request itself may be fine."""
        return self.status in _PROXY_ERRORS


class ExtenderResponseTooLarge(RequestError):  # noqa: N818  (names the event)
    """A response that exceeds the size limit; the rest of it is not read."""


def client_tls(tls: ExtenderTLSConfig, *, lenient: bool = False) -> ClientTls:
    """Return TLS contexts for the settings; files are read again when they change.

    `lenient` (`enableHTTPS`): without an authority the extender's certificate is not verified.

    Raises:
        ConfigurationError: the settings contradict each other, or a file or key is unusable.
    """
    authority = bool(tls.ca_file or tls.ca_data)
    if tls.insecure and authority:
        raise ConfigurationError(
            "specifying a root certificates file with the insecure flag is not allowed"
        )
    has_cert, has_key = bool(tls.cert_file or tls.cert_data), bool(tls.key_file or tls.key_data)
    if has_cert != has_key:
        raise ConfigurationError("a client certificate needs both a certificate and a key")
    try:
        settings = TlsSettings(
            _pem(tls.ca_data, tls.ca_file),
            _pem(tls.cert_data, tls.cert_file),
            _pem(tls.key_data, tls.key_file),
            verify=not (tls.insecure or (lenient and not authority)),
        )
        return ClientTls(settings)
    except (ConfigurationError, ValueError) as error:
        raise ConfigurationError(f"cannot use the TLS files or data: {error}") from error


def _pem(data: str, file: str) -> Pem | None:
    if data:
        return base64.b64decode(data)
    return Path(file) if file else None


class ExtenderHttp:
    """Client of one extender. The session opens with the first request."""

    def __init__(
        self,
        prefix: str,
        *,
        timeout: float,
        tls: ExtenderTLSConfig | None = None,
        lenient: bool = False,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        """Prepare the client; nothing is sent. `lenient` as in `client_tls`.

        Raises:
            ConfigurationError: `prefix` is no HTTP URL, or TLS or proxy settings are unusable.
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
        self._shown = shown_url(prefix).rstrip("/")
        self._tls = tls or ExtenderTLSConfig()
        try:
            proxy = environment_proxy(url, environment)
        except ValueError as error:
            raise ConfigurationError(f"the proxy of the environment: {error}") from error
        self._headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        self._proxy_headers: dict[str, str] = {}
        #: Without the password that may be in it, for aiohttp's errors show it.
        self._proxy = proxy.with_user(None) if proxy is not None else None
        if proxy is not None and proxy.user:
            secret = aiohttp.encode_basic_auth(proxy.user, proxy.password or "")
            # For https the CONNECT request carries the credentials, otherwise the request itself.
            headers = self._proxy_headers if url.scheme == "https" else self._headers
            headers["Proxy-Authorization"] = secret
        contexts = client_tls(self._tls, lenient=lenient) if url.scheme == "https" else None
        self._session = RenewedSession(contexts, _open_session)
        self._timeout = timeout
        self._max_response_bytes = max_response_bytes

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()

    def url(self, verb: str) -> str:
        """Return the URL of `verb` without credentials, for messages."""
        return f"{self._shown}/{verb}"

    async def post(self, verb: str, body: bytes) -> bytes:
        """Send JSON and return the response's body.

        Raises:
            RequestError: no complete response with status 200 within the limits.
        """
        url = self.url(verb)
        try:
            session = await self._session.current()
            async with session.post(
                URL(f"{self._prefix}/{verb}"),
                data=body,
                headers=self._headers,
                timeout=aiohttp.ClientTimeout(total=self._timeout),
                # A redirect would send the proxy's credentials to another host.
                allow_redirects="Proxy-Authorization" not in self._headers,
                proxy=self._proxy,
                proxy_headers=self._proxy_headers,
                server_hostname=self._tls.server_name or None,
            ) as response:
                if response.status != HTTPStatus.OK:
                    text = f"failed {verb} with extender at URL {url}, code {response.status}"
                    raise ExtenderStatusError(_METHOD, url, text, response.status)
                limit = self._max_response_bytes + len(body)
                content = await read_body(response, limit)
                if content is None:
                    raise ExtenderResponseTooLarge(
                        _METHOD, url, f"the response is longer than {limit} bytes"
                    )
                return content
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError) as error:
            _raise(url, self._timeout, error)


def _open_session(context: ResumingContext | None) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=context or True),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        trust_env=False,
    )


def _raise(url: str, seconds: float, error: Exception) -> NoReturn:
    if isinstance(error, TimeoutError) and not isinstance(error, aiohttp.ConnectionTimeoutError):
        raise_mapped(_METHOD, url, TimeoutError(f"no response within {seconds:g}s"))
    raise_mapped(_METHOD, url, error)
