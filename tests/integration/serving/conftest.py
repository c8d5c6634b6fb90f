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
from scheduler.service.options import ServingOptions
from scheduler.service.serving import (
    Authenticator,
    Authorizer,
    DebugPages,
    DelegatedAuthenticator,
    DelegatedAuthorizer,
    Endpoints,
    HttpsServer,
    ServingTls,
    create_handler,
    scheduler_checks,
)


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
    debug: DebugPages = field(default_factory=DebugPages)

    def endpoints(self, **changes: Any) -> Endpoints:
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
        return Endpoints(**(settings | changes))


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
            site.endpoints(**changes),
            authenticator or DelegatedAuthenticator(),
            authorizer or DelegatedAuthorizer(open_paths=["/*"]),
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
