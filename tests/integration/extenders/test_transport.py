"""ExtenderHttp over real sockets: TLS, size, time, and peers that are not there."""

from __future__ import annotations

import asyncio
import base64
import datetime as dt
import ssl
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from config import ExtenderTLSConfig
from devtools.loop_time import pass_time
from scheduler.client.errors import (
    ConfigurationError,
    ConnectionFailed,
    RequestError,
    RequestTimeout,
)
from scheduler.extenders.http_client import (
    ExtenderHttp,
    ExtenderResponseTooLarge,
    ExtenderStatusError,
)
from tests.integration.extenders.extender import ExtenderServer, hanging_for

NAME = "extender.test"


async def test_size_is_limited(extender: ExtenderServer) -> None:
    extender.responses["filter"] = lambda _: b'"' + b"x" * 5000 + b'"'
    async with ExtenderHttp(extender.url, timeout=60, max_response_bytes=4000) as http:
        with pytest.raises(ExtenderResponseTooLarge, match="longer than 4002 bytes"):
            await http.post("filter", b"{}")
    async with ExtenderHttp(extender.url, timeout=60, max_response_bytes=5000) as http:
        assert len(await http.post("filter", b"{}")) == 5002


async def test_time_is_limited(extender: ExtenderServer) -> None:
    extender.responses["filter"] = hanging_for(2)
    async with ExtenderHttp(extender.url, timeout=2) as http:
        with pytest.raises(RequestTimeout, match="no response within 2s") as caught:
            await http.post("filter", b"{}")
    assert caught.value.outcome_unknown


@pytest.mark.parametrize("status", [307, 308])
async def test_redirects_are_followed_with_the_request(
    extender: ExtenderServer, status: int
) -> None:
    """Go's HTTP client does the same; an extender behind `/filter/` may respond so."""

    async def move(request: web.Request) -> web.Response:
        return web.Response(status=status, headers={"Location": f"{extender.url}/filter"})

    app = web.Application()
    app.router.add_post("/filter", move)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    try:
        async with ExtenderHttp(f"http://{host}:{port}", timeout=60) as http:
            response = await http.post("filter", b'{"NodeNames": ["n1"]}')
    finally:
        await runner.cleanup()
    assert response == b'{"NodeNames": ["n1"]}'
    assert extender.calls == [("filter", {"NodeNames": ["n1"]})]


@pytest.mark.parametrize("status", [302, 307])
async def test_a_redirect_to_nowhere_and_one_in_a_circle_are_errors(
    extender: ExtenderServer, status: int
) -> None:
    extender.responses["filter"] = lambda _: status
    async with ExtenderHttp(extender.url, timeout=60) as http:
        with pytest.raises(ExtenderStatusError, match=f"code {status}"):
            await http.post("filter", b"{}")
    assert extender.verbs() == ["filter"]

    async def circle(request: web.Request) -> web.Response:
        return web.Response(status=307, headers={"Location": str(request.url)})

    app = web.Application()
    app.router.add_post("/filter", circle)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    try:
        async with ExtenderHttp(f"http://{host}:{port}", timeout=60) as http:
            with pytest.raises(RequestError):
                await http.post("filter", b"{}")
    finally:
        await runner.cleanup()


async def test_the_proxy_of_the_environment_is_used(extender: ExtenderServer) -> None:
    """A proxy is sent the whole URL; here the extender plays it."""
    environment = {"HTTP_PROXY": extender.url, "NO_PROXY": "other.test"}
    url = "http://extender.test:8888/base"
    async with ExtenderHttp(url, timeout=60, environment=environment) as http:
        # aiohttp's server routes by the path of the URL it is sent.
        with pytest.raises(ExtenderStatusError, match="code 404"):
            await http.post("filter", b"{}")
    async with ExtenderHttp("http://extender.test", timeout=60, environment=environment) as http:
        assert await http.post("filter", b'{"NodeNames": []}') == b'{"NodeNames": []}'
    assert extender.verbs() == ["filter"]


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_the_proxys_password_is_sent_and_not_shown(scheme: str) -> None:
    heads: list[bytes] = []

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    proxy = f"http://user:canary@127.0.0.1:{server.sockets[0].getsockname()[1]}"
    environment = {"HTTP_PROXY": proxy, "HTTPS_PROXY": proxy}
    async with (
        server,
        ExtenderHttp(f"{scheme}://e.test", timeout=60, environment=environment) as http,
    ):
        with pytest.raises(RequestError, match="407") as caught:
            await http.post("filter", b"{}")
    assert "canary" not in str(caught.value)
    expected = base64.b64encode(b"user:canary")
    assert b"Proxy-Authorization: Basic " + expected in heads[0]


async def test_a_proxy_that_is_no_url_is_rejected_at_start() -> None:
    with pytest.raises(ConfigurationError, match="the proxy of the environment"):
        ExtenderHttp("http://extender.test", timeout=1, environment={"HTTP_PROXY": "http://"})


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
BROKEN: list[tuple[str, bytes, bool]] = [
    # what the peer sends, and whether it goes on, a byte at a time, until the client hangs up
    ("closes before the head", b"", False),
    ("dies in the head", HEAD, False),
    ("dies in the body", HEAD + b'Content-Length: 100\r\n\r\n{"NodeNames":', False),
    ("dies in a chunk", HEAD + b"Transfer-Encoding: chunked\r\n\r\n64\r\n[", False),
    ("no HTTP", b"SSH-2.0-OpenSSH_9.6\r\n", False),
    ("a length that is none", HEAD + b"Content-Length: many\r\n\r\n{}", False),
    ("dribbles", HEAD + b"Content-Length: 1000000000\r\n\r\n", True),
]


@pytest.mark.parametrize(("sent", "goes_on"), [each[1:] for each in BROKEN],
                         ids=[each[0] for each in BROKEN])  # fmt: skip
async def test_half_a_response_is_an_error(sent: bytes, goes_on: bool) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"{}")
        writer.write(sent)
        with suppress(ConnectionError):
            await writer.drain()
            while goes_on:
                writer.write(b" ")
                await writer.drain()
                pass_time(0.1)
                await asyncio.sleep(0)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, ExtenderHttp(f"http://127.0.0.1:{port}", timeout=10) as http:
        with pytest.raises(RequestError) as caught:
            await http.post("bind", b"{}")
    # It may have acted on the request.
    assert caught.value.outcome_unknown


async def test_a_server_that_does_not_listen(extender: ExtenderServer) -> None:
    url = extender.url
    await extender.__aexit__()
    async with ExtenderHttp(url, timeout=60) as http:
        with pytest.raises(ConnectionFailed) as caught:
            await http.post("bind", b"{}")
    assert not caught.value.outcome_unknown


def certificate(folder: Path) -> tuple[Path, Path]:
    """A self-signed certificate for NAME, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAME)])
    day = dt.timedelta(days=1)
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - day)
        .not_valid_after(now + day)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(NAME)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    cert_file, key_file = folder / "tls.crt", folder / "tls.key"
    cert_file.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    key_file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return cert_file, key_file


@pytest.fixture
async def secure(tmp_path: Path) -> AsyncIterator[tuple[str, Path, Path]]:
    """An HTTPS extender that wants a client certificate: URL, certificate, key."""
    cert_file, key_file = certificate(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(cert_file))
    context.load_cert_chain(cert_file, key_file)
    context.verify_mode = ssl.CERT_REQUIRED

    async def respond(request: web.Request) -> web.Response:
        return web.Response(body=await request.read())

    app = web.Application()
    app.router.add_post("/{verb}", respond)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    yield f"https://127.0.0.1:{runner.addresses[0][1]}", cert_file, key_file
    await runner.cleanup()


def data(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


async def test_tls_by_files_and_by_data(secure: tuple[str, Path, Path]) -> None:
    url, cert, key = secure
    files = ExtenderTLSConfig(
        server_name=NAME, ca_file=str(cert), cert_file=str(cert), key_file=str(key)
    )
    inline = ExtenderTLSConfig(
        server_name=NAME,
        ca_data=data(cert),
        # Data beats files.
        ca_file="/nowhere",
        cert_data=data(cert),
        key_data=data(key),
    )
    unverified = ExtenderTLSConfig(cert_file=str(cert), key_file=str(key))
    for tls, lenient in ((files, False), (inline, False), (unverified, True)):
        async with ExtenderHttp(url, timeout=60, tls=tls, lenient=lenient) as http:
            assert await http.post("filter", b"[]") == b"[]"


async def test_a_certificate_of_another_authority_is_rejected(
    secure: tuple[str, Path, Path],
) -> None:
    url, cert, key = secure
    wrong = ExtenderTLSConfig(ca_file=str(cert), cert_file=str(cert), key_file=str(key))
    unknown = ExtenderTLSConfig(server_name=NAME, cert_file=str(cert), key_file=str(key))
    for tls in (wrong, unknown):
        async with ExtenderHttp(url, timeout=60, tls=tls) as http:
            with pytest.raises(ConnectionFailed, match="certificate verify failed") as caught:
                await http.post("filter", b"[]")
        assert not caught.value.outcome_unknown
