"""A cluster and an extender whose responses the test decides."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.integration.extenders.extender import ExtenderServer


@pytest.fixture
async def extender() -> AsyncIterator[ExtenderServer]:
    async with ExtenderServer() as running:
        yield running
