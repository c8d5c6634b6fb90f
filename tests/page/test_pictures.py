"""Pictures of every view in every width, below `build/page/pictures`, for a person to look at.

What a machine can judge is judged: nothing is wider than the window, and nothing failed.
"""

from __future__ import annotations

import json
from typing import Final

import pytest

from scheduler.cli.page.server import PageServer
from tests.page.answers import Answers
from tests.page.build import FOLDER
from tests.page.busy_cluster import busy_cluster, empty_cluster
from tests.page.chromium import Page

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]

PICTURES: Final = FOLDER / "pictures"
WIDTHS: Final = {390: 844, 768: 1024, 1280: 900, 1920: 1080}
#: A text that a view shows when its answers are there, by address.
VIEWS: Final = {
    "overview": "Resources of all nodes",
    "waiting": "Pod by pod",
    "waiting?owner=shop/Deployment/checkout": "These pods",
    "nodes": "The same as a list",
    "decisions": "decisions shown",
    "gangs": "groups shown of 2",
    "pod/shop/checkout-0000": "changes tried",
    "node/node-00001": "team-a/db-0",
}
TOO_WIDE: Final = """
[...document.querySelectorAll("main *, header *")]
  .filter((each) => !each.closest(".table, pre, .unseen"))
  .filter((each) => each.getBoundingClientRect().right > innerWidth + 1)
  .map((each) => each.outerHTML.slice(0, 200)).slice(0, 5)
"""


async def take(
    page: Page, answers: Answers, views: dict[str, str], scheme: str, prefix: str = ""
) -> None:
    """Take a picture of each view, as tall as it is, in each width."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    await page.prefer(color_scheme=scheme)
    async with PageServer(answers) as server:
        await page.open(server.url)
        for width, height in WIDTHS.items():
            for view, text in views.items():
                await page.size(width, height)
                await page.evaluate(f"location.hash = {json.dumps('#/' + view)}")
                await page.until(f"document.body.innerText.includes({json.dumps(text)})")
                assert await page.evaluate("document.documentElement.scrollWidth") <= width, view
                assert await page.evaluate(TOO_WIDE) == [], (view, width)
                tall = await page.evaluate("document.documentElement.scrollHeight")
                await page.size(width, min(tall, 3 * height))
                name = view.replace("/", "-").replace("?", "-").replace("=", "-")
                picture = PICTURES / f"{prefix}{name}-{width}-{scheme}.png"
                picture.write_bytes(await page.screenshot("png"))
    assert page.problems == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_no_view_is_wider_than_the_window(page: Page, scheme: str) -> None:
    await take(page, busy_cluster(), VIEWS, scheme)


async def test_an_empty_cluster_says_what_to_do_next(page: Page) -> None:
    await take(page, empty_cluster(), {"overview": "Schedule a first pod"}, "light", "empty-")
