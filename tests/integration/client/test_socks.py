"""The API server behind a SOCKS5 proxy, for the client and for commands."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from scheduler.cli.streams import connect, exchange
from scheduler.client.configuration import ClientConfiguration
from scheduler.client.errors import ConnectionFailed
from scheduler.client.http.request import HeaderBlock, Request
from scheduler.client.socks import SocksProxy
from scheduler.client.transport import Transport

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@dataclass
class Proxy:
    """A SOCKS5 proxy that answers HTTP itself."""

    password: bytes = b""
    status: int = 0
    named: bool = False
    asked: list[bytes] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            _, count = await reader.readexactly(2)
            methods = await reader.readexactly(count)
            method = 2 if self.password else 0
            writer.write(bytes((5, method if method in methods else 0xFF)))
            if method:
                _, length = await reader.readexactly(2)
                user = await reader.readexactly(length)
                (length,) = await reader.readexactly(1)
                right = (user, await reader.readexactly(length)) == (b"jane", self.password)
                writer.write(bytes((1, not right)))
            head = await reader.readexactly(4)
            size = {1: 4, 4: 16}.get(head[3]) or (await reader.readexactly(1))[0]
            self.asked.append(await reader.readexactly(size + 2))
            bound = b"\x03\x04name\0\0" if self.named else b"\x01\0\0\0\0\0\0"
            writer.write(bytes((5, self.status, 0)) + bound)
            await reader.readuntil(b"\r\n\r\n")
            writer.write(ANSWER)
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def running(proxy: Proxy, user: str = "") -> AsyncIterator[str]:
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    async with server:
        yield f"socks5://{user}127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def by_client(url: str, proxy: str) -> bytes:
    async with Transport(ClientConfiguration(url, proxy=proxy)) as transport:
        return (await transport.exchange(Request("GET", "/", HeaderBlock({})), 5.0)).body


def by_command(url: str, proxy: str) -> bytes:
    stream = connect(url, 5.0, tls=None, proxy=proxy)
    try:
        with exchange(stream, "x", "GET", "/", {}) as response:
            return response.read()
    finally:
        stream.close()


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://api.invalid:80", b"api.invalid\0P"),
        ("http://10.0.0.1:80", b"\x0a\0\0\x01\0P"),
        ("http://[fd00::1]:80", b"\xfd" + b"\0" * 14 + b"\x01\0P"),
    ],
)
async def test_the_proxy_opens_the_connection(url: str, address: bytes) -> None:
    for named in (False, True):
        proxy = Proxy(named=named)
        async with running(proxy) as at:
            assert await by_client(url, at) == b"ok"
            assert await asyncio.to_thread(by_command, url, at) == b"ok"
        assert proxy.asked == [address, address]


@pytest.mark.parametrize(
    ("proxy", "user", "text"),
    [
        (Proxy(status=5), "", "refused the connection: connection refused"),
        (Proxy(status=99), "", "refused the connection: error 99"),
        (Proxy(password=b"pw"), "", "demands another way to authenticate"),
        (Proxy(password=b"pw"), "jane:wrong@", "refused the user name or password"),
    ],
)
async def test_a_refusal_is_named_without_the_password(proxy: Proxy, user: str, text: str) -> None:
    async with running(proxy, user) as at:
        with pytest.raises(ConnectionFailed, match=text) as failed:
            await by_client("http://api.invalid", at)
        assert "wrong" not in str(failed.value)
        with pytest.raises(OSError, match=text):
            await asyncio.to_thread(by_command, "http://api.invalid", at)


async def test_a_user_and_password_are_sent() -> None:
    async with running(Proxy(password=b"p w"), "jane:p%20w@") as at:
        assert await by_client("http://api.invalid", at) == b"ok"
        assert await asyncio.to_thread(by_command, "http://api.invalid", at) == b"ok"


async def test_what_is_no_proxy_is_named() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        at = f"socks5://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with pytest.raises(ConnectionFailed, match="is no SOCKS5 proxy"):
            await by_client("http://api.invalid", at)


def test_the_usual_port_is_1080() -> None:
    found = SocksProxy.of("socks5://proxy")
    assert found is not None
    assert found.port == 1080
    assert SocksProxy.of("http://proxy:1080") is None
