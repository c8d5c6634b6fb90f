"""A full cluster, and a bridge that follows the events of the test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from simulator import EmbeddedCluster


@pytest.fixture
async def cluster() -> AsyncIterator[EmbeddedCluster]:
    async with EmbeddedCluster(controllers=(), seed=1) as running:
        yield running
