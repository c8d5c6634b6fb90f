"""A cluster and an extender whose answers the test decides."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from simulator import EmbeddedCluster
from tests.integration.extenders.extender import Extender


@pytest.fixture
async def cluster() -> AsyncIterator[EmbeddedCluster]:
    async with EmbeddedCluster(controllers=(), seed=1) as running:
        yield running


@pytest.fixture
async def extender() -> AsyncIterator[Extender]:
    async with Extender() as running:
        yield running
