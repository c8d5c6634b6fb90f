"""A browser for all tests, and the page about a source of the test."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.page import chromium
from tests.page.chromium import Page

REQUIRED = os.environ.get("KUBESTOW_REQUIRE_BROWSER") == "1"


@pytest.fixture(scope="session")
def program() -> None:
    """Skip without Chromium, unless it is required."""
    if not chromium.installed():
        message = "there is no chromium; make page installs it"
        pytest.fail(message) if REQUIRED else pytest.skip(message)


@pytest_asyncio.fixture
async def page(program: None, tmp_path: Path) -> AsyncIterator[Page]:
    """A page of a browser of its own."""
    async with chromium.chromium(tmp_path) as devtools, chromium.page(devtools) as opened:
        await opened.size(1280, 900)
        yield opened
