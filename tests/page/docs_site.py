"""The docs site as `make docs` builds it, served on this machine.

`python -m tests.page.docs_site FOLDER` draws pages of it into a folder, to be looked at.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from aiohttp import web

from devtools.page_libraries import ROOT
from tests.page import chromium

SITE: Final = ROOT / "build" / "site"

PICTURES: Final = (
    ("home", "", 1280, 900, "light"),
    ("home-dark", "", 1280, 900, "dark"),
    ("home-phone", "", 390, 844, "light"),
    ("guide", "recipes/", 1280, 900, "light"),
    ("reference", "plugin-api/", 1280, 900, "light"),
)
"""Name, page, width and height of the window, and colours of each picture."""


def built() -> bool:
    """Whether there is a site."""
    return (SITE / "search" / "search_index.json").is_file()


@asynccontextmanager
async def served() -> AsyncIterator[str]:
    """Serve the site; give its address."""

    async def answer(request: web.Request) -> web.StreamResponse:
        path = SITE / request.match_info["path"]
        return web.FileResponse(path / "index.html" if path.is_dir() else path)

    application = web.Application()
    application.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        yield f"http://127.0.0.1:{port}/"
    finally:
        await runner.cleanup()


async def draw(folder: Path) -> None:
    """Draw the pictures."""
    with tempfile.TemporaryDirectory() as profile:
        async with (
            served() as address,
            chromium.chromium(Path(profile)) as devtools,
            chromium.page(devtools) as page,
        ):
            for name, path, width, height, colours in PICTURES:
                await page.size(width, height)
                await page.prefer(color_scheme=colours)
                await page.open(address + path)
                # The site remembers the colours of the first visit.
                await page.evaluate("localStorage.clear()")
                await page.open(address + path)
                await page.until("document.fonts.status === 'loaded'")
                (folder / f"{name}.png").write_bytes(await page.screenshot("png"))


if __name__ == "__main__":
    asyncio.run(draw(Path(sys.argv[1])))
