"""Certificates and tokens that are replaced while requests go on."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from scheduler.client.configuration import ClientConfiguration, load_configuration
from scheduler.client.errors import ConnectionFailed
from scheduler.client.resources import PODS
from scheduler.client.rest import ApiClient
from scheduler.client.transport import Transport
from tests.integration.client.test_http_tls import another, contents, serving, shown, user_files
from tests.unit.client.test_certificate_rotation import FIVE_MINUTES
from tests.unit.client.virtual_clock import ManualClock

LAST = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"
UNAUTHORIZED = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"


class TestRotation:
    """The operator replaces authority, client certificate and token; requests go on."""

    @pytest.fixture
    def files(self, tmp_path: Path) -> Rotated:
        return Rotated(tmp_path)

    @pytest.mark.parametrize("proxied", [False, True], ids=["direct", "proxied"])
    async def test_everything_is_replaced_and_the_old_authority_is_gone(
        self, files: Rotated, proxied: bool
    ) -> None:
        clock = ManualClock()
        port = 0
        transport: Transport | None = None
        async with contextlib.AsyncExitStack() as stack:
            for generation in range(3):
                files.replace()
                async with serving(files.server(), files, port) as port:
                    if transport is None:
                        configuration = await files.configuration(port, clock)
                        if proxied:
                            tunnel = await stack.enter_async_context(tunnelling(port))
                            configuration = dataclasses.replace(configuration, proxy=tunnel)
                        transport = await stack.enter_async_context(Transport(configuration))
                        client = ApiClient(transport, clock=clock)
                    else:
                        with pytest.raises(ConnectionFailed):
                            await client.request("DELETE", "/x")
                        clock.jump(FIVE_MINUTES)
                    for _ in range(2):
                        await client.request("DELETE", "/x")
                assert files.seen[-2:] == [(str(generation), f"Bearer {generation}")] * 2

    async def test_a_watch_goes_on_while_new_requests_use_the_new_certificate(
        self, files: Rotated
    ) -> None:
        files.replace()
        clock = ManualClock()
        goes_on = asyncio.Event()

        async def watch(writer: asyncio.StreamWriter) -> None:
            del files.response
            writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n")
            await goes_on.wait()
            writer.write(b"3\r\ntwo\r\n0\r\n\r\n")

        files.response = watch  # type: ignore[method-assign]
        context = files.server()
        async with serving(context, files) as port:
            configuration = await files.configuration(port, clock)
            async with Transport(configuration) as transport:
                client = ApiClient(transport, clock=clock)
                async with client.open_watch(PODS, "", {}, idle_timeout=60.0) as stream:
                    assert await stream.read() == b"one"
                    files.replace(server=False)
                    context.load_verify_locations(files.certificate)
                    clock.jump(FIVE_MINUTES)
                    await client.request("DELETE", "/x")
                    goes_on.set()
                    assert await stream.read() == b"two"
        assert files.seen == [("0", "Bearer 0"), ("1", "Bearer 1")]

    async def test_a_refused_credential_is_read_again_at_once(self, files: Rotated) -> None:
        files.replace()
        clock = ManualClock()

        async def refuse(writer: asyncio.StreamWriter) -> None:
            del files.response
            files.replace(server=False)
            context.load_verify_locations(files.certificate)
            writer.write(UNAUTHORIZED)

        files.response = refuse  # type: ignore[method-assign]
        context = files.server()
        async with serving(context, files) as port:
            configuration = await files.configuration(port, clock)
            async with Transport(configuration) as transport:
                await ApiClient(transport, clock=clock).request("DELETE", "/x")
        assert files.seen == [("0", "Bearer 0"), ("1", "Bearer 1")]


class Rotated:
    """The files of a kubeconfig, and a server that believes what is in them now."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = folder / "ca.crt"
        self.certificate, self.key = folder / "client.crt", folder / "client.key"
        self.token = folder / "token"
        self.seen: list[tuple[str, str]] = []
        self._server_key = folder / "server.key"
        self._generation = -1

    def replace(self, *, server: bool = True) -> None:
        self._generation += 1
        if server:
            for path, content in zip((self.authority, self._server_key), another(), strict=True):
                path.write_bytes(content)
        made = user_files(self.folder, str(self._generation))
        for path, content in zip((self.certificate, self.key), contents(made), strict=True):
            path.write_bytes(content)
        self.token.write_text(str(self._generation))

    def server(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.authority, self._server_key)
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(self.certificate)
        return context

    async def configuration(self, port: int, clock: ManualClock) -> ClientConfiguration:
        user = {
            "client-certificate": "client.crt",
            "client-key": "client.key",
            "tokenFile": "token",
        }
        cluster = {"server": f"https://localhost:{port}", "certificate-authority": "ca.crt"}
        path = self.folder / "kubeconfig"
        path.write_text(
            json.dumps(
                {
                    "current-context": "c",
                    "clusters": [{"name": "c", "cluster": cluster}],
                    "users": [{"name": "u", "user": user}],
                    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                }
            )
        )
        return await load_configuration(kubeconfig=str(path), environ={}, clock=clock)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request a connection; who sent it is noted."""
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            head = await reader.readuntil(b"\r\n\r\n")
            token = head.partition(b"Authorization: ")[2].partition(b"\r\n")[0].decode()
            self.seen.append((shown(writer), token))
            await self.response(writer)
            await writer.drain()
        await close(writer)

    async def response(self, writer: asyncio.StreamWriter) -> None:
        writer.write(LAST)


@asynccontextmanager
async def tunnelling(port: int) -> AsyncIterator[str]:
    """A proxy that knows CONNECT, to one place only."""
    handlers: set[asyncio.Task[None] | None] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        handlers.add(asyncio.current_task())
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            await reader.readuntil(b"\r\n\r\n")
            upstream = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            await asyncio.gather(copy(reader, upstream[1]), copy(upstream[0], writer))
        await close(writer)

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with listening:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    await asyncio.gather(*(handler for handler in handlers if handler))


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    await close(writer)


async def close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        await writer.wait_closed()
