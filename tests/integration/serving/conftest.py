"""A running HTTPS server, and a client that sees what a stranger sees."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import aiohttp
import pytest
import uvloop

from scheduler.metrics import SchedulerMetrics
from scheduler.service.options import AccessOptions, ServingOptions
from scheduler.service.serving.access import Authenticator, Authorizer
from scheduler.service.serving.application import EndpointSources, Page, create_handler
from scheduler.service.serving.certificates import ServingTls
from scheduler.service.serving.health import scheduler_checks
from scheduler.service.serving.server import HttpsServer


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Both loops: the service runs on uvloop, whose transports differ in small ways."""
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


LOOPBACK = ServingOptions(bind_address="127.0.0.1", secure_port=0)


@dataclass
class Answer:
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


class Visitor:
    """Sends requests to one server; verifies nothing, as kubelet."""

    def __init__(self, server: HttpsServer, session: aiohttp.ClientSession, scheme: str) -> None:
        self.server = server
        self._session = session
        self._base = f"{scheme}://127.0.0.1:{server.port}"

    async def ask(self, path: str, method: str = "GET", token: str = "", **options: Any) -> Answer:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        headers |= options.pop("headers", {})
        async with self._session.request(
            method, self._base + path, headers=headers, **options
        ) as response:
            return Answer(response.status, await response.text(), response.headers)


class Open(Protocol):
    """Starts a server for `site` and gives a visitor."""

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
    ) -> AbstractAsyncContextManager[Visitor]: ...


def open_to_everyone(*paths: str) -> Authorizer:
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
    ) -> AsyncIterator[Visitor]:
        handler = create_handler(
            site.sources(**changes),
            authenticator or Authenticator(None, AccessOptions()),
            authorizer or open_to_everyone("/*"),
        )
        connector = aiohttp.TCPConnector(ssl=client_tls or False)
        async with (
            HttpsServer(handler, LOOPBACK, tls, max_connections=max_connections) as server,
            aiohttp.ClientSession(connector=connector) as session,
        ):
            yield Visitor(server, session, "https" if tls is not None else "http")

    return open_site


async def until_closed(reader: asyncio.StreamReader) -> bytes:
    """Everything that still comes; an abrupt end is an end too."""
    received = b""
    try:
        while chunk := await reader.read(65536):
            received += chunk
    except ConnectionError:
        pass
    return received
