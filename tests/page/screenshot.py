"""Draws docs/page.webp: `python -m tests.page.screenshot`, with Chromium installed."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Final

from devtools.page_libraries import ROOT
from scheduler.cli.page.server import PageServer
from tests.page import chromium
from tests.page.busy_cluster import busy_cluster

FILE: Final = ROOT / "docs" / "page.webp"


async def draw() -> bytes:
    """Return a picture of the overview."""
    with tempfile.TemporaryDirectory() as folder:
        async with (
            PageServer(busy_cluster()) as server,
            chromium.chromium(Path(folder)) as devtools,
            chromium.page(devtools) as page,
        ):
            await page.size(1280, 860)
            await page.prefer(color_scheme="light")
            await page.open(server.url)
            await page.until("document.querySelector('.groups') && document.querySelector('.plot')")
            return await page.screenshot()


def main() -> int:
    """Write the picture."""
    FILE.write_bytes(asyncio.run(draw()))
    print(f"{FILE.relative_to(ROOT)}: {FILE.stat().st_size >> 10} KiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
