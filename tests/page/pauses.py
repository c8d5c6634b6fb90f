"""Measures the pauses of the page in a large cluster: `python -m tests.page.pauses`.

A pause is a task of the browser's main thread, in which no key or click is answered. Its CPU time
is taken from a trace of Chromium, so that other processes of the machine do not count.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from heapq import nlargest
from pathlib import Path
from typing import Final

from scheduler.cli.page.server import PageServer
from tests.page import chromium
from tests.page.answers import Answers, decision, pod_view
from tests.page.chromium import Page

NODES: Final = 5_000
PODS: Final = 20_000
#: A text that a view shows when its answers are there, and what a person then does.
VIEWS: Final = {
    "overview": ("Resources of all nodes", ""),
    "waiting": ("500 that have waited longest", "document.querySelector('.order').click()"),
    "nodes": ("5,000 nodes of 5,000", "document.querySelector('.order').click()"),
    "decisions": ("decisions shown", "document.querySelector('.order').click()"),
    "node/node-00001": ("team-a/db-0", ""),
}
CATEGORIES: Final = "disabled-by-default-devtools.timeline,toplevel,__metadata"
SHOWN: Final = 3
SEEN_SECONDS: Final = 12.0
"""Long enough for two refreshes of each view."""


async def measure(page: Page, url: str) -> None:
    """Print the pauses of each view: while it is opened, used and refreshed."""
    await page.size(1280, 900)
    await page.open(url)
    for view, (text, action) in VIEWS.items():
        await page.call("Tracing.start", categories=CATEGORIES, transferMode="ReturnAsStream")
        await page.evaluate(f"location.hash = {json.dumps('#/' + view)}")
        await page.until(f"document.body.innerText.includes({json.dumps(text)})")
        await page.evaluate(action or "0")
        await asyncio.sleep(SEEN_SECONDS)
        elements = await page.evaluate("document.querySelectorAll('*').length")
        longest = ", ".join(f"{each:.0f}" for each in await longest_tasks(page))
        print(f"{view:<16} {elements:>5} elements, longest tasks of {longest} ms")


async def longest_tasks(page: Page) -> list[float]:
    """End the trace, and return the CPU milliseconds of the longest tasks of the page."""
    page.traced.clear()
    await page.call("Tracing.end")
    await page.traced.wait()
    text, end = "", False
    while not end:
        part = await page.call("IO.read", handle=page.trace)
        text, end = text + part["data"], part["eof"]
    events = json.loads(text)["traceEvents"]
    threads = {
        (each["pid"], each["tid"])
        for each in events
        if each["name"] == "thread_name" and each["args"]["name"] == "CrRendererMain"
    }
    tasks = (
        each["tdur"] / 1000
        for each in events
        if "RunTask" in each["name"] and (each["pid"], each["tid"]) in threads and "tdur" in each
    )
    return nlargest(SHOWN, tasks)


async def run() -> None:
    """Measure in a browser of its own."""
    pods = [pod_view(f"web-{number}") for number in range(PODS)]
    answers = Answers(pods=pods, nodes=NODES)
    answers.owners = {f"uid-web-{at}": f"Deployment/web-{at % 700}" for at in range(PODS)}
    answers.decisions = [decision(at) for at in range(1, 1_000)]
    with tempfile.TemporaryDirectory() as folder:
        async with (
            PageServer(answers) as server,
            chromium.chromium(Path(folder)) as devtools,
            chromium.page(devtools) as page,
        ):
            await measure(page, server.url)


if __name__ == "__main__":
    sys.exit(asyncio.run(run()))
