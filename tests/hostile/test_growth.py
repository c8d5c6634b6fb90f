"""The cost of an object grows in proportion to its size, and is returned with its deletion.

Counts of work, not clocks: lines of Python from the first byte to the last write. The growth from
twice to four times the size is compared with that from once to twice, so that what every object
costs anyway does not hide a square.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from itertools import count, pairwise
from typing import Final

import pytest

from scheduler.api.bounded_cache import BoundedCache
from testing.hostile.catalogue import Dimension, HostileCase, chosen
from testing.hostile.templates import TEMPLATES
from testing.hostile.world import HostileWorld, hostile_world

MAX_GROWTH: Final = 2.5
"""Of the work, when the size is doubled: 2 is in proportion, 4 would be a square."""
NOISE_LINES: Final = 1_000
"""Work that comes and goes: timers, the order of tasks."""
MAX_BLOCKS: Final = 150
"""Blocks of memory that one deleted object may leave: an Event that is remembered for a while."""


async def come_and_go(world: HostileWorld, case: HostileCase, size: int, serial: int) -> None:
    """Create an object and delete it again, each time until everything is done."""
    obj = case.object(size, serial)
    world.api.create(obj)
    await world.settle()
    world.api.delete(obj)
    await world.settle()


async def cost(world: HostileWorld, case: HostileCase, size: int, serial: int) -> int:
    """Lines that run from the creation of an object to the end of its deletion."""
    with world.work.counting():
        await come_and_go(world, case, size, serial)
    return world.work.lines


def remember_little() -> None:
    """Have all that is derived from pods given back soon, not after many megabytes."""
    for each in gc.get_objects():
        if isinstance(each, BoundedCache):
            each.max_bytes = 10_000


async def doubled(
    world: HostileWorld, case: HostileCase, size: int, serials: Iterator[int]
) -> list[int]:
    """Cost at a size, at twice and at four times that size."""
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
            # What the first object of a kind costs does not count. Of another size: nothing of this
            # one may be remembered.
            await come_and_go(world, case, case.small // 2, next(serials))
            once, twice, four_times = await doubled(world, case, case.small, serials)
            if four_times - twice <= MAX_GROWTH * (twice - once) + NOISE_LINES:
                continue
            # A step, such as packing a pod that has become large, is taken once; a square goes on.
            lines = await doubled(world, case, 4 * case.small, serials)
            if all(larger > MAX_GROWTH * smaller for smaller, larger in pairwise(lines)):
                steep[case.name] = lines
    assert not steep, "lines at four, eight and sixteen times the size"


@pytest.mark.slow
async def test_work_does_not_multiply_the_size_with_the_number_of_nodes() -> None:
    few, many, small, large = 20, 120, 50, 150
    cases = chosen(plural="pods", dimension=Dimension.COUNT)
    lines: dict[str, list[int]] = {case.name: [] for case in cases}
    for nodes in (few, many):
        async with hostile_world(nodes=nodes) as world:
            for serial, case in enumerate(cases):
                await come_and_go(world, case, small // 2, serial)
                lines[case.name] += [
                    await cost(world, case, size, serial) for size in (small, large)
                ]
    pairs = (many - few) * (large - small)
    multiplied = {
        name: found
        for name, found in lines.items()
        if (found[3] - found[2]) - (found[1] - found[0]) > pairs / 10 + NOISE_LINES
    }
    assert not multiplied, "lines at two sizes on few nodes, and at both on many"


@pytest.mark.slow
@pytest.mark.parametrize("dimension", [Dimension.COUNT, Dimension.SIZE])
async def test_a_deleted_pod_leaves_nothing_that_grows_with_its_size(dimension: Dimension) -> None:
    left = {}
    serials = count()
    pods = 3
    async with hostile_world() as world:
        remember_little()
        # What lives as long as the test need not be looked at each time.
        gc.freeze()
        for case in chosen(plural="pods", dimension=dimension):
            blocks = []
            for _ in range(2):
                before = _blocks()
                for _ in range(pods):
                    await come_and_go(world, case, 4 * case.small, next(serials))
                blocks.append(_blocks() - before)
            if blocks[-1] > pods * MAX_BLOCKS:
                left[case.name] = blocks
        gc.unfreeze()
    assert not left, "blocks of memory left after deletion, in two rounds"


@pytest.mark.slow
async def test_large_pods_of_which_no_two_are_alike_leave_no_more_and_more() -> None:
    left = {}
    serials = count()
    pods, size = 5, 2_000
    async with hostile_world() as world:
        remember_little()
        gc.freeze()
        for case in chosen(plural="pods", dimension=Dimension.UNIQUENESS):
            blocks = []
            for _ in range(3):
                before = _blocks()
                for _ in range(pods):
                    await come_and_go(world, case, size, next(serials))
                blocks.append(_blocks() - before)
            if min(blocks[1:]) > pods * MAX_BLOCKS:
                left[case.name] = blocks
        gc.unfreeze()
    assert not left, "blocks of memory left after deletion, in three rounds"


def _blocks() -> int:
    gc.collect()
    return sys.getallocatedblocks()
