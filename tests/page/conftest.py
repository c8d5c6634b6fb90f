"""A browser for all tests, and the page about a source of the test."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.page import chromium
from tests.page.chromium import Page

REQUIRED = os.environ.get("KUBESTOW_REQUIRE_BROWSER") == "1"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    """Run one browser for all tests; skips them without Chromium, unless it is required."""
    if not chromium.installed():
        message = "there is no chromium; make page installs it"
        pytest.fail(message) if REQUIRED else pytest.skip(message)
    async with chromium.chromium(tmp_path_factory.mktemp("profile")) as devtools:
        yield devtools


@pytest_asyncio.fixture(loop_scope="module")
async def page(browser: str) -> AsyncIterator[Page]:
    """Open a page of its own."""
    async with chromium.page(browser) as opened:
        await opened.size(1280, 900)
        yield opened
