"""A faulty server, a clock without waiting, and clients."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from devtools.loop_time import UvLoop
from scheduler.client.configuration import ClientConfiguration
from scheduler.client.rest import ApiClient
from scheduler.client.transport import Transport
from tests.integration.client.faulty_server import FaultyServer, running_server
from tests.integration.client.reflecting import Recorder
from tests.unit.client.virtual_clock import InstantClock


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Both loops: the service runs on uvloop, whose transports differ in small ways."""
    return {"asyncio": asyncio.new_event_loop, "uvloop": UvLoop}


@pytest.fixture
async def server() -> AsyncIterator[FaultyServer]:
    async with running_server() as running:
        yield running


@pytest.fixture
def clock() -> InstantClock:
    return InstantClock()


@pytest.fixture
async def transport(server: FaultyServer) -> AsyncIterator[Transport]:
    async with Transport(ClientConfiguration(server.url)) as open_transport:
        yield open_transport


@pytest.fixture
def client(transport: Transport, clock: InstantClock) -> ApiClient:
    return ApiClient(transport, clock=clock, timeout=30.0, bind_timeout=30.0)


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()
