"""Thousands of idle connections: every probe still gets its response."""

from __future__ import annotations

import asyncio
import errno
import resource
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import uvloop

from scheduler.service.serving import descriptors, listening, server
from scheduler.service.serving.certificates import ServingTls
from scheduler.service.serving.listening import Acceptor
from tests.integration.serving.conftest import LOOPBACK, Open, Site

STRANGERS = 3_000
"""Several times as many as may be open."""
HARD_LIMIT = resource.getrlimit(resource.RLIMIT_NOFILE)[1]


@asynccontextmanager
async def running(script: str, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a script of this folder, which ends when its standard input is closed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(Path(__file__).with_name(script)),
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    try:
        yield process
    finally:
        process.stdin.close()
        await process.wait()


@pytest.mark.slow
@pytest.mark.skipif(
    HARD_LIMIT != resource.RLIM_INFINITY and HARD_LIMIT < STRANGERS + 100,
    reason=f"the hard limit of open files is {HARD_LIMIT}",
)
@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2"], ids=["same client", "another client"])
async def test_every_probe_succeeds_beside_thousands_of_idle_connections(
    opened: Open, site: Site, host: str
) -> None:
    if not isinstance(asyncio.get_running_loop(), uvloop.Loop):
        pytest.skip("once is enough: on the loop that the service runs on")
    async with opened(site, tls=ServingTls(LOOPBACK)) as client:
        port = str(client.server.port)
        async with running("strangers.py", port, str(STRANGERS), host) as strangers:
            async with running("prober.py", port) as prober:
                assert strangers.stdout is not None
                assert int(await strangers.stdout.readline()) == STRANGERS
                # All idle connections are open now; the prober continues for a while.
                assert prober.stdin is not None
                assert prober.stdout is not None
                prober.stdin.close()
                probes, succeeded = map(int, (await prober.stdout.readline()).split())
            statistics = client.server.statistics()
    assert (probes >= 66, succeeded) == (True, probes)
    assert statistics.accepted == STRANGERS + probes
    assert statistics.open <= descriptors.MAX_CONNECTIONS // server.CLIENT_SHARE
    assert statistics.displaced >= STRANGERS - descriptors.MAX_CONNECTIONS


async def test_a_client_that_has_sent_something_outlives_those_that_have_not(
    opened: Open, site: Site
) -> None:
    async with opened(site, max_connections=16) as client:
        reader, writer = await asyncio.open_connection("127.0.0.1", client.server.port)
        writer.write(b"GET /healthz HTTP/1.1\r\n")
        await writer.drain()
        silent = [await asyncio.open_connection("127.0.0.1", client.server.port) for _ in range(40)]
        writer.write(b"Host: x\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 200 OK")
        for _, each in (*silent, (reader, writer)):
            each.close()


async def test_an_unfinished_handshake_is_cut_and_frees_its_slot(opened: Open, site: Site) -> None:
    """After some bytes of a ClientHello nothing comes: the server cuts it and ends its task."""
    async with opened(site, tls=ServingTls(LOOPBACK), max_connections=16) as client:
        stuck = []
        for _ in range(20):
            reader, writer = await asyncio.open_connection("127.0.0.1", client.server.port)
            writer.write(b"\x16\x03\x01\x02\x00\x01")
            await writer.drain()
            stuck.append((reader, writer))
            assert (await client.request("/healthz")).text == "ok"
        statistics = client.server.statistics()
        for _, writer in stuck:
            writer.close()
    assert statistics.open <= 8
    assert statistics.displaced >= 12
    assert client.server.statistics().open == 0


class ExhaustedListener:
    """A listener that is always readable, as if connections waited, but accepts none."""

    def __init__(self) -> None:
        self._ours, self._theirs = socket.socketpair()
        self._theirs.send(b"x")
        self.calls = 0

    def fileno(self) -> int:
        return self._ours.fileno()

    def accept(self) -> object:
        self.calls += 1
        raise OSError(errno.EMFILE, "Too many open files")

    def close(self) -> None:
        self._ours.close()
        self._theirs.close()


async def test_without_descriptors_accepting_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "RETRY_SECONDS", 3600.0)
    listener = ExhaustedListener()
    exhausted: list[OSError] = []
    acceptor = Acceptor(listener, lambda *_: None, exhausted.append)  # type: ignore[arg-type]
    acceptor.start()
    for _ in range(50):
        await asyncio.sleep(0)
    assert listener.calls == 1
    assert [error.errno for error in exhausted] == [errno.EMFILE]
    # Accepting resumes after the pause.
    monkeypatch.setattr(listening, "RETRY_SECONDS", 0.0)
    acceptor.start()
    for _ in range(50):
        await asyncio.sleep(0)
    assert listener.calls > 2
    acceptor.close()


def test_the_soft_limit_is_raised() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft = min(before[0], 512)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, before[1]))
    try:
        assert descriptors.raise_soft_limit() == (before[1], before[1])
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (before[1], before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
