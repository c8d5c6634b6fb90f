"""A running HTTPS server, and a client without credentials."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import aiohttp
import pytest

from devtools.loop_time import UvLoop
from scheduler.metrics import SchedulerMetrics
from scheduler.service.options import AccessOptions, ServingOptions
from scheduler.service.serving.access import Authenticator, Authorizer
from scheduler.service.serving.application import EndpointSources, Page, create_handler
from scheduler.service.serving.certificates import ServingTls
from scheduler.service.serving.health import scheduler_checks
from scheduler.service.serving.server import HttpsServer


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run each test on both loops: the service uses uvloop, whose transports differ slightly."""
    return {"asyncio": asyncio.new_event_loop, "uvloop": UvLoop}


LOOPBACK = ServingOptions(bind_address="127.0.0.1", secure_port=0)


@dataclass
class HttpResponse:
    status: int
    text: str
    headers: Mapping[str, str]


@dataclass
class Site:
    """State behind the endpoints, to be changed by tests."""

    synced: bool = True
    verbosity: list[int] = field(default_factory=list)
    metrics: SchedulerMetrics = field(default_factory=lambda: SchedulerMetrics(process=False))
    debug: dict[str, Page] = field(default_factory=dict)

    def sources(self, **changes: Any) -> EndpointSources:
        health = scheduler_checks(
            shutdown=lambda: None, handler_sync=lambda: None if self.synced else "pods are missing"
        )
        settings: dict[str, Any] = {
            "health": health,
            "metrics": self.metrics,
            "configz": lambda: {"componentconfig": {"parallelism": 16}},
            "debug": self.debug,
            "version": {"major": "1"},
            "set_verbosity": self.verbosity.append,
        }
        return EndpointSources(**(settings | changes))


class EndpointClient:
    """An HTTP client of one server; like kubelet it does not verify the certificate."""

    def __init__(self, server: HttpsServer, session: aiohttp.ClientSession, scheme: str) -> None:
        self.server = server
        self._session = session
        self._base = f"{scheme}://127.0.0.1:{server.port}"

    async def request(
        self, path: str, method: str = "GET", token: str = "", **options: Any
    ) -> HttpResponse:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        headers |= options.pop("headers", {})
        async with self._session.request(
            method, self._base + path, headers=headers, **options
        ) as response:
            return HttpResponse(response.status, await response.text(), response.headers)


class Open(Protocol):
    """Function that starts a server for `site` and yields a client of it."""

    def __call__(
        self,
        site: Site,
        *,
        authenticator: Authenticator | None = None,
        authorizer: Authorizer | None = None,
        tls: ServingTls | None = None,
        client_tls: ssl.SSLContext | None = None,
        max_connections: int | None = None,
        **changes: Any,
    ) -> AbstractAsyncContextManager[EndpointClient]: ...


def allow_anonymous(*paths: str) -> Authorizer:
    return Authorizer(None, AccessOptions(always_allow_paths=paths))


@pytest.fixture
def site() -> Site:
    return Site()


@pytest.fixture
def opened() -> Open:
    @asynccontextmanager
    async def open_site(
        site: Site,
        *,
        authenticator: Authenticator | None = None,
        authorizer: Authorizer | None = None,
        tls: ServingTls | None = None,
        client_tls: ssl.SSLContext | None = None,
        max_connections: int | None = None,
        **changes: Any,
    ) -> AsyncIterator[EndpointClient]:
        handler = create_handler(
            site.sources(**changes),
            authenticator or Authenticator(None, AccessOptions()),
            authorizer or allow_anonymous("/*"),
        )
        connector = aiohttp.TCPConnector(ssl=client_tls or False)
        async with (
            HttpsServer(handler, LOOPBACK, tls, max_connections=max_connections) as server,
            aiohttp.ClientSession(connector=connector) as session,
        ):
            yield EndpointClient(server, session, "https" if tls is not None else "http")

    return open_site


async def until_closed(reader: asyncio.StreamReader) -> bytes:
    """Return all further bytes until the connection ends, even abruptly."""
    received = b""
    try:
        while chunk := await reader.read(65536):
            received += chunk
    except ConnectionError:
        pass
    return received
