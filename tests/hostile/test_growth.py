"""The work for an object is linear in its size, and its deletion frees all of its memory.

Work is counted in executed lines of Python, from the first byte to the last write, not in seconds.
The growth from two to four times the size is compared with that from one to two times, so that the
constant cost of every object does not hide quadratic growth.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Sequence
from itertools import count, pairwise
from typing import Final

import pytest

from devtools.hostile.catalogue import Dimension, HostileCase, chosen
from devtools.hostile.templates import TEMPLATES
from devtools.hostile.world import HostileWorld, hostile_world
from scheduler.api.bounded_cache import BoundedCache

MAX_GROWTH: Final = 2.5
"""Maximum growth of the work when the size doubles: 2 is linear, 4 is quadratic."""
NOISE_LINES: Final = 1_000
"""Work that varies between runs: timers, the order of tasks."""
MAX_BLOCKS: Final = 200
"""Blocks of memory that one deleted object may leave. A pod in the form of large ones leaves 127 to
151, by what ran before in the process: an Event that is cached for a while, and what is remembered
of its decision. One block for each of its 200 elements would be far above."""


async def create_and_delete(world: HostileWorld, case: HostileCase, size: int, serial: int) -> None:
    """Create an object and delete it again; wait each time until the scheduler is idle."""
    obj = case.object(size, serial)
    world.api.create(obj)
    await world.settle()
    world.api.delete(obj)
    await world.settle()


async def cost(world: HostileWorld, case: HostileCase, size: int, serial: int) -> int:
    """Count the lines executed from the creation of an object to the end of its deletion."""
    with world.work.counting():
        await create_and_delete(world, case, size, serial)
    return world.work.lines


@pytest.fixture
def old_objects() -> Iterator[None]:
    """Let collections look at objects of the test only, once `gc.freeze` has been called in it.

    Those from before it are visible to `gc.get_objects` until then, and no garbage stays frozen.
    """
    gc.unfreeze()
    yield
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def shrink_caches() -> None:
    """Make caches of data derived from pods small, so that they evict entries early."""
    caches = [each for each in gc.get_objects() if isinstance(each, BoundedCache)]
    assert caches
    for each in caches:
        each.max_bytes = 10_000


async def doubled(
    world: HostileWorld, case: HostileCase, size: int, serials: Iterator[int]
) -> list[int]:
    """Return the cost at a size, at twice and at four times that size."""
    return [await cost(world, case, size * factor, next(serials)) for factor in (1, 2, 4)]


@pytest.mark.slow
@pytest.mark.parametrize("plural", sorted(TEMPLATES))
async def test_work_grows_in_proportion_to_the_size(plural: str) -> None:
    steep = {}
    serials = count()
    async with hostile_world() as world:
        for case in chosen(plural=plural):
            if not case.grows or case.name.endswith("name-long"):
                continue
            for each in case.beside(case.small, 0):
                world.api.create(each)
            # The cost of the first object of a kind does not count. It has another size, so that no
            # cache holds results for the measured one.
            await create_and_delete(world, case, case.small // 2, next(serials))
            once, twice, four_times = await doubled(world, case, case.small, serials)
            if four_times - twice <= MAX_GROWTH * (twice - once) + NOISE_LINES:
                continue
            # A step, such as packing a pod above a size, occurs once; quadratic growth continues.
            lines = await doubled(world, case, 4 * case.small, serials)
            if all(larger > MAX_GROWTH * smaller for smaller, larger in pairwise(lines)):
                steep[case.name] = lines
    assert not steep, "lines at four, eight and sixteen times the size"


async def multiplied(cases: Sequence[HostileCase]) -> dict[str, list[int]]:
    """Return the lines of those cases whose work is in proportion to nodes times size."""
    few, many, small, large = 20, 120, 50, 150
    lines: dict[str, list[int]] = {case.name: [] for case in cases}
    for nodes in (few, many):
        async with hostile_world(nodes=nodes) as world:
            for serial, case in enumerate(cases):
                await create_and_delete(world, case, small // 2, serial)
                lines[case.name] += [
                    await cost(world, case, size, serial) for size in (small, large)
                ]
    pairs = (many - few) * (large - small)
    return {
        name: found
        for name, found in lines.items()
        if (found[3] - found[2]) - (found[1] - found[0]) > pairs / 10 + NOISE_LINES
    }


@pytest.mark.slow
async def test_work_does_not_multiply_the_size_with_the_number_of_nodes() -> None:
    cases = chosen(plural="pods", dimension=Dimension.COUNT)
    suspected = await multiplied(cases)
    # On a loaded machine more tasks fall into one measurement than into another.
    found = suspected and await multiplied([each for each in cases if each.name in suspected])
    assert not found, "lines at two sizes on few nodes, and at both on many"


@pytest.mark.slow
@pytest.mark.usefixtures("old_objects")
@pytest.mark.parametrize("dimension", [Dimension.COUNT, Dimension.SIZE])
async def test_a_deleted_pod_leaves_nothing_that_grows_with_its_size(dimension: Dimension) -> None:
    left = {}
    serials = count()
    pods = 3
    async with hostile_world() as world:
        shrink_caches()
        # Objects as old as the test need not be traversed by each collection.
        gc.freeze()
        for case in chosen(plural="pods", dimension=dimension):
            blocks = []
            for _ in range(2):
                before = _blocks()
                for _ in range(pods):
                    await create_and_delete(world, case, 4 * case.small, next(serials))
                blocks.append(_blocks() - before)
            if blocks[-1] > pods * MAX_BLOCKS:
                left[case.name] = blocks
    assert not left, "blocks of memory left after deletion, in two rounds"


@pytest.mark.slow
@pytest.mark.usefixtures("old_objects")
async def test_distinct_large_pods_leave_no_growing_memory() -> None:
    left = {}
    serials = count()
    pods, size = 5, 2_000
    async with hostile_world() as world:
        shrink_caches()
        gc.freeze()
        for case in chosen(plural="pods", dimension=Dimension.UNIQUENESS):
            blocks = []
            for _ in range(3):
                before = _blocks()
                for _ in range(pods):
                    await create_and_delete(world, case, size, next(serials))
                blocks.append(_blocks() - before)
            if min(blocks[1:]) > pods * MAX_BLOCKS:
                left[case.name] = blocks
    assert not left, "blocks of memory left after deletion, in three rounds"


def _blocks() -> int:
    gc.collect()
    return sys.getallocatedblocks()
