"""TLS under the client: which certificates are trusted, and the errors of refusals."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from scheduler.client.configuration import ClientConfiguration
from scheduler.client.credentials import StaticCredentials
from scheduler.client.errors import ConfigurationError, ConnectionFailed
from scheduler.client.http.pool import Address, ConnectionPool, PoolOptions
from scheduler.client.http.tls import ClientTls, TlsSettings
from scheduler.client.rest import ApiClient
from scheduler.client.transport import Transport
from scheduler.service.serving.self_signed import make_pair
from tests.integration.client.scripted_server import GET, OK, Server, post, sends

LAST = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"
UNAUTHORIZED = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"


class Authority:
    """A certificate for localhost, and contexts of both sides."""

    def __init__(self, folder: Path) -> None:
        certificate, key = make_pair(datetime.now(UTC), timedelta(days=1))
        self.certificate, self.key = folder / "tls.crt", folder / "tls.key"
        self.certificate.write_bytes(certificate)
        self.key.write_bytes(key)

    def server(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self.key)
        return context

    def client(self) -> ClientTls:
        return ClientTls(TlsSettings(self.certificate))


def another() -> tuple[bytes, bytes]:
    """A new client certificate and its key."""
    return make_pair(datetime.now(UTC), timedelta(days=1))


def contents(files: tuple[Path, Path]) -> tuple[bytes, bytes]:
    return files[0].read_bytes(), files[1].read_bytes()


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@asynccontextmanager
async def serving_tls(authority: Authority, server: Server) -> AsyncIterator[int]:
    async with serving(authority.server(), server) as port:
        yield port


class Serving(Protocol):
    """Serves the connections of a listening socket."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None: ...


@asynccontextmanager
async def serving(context: ssl.SSLContext, server: Serving, port: int = 0) -> AsyncIterator[int]:
    listening = await asyncio.start_server(server.serve, "127.0.0.1", port, ssl=context)
    async with listening:
        yield listening.sockets[0].getsockname()[1]


@asynccontextmanager
async def pooled(address: Address) -> AsyncIterator[ConnectionPool]:
    pool = ConnectionPool(address, PoolOptions(2, 60.0, 60.0))
    try:
        yield pool
    finally:
        await pool.close()


@pytest.mark.parametrize(("host", "name"), [("localhost", None), ("127.0.0.1", "localhost")])
async def test_a_trusted_server(authority: Authority, host: str, name: str | None) -> None:
    server = Server([sends(OK)] * 3)
    async with (
        serving_tls(authority, server) as port,
        pooled(Address(host, port, authority.client(), name)) as pool,
    ):
        for _ in range(3):
            assert (await post(pool)).body == b"ok"
        assert server.connections == 1


@pytest.mark.parametrize("stranger", ["authority", "name"])
async def test_a_server_that_is_not_trusted_gets_no_request(
    authority: Authority, stranger: str
) -> None:
    server = Server([sends(OK)])
    if stranger == "authority":
        address = ClientTls(), "localhost"
    else:
        address = authority.client(), "another.example"
    async with (
        serving_tls(authority, server) as port,
        pooled(Address("127.0.0.1", port, *address)) as pool,
    ):
        with pytest.raises(ConnectionFailed, match="certificate verify failed") as caught:
            await post(pool)
        assert not caught.value.outcome_unknown
    assert server.requests == 0


SUITES = {
    # What Go's servers offer with TLS 1.2 by default, and what they once did.
    "ECDHE-ECDSA-AES128-GCM-SHA256": True,
    "ECDHE-ECDSA-AES256-GCM-SHA384": True,
    "ECDHE-ECDSA-CHACHA20-POLY1305": True,
    "ECDHE-ECDSA-AES128-SHA": False,
    "ECDHE-ECDSA-AES256-SHA": False,
    "ECDHE-ECDSA-AES128-SHA256": False,
}


@pytest.mark.parametrize(("suite", "spoken"), SUITES.items())
async def test_tls_1_2_with_authenticated_encryption_only(
    authority: Authority, suite: str, spoken: bool
) -> None:
    context = authority.server()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(f"{suite}:@SECLEVEL=0")
    server = Server([sends(OK)])
    async with (
        serving(context, server) as port,
        pooled(Address("localhost", port, authority.client())) as pool,
    ):
        if spoken:
            assert (await post(pool)).body == b"ok"
        else:
            with pytest.raises(ConnectionFailed, match=r"cannot connect to .*: \w") as caught:
                await post(pool)
            assert not caught.value.outcome_unknown
    assert server.requests == int(spoken)


async def test_later_connections_resume_the_first_ones_session(authority: Authority) -> None:
    context = authority.server()
    server = Server([sends(LAST, close=True)] * 4)
    async with (
        serving(context, server) as port,
        pooled(Address("localhost", port, authority.client())) as pool,
    ):
        for _ in range(4):
            assert (await post(pool)).body == b"ok"
    assert server.connections == 4
    assert context.session_stats()["hits"] == 3


async def test_a_session_that_the_server_does_not_know_leads_to_a_full_handshake(
    authority: Authority,
) -> None:
    # As after a restart of the API server: the keys of its tickets are new.
    client, before, after = authority.client(), authority.server(), authority.server()
    port = 0
    for context, posts in ((before, 2), (after, 3)):
        server = Server([sends(LAST, close=True)] * posts)
        async with (
            serving(context, server, port) as port,
            pooled(Address("localhost", port, client)) as pool,
        ):
            for _ in range(posts):
                assert (await post(pool)).body == b"ok"
    assert before.session_stats()["hits"] == 1
    assert after.session_stats()["hits"] == 2


async def test_a_new_client_certificate_is_used(authority: Authority) -> None:
    # A resumed session would go on with the identity it was agreed upon with.
    context, client = authority.server(), authority.client()
    server = Server([sends(LAST, close=True)] * 2)
    async with (
        serving(context, server) as port,
        pooled(Address("localhost", port, client)) as pool,
    ):
        assert (await post(pool)).body == b"ok"
        client.use_certificate(*another())
        assert (await post(pool)).body == b"ok"
    assert context.session_stats()["hits"] == 0


async def test_a_kept_connection_does_not_outlive_its_certificate(authority: Authority) -> None:
    context, client = authority.server(), authority.client()
    server = Server([sends(OK)] * 4)
    async with (
        serving(context, server) as port,
        pooled(Address("localhost", port, client)) as pool,
    ):
        for expected in (1, 1, 2, 2):
            if expected > server.connections > 0:
                client.use_certificate(*another())
            assert (await post(pool)).body == b"ok"
            assert server.connections == expected


async def test_a_certificate_that_comes_during_an_exchange(authority: Authority) -> None:
    # The connection under way was agreed upon with the one before, and so was its session.
    context, client = authority.server(), authority.client()

    async def renewed_meanwhile(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client.use_certificate(*another())
        writer.write(OK)

    server = Server([renewed_meanwhile, sends(OK)])
    async with (
        serving(context, server) as port,
        pooled(Address("localhost", port, client)) as pool,
    ):
        for _ in range(2):
            assert (await post(pool)).body == b"ok"
    assert server.connections == 2
    assert context.session_stats()["hits"] == 0


class TestClientCertificates:
    """A server that records client certificates and trusts one of them."""

    @pytest.fixture
    def users(self, tmp_path: Path) -> dict[str, tuple[Path, Path]]:
        """Certificate and key of each."""
        return {name: user_files(tmp_path, name) for name in ("old", "new")}

    def server(self, authority: Authority, users: dict[str, tuple[Path, Path]]) -> ssl.SSLContext:
        context = authority.server()
        context.verify_mode = ssl.CERT_OPTIONAL
        for certificate, _ in users.values():
            context.load_verify_locations(certificate)
        return context

    async def test_a_refused_one_is_renewed_and_used(
        self, authority: Authority, users: dict[str, tuple[Path, Path]]
    ) -> None:
        trusted, seen = ["old"], list[str]()
        tls = authority.client()
        tls.use_certificate(*contents(users["old"]))

        class Plugin(StaticCredentials):
            async def renew(self) -> None:
                tls.use_certificate(*contents(users["new"]))

        async def judge(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            seen.append(shown(writer))
            writer.write(OK if seen[-1] in trusted else UNAUTHORIZED)

        async with serving(self.server(authority, users), Server([judge] * 3)) as port:
            url = f"https://localhost:{port}"
            configuration = ClientConfiguration(url, tls, Plugin())
            async with Transport(configuration) as transport:
                client = ApiClient(transport)
                await client.request("DELETE", "/x")
                trusted[:] = ["new"]
                await client.request("DELETE", "/x")
        assert seen == ["old", "old", "new"]

    async def test_one_that_cannot_be_used_leaves_the_old_one_in_place(
        self, authority: Authority, users: dict[str, tuple[Path, Path]]
    ) -> None:
        seen: list[str] = []

        async def look(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            seen.append(shown(writer))
            writer.write(OK)

        tls = authority.client()
        tls.use_certificate(*contents(users["old"]))
        with pytest.raises(ConfigurationError, match="client certificate: "):
            tls.use_certificate(users["new"][0].read_bytes(), users["old"][1].read_bytes())
        async with (
            serving(self.server(authority, users), Server([look])) as port,
            pooled(Address("localhost", port, tls)) as pool,
        ):
            await post(pool)
        assert seen == ["old"]


def user_files(folder: Path, user: str) -> tuple[Path, Path]:
    """A client certificate that signed itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, user)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    paths = folder / f"{user}.crt", folder / f"{user}.key"
    paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return paths


def shown(writer: asyncio.StreamWriter) -> str:
    """The name in the certificate of the other side."""
    certificate = writer.get_extra_info("peercert")
    return dict(pair for (pair,) in certificate["subject"])["commonName"] if certificate else ""


async def test_a_stream_is_cut_and_says_so(authority: Authority) -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n"
    server = Server([sends(head, close=True)])
    async with (
        serving_tls(authority, server) as port,
        pooled(Address("localhost", port, authority.client())) as pool,
    ):
        stream = await pool.open_stream(GET, 2.0)
        assert await stream.read() == b"one"
        with pytest.raises(ConnectionFailed):
            await stream.read()
