"""A cluster and an extender whose responses the test decides."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from simulator import EmbeddedCluster
from tests.integration.extenders.extender import ExtenderServer


@pytest.fixture
async def cluster() -> AsyncIterator[EmbeddedCluster]:
    async with EmbeddedCluster(controllers=(), seed=1) as running:
        yield running


@pytest.fixture
async def extender() -> AsyncIterator[ExtenderServer]:
    async with ExtenderServer() as running:
        yield running
