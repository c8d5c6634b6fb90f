"""A cluster of two zones whose only actors are the test and the scheduler."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from simulator import EmbeddedCluster
from simulator.objects import priority_class


@pytest.fixture
async def cluster() -> AsyncIterator[EmbeddedCluster]:
    async with EmbeddedCluster(controllers=(), seed=1) as running:
        _priorities(running)
        yield running


@pytest.fixture
async def native() -> AsyncIterator[EmbeddedCluster]:
    """`cluster` with an API server that supports the field `fallbackCriteria`."""
    async with EmbeddedCluster(controllers=(), seed=1, personality="native") as running:
        _priorities(running)
        yield running


def _priorities(cluster: EmbeddedCluster) -> None:
    for name, value in (("high", 1000), ("higher", 2000)):
        cluster.create(priority_class(name, value))
