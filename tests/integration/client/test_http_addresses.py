"""A server with several addresses, of which some do not respond."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from scheduler.client.errors import ConnectionFailed
from scheduler.client.http import pool
from scheduler.client.http.pool import Address, ConnectionPool, PoolOptions
from tests.integration.client.scripted_server import OK, post, sends, serving

NAME = "api.example"
CLOSED_PORT = 1


@pytest.fixture
def silent() -> Iterator[tuple[str, int]]:
    """An address that takes no connection and refuses none: its queue is full."""
    with socket.create_server(("127.0.0.2", 0), backlog=0) as listening:
        address = listening.getsockname()
        waiting = [socket.socket() for _ in range(8)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(address)
        yield address
        for each in waiting:
            each.close()


def resolve(monkeypatch: pytest.MonkeyPatch, *addresses: tuple[str, int]) -> None:
    """Let NAME have these addresses."""
    loop = asyncio.get_running_loop()
    otherwise = loop.getaddrinfo

    async def found(host: str, *rest: Any, **more: Any) -> Sequence[object]:
        if host != NAME:
            # uvloop looks up numbers, too.
            return await otherwise(host, *rest, **more)
        kind = (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "")
        return [(*kind, address) for address in addresses]

    monkeypatch.setattr(loop, "getaddrinfo", found)


def pooled() -> ConnectionPool:
    return ConnectionPool(Address(NAME, 443), PoolOptions(1, 60.0, 60.0))


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere 127.0.0.2 is not a local address")
async def test_a_silent_address_costs_a_moment(
    monkeypatch: pytest.MonkeyPatch, silent: tuple[str, int]
) -> None:
    monkeypatch.setattr(pool, "HAPPY_EYEBALLS_DELAY", 0.01)
    async with serving(sends(OK)) as server:
        resolve(monkeypatch, silent, ("127.0.0.1", server.port))
        connections = pooled()
        assert (await post(connections)).body == b"ok"
        await connections.close()


async def test_the_next_address_is_tried_at_once_after_a_refusal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with serving(sends(OK)) as server:
        resolve(monkeypatch, ("127.0.0.1", CLOSED_PORT), ("127.0.0.1", server.port))
        connections = pooled()
        assert (await post(connections)).body == b"ok"
        await connections.close()


async def test_refused_by_all_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    resolve(monkeypatch, ("127.0.0.1", CLOSED_PORT), ("127.0.0.2", CLOSED_PORT))
    connections = pooled()
    with pytest.raises(ConnectionFailed, match=f"cannot connect to {NAME}:443") as caught:
        await post(connections)
    assert caught.value.refused
    await connections.close()
