"""The page about a shadow in a real Chromium."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from scheduler.cli.page.questions import QuestionError
from scheduler.cli.page.server import PageServer
from scheduler.cli.page.sources import Description
from tests.page.answers import HOSTILE_MESSAGE, HOSTILE_NAME, NOW
from tests.page.build import axe
from tests.page.chromium import Page

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]

SENTENCE = "3 decisions of default-scheduler in 10m: 66.7 % the same, 33.3 % other nodes"


def judged(**changes: Any) -> dict[str, Any]:
    return {
        "pod": "team-a/web-1",
        "uid": "u1",
        "profile": "default-scheduler",
        "verdict": "other",
        "here": "node-1",
        "there": "node-2",
        "best": "node-3",
        "bound": NOW - 5,
        "plugin": "NodeResourcesFit",
        "scores": [{"plugin": "NodeResourcesFit", "best": 90, "there": 40}],
        "message": "",
        **changes,
    }


class Shadow:
    """A source with the answer of a shadow."""

    def __init__(self, **changes: Any) -> None:
        self.answer = {
            "now": NOW,
            "sentence": SENTENCE,
            "sides": "Here is the shadow, there is default-scheduler.",
            "judged": 3,
            "verdicts": {"same": 2, "other": 1},
            "causes": [{"verdict": "other", "plugin": "NodeResourcesFit", "pods": 1}],
            "late": 1,
            "gone": 0,
            "waiting_both": 1,
            "waiting_there": 1,
            "waiting_here": 0,
            "nodes": 9,
            "pods": 20,
            "differing": [judged()],
            "pending": [
                {
                    "pod": "team-a/placed", "here": "node-4", "since": NOW - 60, "message": "",
                    "message_there": "0/9 nodes", "same_reason": False, "victims": [],
                    "nominated": "",
                },
                {
                    "pod": "team-a/waits", "here": "", "since": 0, "message": "0/9 nodes fit.",
                    "message_there": "0/9", "same_reason": True, "victims": ["team-a/low"],
                    "nominated": "node-5",
                },
            ],
            **changes,
        }  # fmt: skip

    def describe(self) -> Description:
        return Description("shadow", "the shadow at http://127.0.0.1:1")

    def ask(self, path: str, query: Mapping[str, str], at: float | None) -> bytes:
        if path != "/debug/shadow":
            raise QuestionError(404, "a shadow answers only what it has compared")
        return json.dumps(self.answer).encode()


async def open_page(page: Page, server: PageServer) -> None:
    await page.open(server.url)
    await page.until("document.querySelector('.headline')")


async def test_it_begins_with_the_answer_and_has_one_view(page: Page) -> None:
    async with PageServer(Shadow()) as server:
        await open_page(page, server)
        text = await page.text()
        assert "there is default-scheduler." in text
        assert text.index(SENTENCE) < text.lower().index("last differences")
        assert "NodeResourcesFit +50" in text
        assert "on node-4 for 1 m" in text
        assert "Would evict team-a/low on node-5." in text
        assert "the same reason" in text
        assert (
            await page.evaluate("document.querySelectorAll('nav[aria-label=Views] a').length") == 0
        )
        assert await page.evaluate("document.title") == "Shadow · kubestow"
        assert await page.evaluate("document.querySelector('.find')") is None
    assert page.problems == []


async def test_what_tenants_wrote_is_text(page: Page) -> None:
    hostile = judged(
        pod=f"team-a/{HOSTILE_NAME}", scores=[], message=HOSTILE_MESSAGE, verdict="would-not-fit"
    )
    async with PageServer(Shadow(differing=[hostile], sentence=HOSTILE_MESSAGE)) as server:
        await open_page(page, server)
        await page.until("document.body.innerText.includes('[U+202E]')")
        assert await page.evaluate("document.querySelectorAll('main img, main script').length") == 0
        assert len(await page.text()) < 20_000
    assert page.problems == []


async def test_it_is_accessible(page: Page) -> None:
    source = axe()
    if not source:
        pytest.skip("axe-core is not there; make page fetches it")
    async with PageServer(Shadow()) as server:
        await open_page(page, server)
        # The rules are put in by the debugger; the policy of the page would forbid them.
        await page.call("Page.setBypassCSP", enabled=True)
        await page.evaluate(f"{source};true")
        found = await page.evaluate(
            "axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'best-practice']})"
            ".then((found) => found.violations.map((each) => each.id))"
        )
    assert found == []


async def test_a_shadow_that_does_not_answer_is_an_error(page: Page) -> None:
    class Silent(Shadow):
        def ask(self, path: str, query: Mapping[str, str], at: float | None) -> bytes:
            raise QuestionError(502, "no answer of http://127.0.0.1:1: refused")

    async with PageServer(Silent()) as server:
        await page.open(server.url)
        await page.until("document.querySelector('[role=alert]')?.innerText.includes('refused')")
