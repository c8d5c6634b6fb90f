"""A cluster without room for anything, and a bridge that works on what the test says."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from simulator import EmbeddedCluster


@pytest.fixture
async def cluster() -> AsyncIterator[EmbeddedCluster]:
    async with EmbeddedCluster(controllers=(), seed=1) as running:
        yield running
