"""An OIDC provider over real TLS: requests to it, and the use of its responses."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from devtools.loop_time import pass_time
from scheduler.client.errors import ConfigurationError
from scheduler.client.oidc import REQUEST_TIMEOUT_SECONDS, OidcProvider
from scheduler.service.serving.self_signed import make_pair
from tests.unit.client.virtual_clock import EPOCH, ManualClock

CANARY = "c4nary-refresh-secret"


def jwt(name: str, expires: float | None = None) -> str:
    claims: dict[str, Any] = {"sub": name} | ({} if expires is None else {"exp": expires})
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"head.{payload}.signature"


class Provider:
    """Issues numbered tokens that last an hour."""

    def __init__(self, folder: Path) -> None:
        self.certificate, key = folder / "idp.crt", folder / "idp.key"
        for path, content in zip(
            (self.certificate, key), make_pair(datetime.now(UTC), timedelta(days=1)), strict=True
        ):
            path.write_bytes(content)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(self.certificate, key)
        self.forms: list[dict[str, Any]] = []
        self.url = ""
        self.token_url = ""
        self.response: Callable[[], web.StreamResponse] | None = None
        self.hangs = False

    async def discover(self, _: web.Request) -> web.Response:
        return web.json_response({"token_endpoint": self.token_url or f"{self.url}/token"})

    async def issue(self, request: web.Request) -> web.StreamResponse:
        assert request.headers["Authorization"] == "Basic " + base64.b64encode(b"me:pw").decode()
        self.forms.append(dict(await request.post()))
        if self.hangs:
            # aiohttp rounds up to whole seconds.
            pass_time(REQUEST_TIMEOUT_SECONDS + 1)
            await asyncio.Event().wait()
        number = len(self.forms)
        tokens = {"id_token": jwt(str(number), EPOCH + 3600), "refresh_token": f"r{number}"}
        return self.response() if self.response else web.json_response(tokens)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        app = web.Application()
        app.router.add_get("/.well-known/openid-configuration", self.discover)
        app.router.add_post("/token", self.issue)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=self._context).start()
        self.url = f"https://localhost:{runner.addresses[0][1]}"
        try:
            yield
        finally:
            await runner.cleanup()

    def config(self, **more: str) -> dict[str, str]:
        return {
            "idp-issuer-url": self.url,
            "client-id": "me",
            "client-secret": "pw",
            "refresh-token": CANARY,
            "idp-certificate-authority": self.certificate.name,
        } | more


@pytest.fixture
async def provider(tmp_path: Path) -> AsyncIterator[Provider]:
    made = Provider(tmp_path)
    async with made.serving():
        yield made


async def test_a_valid_token_is_used_without_a_request(provider: Provider, tmp_path: Path) -> None:
    token = jwt("jane", EPOCH + 11)
    made = OidcProvider(provider.config(**{"id-token": token}), str(tmp_path), ManualClock())
    issued = await made.first()
    assert (issued.header, issued.expires_at) == (f"Bearer {token}", EPOCH + 11)
    assert not provider.forms


async def test_an_expired_one_is_refreshed_with_the_newest_refresh_token(
    provider: Provider, tmp_path: Path
) -> None:
    config = provider.config(**{"id-token": jwt("jane", EPOCH + 10)})
    made = OidcProvider(config, str(tmp_path), ManualClock())
    first = await made.first()
    assert (first.header, first.expires_at) == (f"Bearer {jwt('1', EPOCH + 3600)}", EPOCH + 3600)
    await made.issue()
    assert [form["refresh_token"] for form in provider.forms] == [CANARY, "r1"]
    assert {form["grant_type"] for form in provider.forms} == {"refresh_token"}


async def test_a_provider_with_an_untrusted_certificate_gets_no_request(
    provider: Provider, tmp_path: Path
) -> None:
    config = provider.config()
    del config["idp-certificate-authority"]
    with pytest.raises(ConfigurationError, match=r"issued no token .*Certificate"):
        await OidcProvider(config, str(tmp_path), ManualClock()).first()
    assert not provider.forms


async def test_the_authority_may_be_data(provider: Provider, tmp_path: Path) -> None:
    data = base64.b64encode(provider.certificate.read_bytes()).decode()
    config = provider.config(**{"idp-certificate-authority-data": data})
    assert (await OidcProvider(config, "/nowhere", ManualClock()).first()).header


@pytest.mark.parametrize(
    "response",
    [
        lambda: web.Response(status=400, text=CANARY),
        lambda: web.Response(status=302, headers={"Location": "https://localhost:1/"}),
        lambda: web.Response(text=CANARY),
        lambda: web.Response(text="[" * 5000),
        lambda: web.Response(body=b" " * (1 << 20) + b"{}"),
        lambda: web.json_response({"id_token": CANARY}),
        lambda: web.json_response({"id_token": 1, "x": CANARY}),
    ],
)
async def test_a_malformed_response_is_not_shown(
    provider: Provider, tmp_path: Path, response: Callable[[], web.Response]
) -> None:
    provider.response = response
    made = OidcProvider(provider.config(), str(tmp_path), ManualClock())
    with pytest.raises(ConfigurationError, match="oidc: ") as caught:
        await made.first()
    assert CANARY not in f"{caught.value!r} {caught.value.__cause__!r}"


async def test_a_token_endpoint_without_tls_gets_no_request(
    provider: Provider, tmp_path: Path
) -> None:
    provider.token_url = provider.url.replace("https", "http") + "/token"
    with pytest.raises(ConfigurationError, match="issued no token"):
        await OidcProvider(provider.config(), str(tmp_path), ManualClock()).first()


async def test_a_provider_that_hangs_times_out(provider: Provider, tmp_path: Path) -> None:
    provider.hangs = True
    with pytest.raises(ConfigurationError, match=r"issued no token .*Timeout"):
        await OidcProvider(provider.config(), str(tmp_path), ManualClock()).first()


async def test_without_a_refresh_token_the_server_decides(tmp_path: Path) -> None:
    config = {"idp-issuer-url": "https://idp.invalid", "client-id": "me"}
    token = jwt("jane", EPOCH + 3600)
    made = OidcProvider(config | {"id-token": token}, str(tmp_path), ManualClock())
    assert (await made.first()).expires_at is None
    for without in (config, config | {"id-token": jwt("jane", EPOCH)}):
        with pytest.raises(ConfigurationError, match="no refresh-token"):
            await OidcProvider(without, str(tmp_path), ManualClock()).first()


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({}, "idp-issuer-url is missing"),
        ({"idp-issuer-url": "https://idp.invalid"}, "client-id is missing"),
        ({"idp-issuer-url": "http://idp.invalid", "client-id": "me"}, "must begin with https"),
    ],
)
def test_a_configuration_that_cannot_work(config: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        OidcProvider(config, "/", ManualClock())
