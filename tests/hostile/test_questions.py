"""Questions about a pod are answered in short steps, however large it is."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import pytest

from devtools.hostile.case import HostileCase
from devtools.hostile.catalogue import chosen, name_of
from devtools.hostile.work import WorkCount
from devtools.hostile.world import hostile_world
from scheduler.process.debug_pages import DebugPages

MAX_LINES: Final = 600_000
"""Lines of Python between two rests, some 60 ms: those of an explanation of a pod of 1 MB."""
NODES: Final = 10


@asynccontextmanager
async def longest_step(work: WorkCount) -> AsyncIterator[Callable[[], int]]:
    """Give the largest number of lines that ran between two rests."""
    longest = 0

    async def measure() -> None:
        nonlocal longest
        while True:
            before = work.lines
            await asyncio.sleep(0)
            longest = max(longest, work.lines - before)

    task = asyncio.create_task(measure())
    await asyncio.sleep(0)
    try:
        with work.counting():
            yield lambda: longest
            await asyncio.sleep(0)
    finally:
        task.cancel()


async def ask(pages: DebugPages, pod: str) -> None:
    """Ask everything that can be asked about a pod; an answer may refuse."""
    questions: list[Callable[[], Any]] = [
        *(
            lambda name=name, query=query: pages.debug[name](query)
            for name, query in (
                ("explain", {"pod": pod, "remedies": "all"}),
                ("queue", {"namespace": "hostile"}),
                ("waiting", {"namespace": "hostile"}),
                ("decisions", {"pod": pod}),
            )
        ),
        *(
            lambda more=more: pages.questions["whatif"](json.dumps({"pod": pod, **more}).encode())
            for more in ({}, {"copies": 3}, {"fields": {"/spec/priority": 7}})
        ),
    ]
    for question in questions:
        with suppress(ValueError, LookupError):
            answer = question()
            if inspect.isawaitable(answer):
                await answer


@pytest.mark.slow
@pytest.mark.parametrize(
    "case", [each for each in chosen(plural="pods") if each.grows], ids=lambda each: each.name
)
async def test_no_answer_holds_the_loop_for_long(case: HostileCase) -> None:
    async with hostile_world(nodes=NODES) as world:
        pages = DebugPages(world.wiring, leading=lambda: True, synced=lambda: True)
        made = case.object(case.full, 1)
        for each in case.beside(case.full, 0):
            world.api.create(each)
        world.api.create(made)
        await world.settle()
        async with longest_step(WorkCount()) as longest:
            await ask(pages, f"{made['metadata']['namespace']}/{name_of(made)}")
        assert longest() <= MAX_LINES
