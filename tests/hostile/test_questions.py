"""Questions are answered in short steps, however large a pod or another object is."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import pytest

from devtools.hostile.case import HostileCase, JsonObject
from devtools.hostile.catalogue import chosen, name_of
from devtools.hostile.templates import pod
from devtools.hostile.work import WorkCount
from devtools.hostile.world import HostileWorld, hostile_world
from scheduler.process.debug_pages import DebugPages

MAX_LINES: Final = 600_000
"""Lines of Python between two rests, some 60 ms: those of an explanation of a pod of 1 MB."""
NODES: Final = 10
OTHERS: Final = (
    "nodes", "persistentvolumeclaims", "poddisruptionbudgets", "replicasets", "resourceclaims",
    "resourcequotas", "resourceslices",
)  # fmt: skip
"""Kinds whose objects answers are about, and that others than administrators write."""


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


async def ask(pages: DebugPages, key: str) -> None:
    """Ask what can be asked about a pod and the cluster; an answer may refuse."""
    questions: list[Callable[[], Any]] = [
        *(
            lambda name=name, query=query: pages.debug[name](query)
            for name, query in (
                ("explain", {"pod": key, "remedies": "all"}),
                ("queue", {"namespace": "hostile"}),
                ("waiting", {"namespace": "hostile"}),
                ("decisions", {"pod": key}),
                ("nodes", {}),
                ("summary", {}),
            )
        ),
        *(
            lambda more=more: pages.questions["whatif"](json.dumps({"pod": key, **more}).encode())
            for more in ({}, {"copies": 3}, {"fields": {"/spec/priority": 7}})
        ),
    ]
    for question in questions:
        with suppress(ValueError, LookupError):
            answer = question()
            if inspect.isawaitable(answer):
                await answer


async def longest_of_answers(world: HostileWorld, case: HostileCase, pod: JsonObject) -> int:
    """Ask about a pod while the object of a case is there."""
    pages = DebugPages(world.wiring, leading=lambda: True, synced=lambda: True)
    made = [*case.beside(case.full, 0), case.object(case.full, 1)]
    for each in made:
        world.api.create(each)
    await world.settle()
    async with longest_step(WorkCount()) as longest:
        await ask(pages, f"{pod['metadata']['namespace']}/{name_of(pod)}")
    for each in reversed(made):
        world.api.delete(each)
    await world.settle()
    return longest()


@pytest.mark.slow
@pytest.mark.parametrize("plural", OTHERS)
async def test_no_answer_beside_any_object_holds_the_loop_for_long(plural: str) -> None:
    waits = pod("waits")
    waits["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1000"}}
    async with hostile_world(waits, nodes=NODES) as world:
        for case in chosen(plural=plural):
            if not case.grows:
                continue
            assert await longest_of_answers(world, case, waits) <= MAX_LINES, case.name


@pytest.mark.slow
@pytest.mark.parametrize(
    "case", [each for each in chosen(plural="pods") if each.grows], ids=lambda each: each.name
)
async def test_no_answer_holds_the_loop_for_long(case: HostileCase) -> None:
    async with hostile_world(nodes=NODES) as world:
        assert await longest_of_answers(world, case, case.object(case.full, 1)) <= MAX_LINES
