"""OIDC providers: the `auth-provider: oidc` of a kubeconfig user.

The ID token is the bearer token until it expires; then the provider issues another one for the
refresh token. Neither is written back to the kubeconfig. The provider's certificate is verified
with the authority in the kubeconfig, or the system's.

Upstream: client-go, plugin/pkg/client/auth/oidc/oidc.go.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import aiohttp
import msgspec

from scheduler.client.clock import Clock
from scheduler.client.configuration_error import ConfigurationError
from scheduler.client.credentials import Issued, token_expiry
from scheduler.client.http.tls import ClientTls, Pem, TlsSettings
from scheduler.client.sessions import read_body
from scheduler.client.structs import complete

REQUEST_TIMEOUT_SECONDS: Final = 10.0
"""For each of the two requests to the provider."""

MAX_RESPONSE_BYTES: Final = 1024 * 1024
EXPIRY_DELTA_SECONDS: Final = 10.0
"""An ID token that expires sooner counts as expired, as in client-go."""


class _Discovery(msgspec.Struct):
    token_endpoint: str


class _Tokens(msgspec.Struct):
    id_token: str
    refresh_token: str = ""


complete(_Discovery, _Tokens)


class OidcProvider:
    """The tokens of one user. Belongs to one event loop."""

    def __init__(self, config: Mapping[str, Any], folder: str, clock: Clock) -> None:
        """Check the configuration; nothing is sent.

        Raises:
            ConfigurationError: a required key is missing, or a certificate cannot be used.
        """
        for key in ("idp-issuer-url", "client-id"):
            if not config.get(key):
                raise ConfigurationError(f"oidc: {key} is missing")
        self._issuer = str(config["idp-issuer-url"]).rstrip("/")
        if not self._issuer.startswith("https://"):
            raise ConfigurationError("oidc: idp-issuer-url must begin with https://")
        client = f"{config['client-id']}:{config.get('client-secret') or ''}"
        self._basic = f"Basic {base64.b64encode(client.encode()).decode()}"
        self._tls = ClientTls(TlsSettings(_authority(config, folder)), clock)
        self._clock = clock
        self._id_token = str(config.get("id-token") or "")
        self._refresh_token = str(config.get("refresh-token") or "")

    async def first(self) -> Issued:
        """Return the ID token of the kubeconfig while it is valid, a new one otherwise.

        Raises:
            ConfigurationError: there is no valid token, and none was issued.
        """
        if self._id_token:
            expiry = _expiry(self._id_token)
            if expiry is None or expiry - EXPIRY_DELTA_SECONDS > self._clock.now():
                return self._issued()
        return await self.issue()

    async def issue(self) -> Issued:
        """Get a new ID token from the provider.

        Raises:
            ConfigurationError: the provider issued none.
        """
        if not self._refresh_token:
            raise ConfigurationError("oidc: no valid id-token, and no refresh-token to get one")
        try:
            tokens = await self._refresh()
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError, RecursionError) as error:
            # Without the error's text, which may quote the provider's response.
            text = f"oidc: {self._issuer} issued no token ({type(error).__name__})"
            raise ConfigurationError(text) from None
        self._id_token = tokens.id_token
        self._refresh_token = tokens.refresh_token or self._refresh_token
        return self._issued()

    def _issued(self) -> Issued:
        # Without a refresh token there is nothing to renew: the server decides.
        expiry = _expiry(self._id_token) if self._refresh_token else None
        return Issued(f"Bearer {self._id_token}", expiry)

    async def _refresh(self) -> _Tokens:
        connector = aiohttp.TCPConnector(ssl=self._tls.current())
        timeout = aiohttp.ClientTimeout(total=REQUEST_TIMEOUT_SECONDS)
        # With the proxy of the environment, as client-go: providers are often external.
        async with aiohttp.ClientSession(
            connector=connector, timeout=timeout, trust_env=True, auto_decompress=False
        ) as session:
            url = f"{self._issuer}/.well-known/openid-configuration"
            found = msgspec.json.decode(await _body(session, "GET", url), type=_Discovery)
            if not found.token_endpoint.startswith("https://"):
                raise ValueError("a token endpoint without TLS")
            form = {"grant_type": "refresh_token", "refresh_token": self._refresh_token}
            body = await _body(
                session, "POST", found.token_endpoint, form, Authorization=self._basic
            )
        tokens = msgspec.json.decode(body, type=_Tokens)
        _expiry(tokens.id_token)
        return tokens


async def _body(
    session: aiohttp.ClientSession,
    method: str,
    url: str,
    form: dict[str, str] | None = None,
    **headers: str,
) -> bytes:
    headers |= {"Accept": "application/json", "Accept-Encoding": "identity"}
    async with session.request(
        method, url, headers=headers, data=form, allow_redirects=False
    ) as response:
        if response.status != 200:
            raise ValueError("the provider refused")
        body = await read_body(response, MAX_RESPONSE_BYTES)
        if body is None:
            raise ValueError("the response is too long")
        return body


def _authority(config: Mapping[str, Any], folder: str) -> Pem | None:
    if data := config.get("idp-certificate-authority-data"):
        try:
            return base64.b64decode(str(data))
        except binascii.Error as error:
            raise ConfigurationError("oidc: idp-certificate-authority-data: no base64") from error
    file = config.get("idp-certificate-authority")
    return Path(folder) / str(file) if file else None


def _expiry(token: str) -> float | None:
    """Return the expiry in a JWT, wall time in seconds; None if it has none.

    Raises:
        ConfigurationError: not a JWT. The text does not contain the token.
    """
    try:
        return token_expiry(token)
    except ValueError:
        raise ConfigurationError("oidc: the id-token is no JWT") from None
