"""Embedded clusters of both personalities over HTTP, with a quota and no scheduler."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import aiohttp
import pytest

from simulator import EmbeddedCluster
from tests.integration.deferred_quota.server import Server


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as entered:
        yield entered


async def _server(stack: AsyncExitStack, personality: str) -> Server:
    cluster = EmbeddedCluster(personality=personality, seed=1)  # type: ignore[arg-type]
    await stack.enter_async_context(cluster)
    timeout = aiohttp.ClientTimeout(total=60)
    session = aiohttp.ClientSession(cluster.url, timeout=timeout)
    return Server(cluster, await stack.enter_async_context(session))


@pytest.fixture
async def stock(stack: AsyncExitStack) -> Server:
    """A server that answers as v1.37."""
    return await _server(stack, "stock")


@pytest.fixture
async def native(stack: AsyncExitStack) -> Server:
    """A server with KEP-5465 in it."""
    return await _server(stack, "native")
