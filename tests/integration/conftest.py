"""A cluster whose only actors are the test and the scheduler."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from simulator import EmbeddedCluster


@pytest.fixture
async def cluster() -> AsyncIterator[EmbeddedCluster]:
    async with EmbeddedCluster(controllers=(), seed=1) as running:
        yield running
