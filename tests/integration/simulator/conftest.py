"""A cluster served over real HTTP in time that stands still, and a client for it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp
import pytest

from simulator import EmbeddedCluster, SimClock
from tests.integration.simulator.client import Client
from tests.unit.simulator.objects import START, node


@pytest.fixture
async def cluster() -> AsyncIterator[EmbeddedCluster]:
    clock = SimClock(start=START, rate=0.0, source=lambda: 0.0)
    async with EmbeddedCluster(clock=clock, seed=1) as running:
        running.create(node("n1"))
        yield running


@pytest.fixture
async def client(cluster: EmbeddedCluster) -> AsyncIterator[Client]:
    timeout = aiohttp.ClientTimeout(total=60)
    async with aiohttp.ClientSession(cluster.url, timeout=timeout) as session:
        yield Client(session)
