"""`python -m benchmarks.hostile.crowds`: what thousands of objects, each below every limit, cost.

As `benchmarks.hostile.steps`, the whole scheduler in this process; a crowd of hostile objects comes
first. What is reported is the longest step of the event loop, in CPU time, that each thing causes
that happens beside it.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

import click
import structlog

from benchmarks.hostile.steps import MAX_STEP_MS, Steps
from devtools.hostile.case import JsonObject
from devtools.hostile.crowds import CROWDS, Crowd, Make
from devtools.hostile.world import HostileWorld, hostile_world
from scheduler.process.garbage_collection import collect_seldom

AT_ONCE: Final = 50
"""Objects of the crowd that come at once."""


class Happenings:
    """Lets things happen, and reports the longest step of each."""

    def __init__(self, world: HostileWorld, crowd: Crowd, count: int) -> None:
        self._world = world
        self._crowd = crowd
        self._count = count
        self._steps = Steps()

    async def crowd_comes(self) -> None:
        """All members, some at a time."""
        members = [obj for serial in range(self._count) for obj in self._crowd.make(serial)]
        # The objects of the API server in this process: the scheduler's would be elsewhere.
        gc.collect()
        gc.freeze()
        longest = 0.0
        for first in range(0, len(members), AT_ONCE):
            longest = max(longest, await self._created(members[first : first + AT_ONCE]))
        say(f"{len(members)} come", longest)
        gc.collect()
        gc.freeze()

    async def pods_come(self, name: str, make: Make) -> None:
        """Two pods that are alike; and one each after something changed."""
        for number in ("first", "second"):
            await self._pod(name, make, number)
        more = [*self._crowd.make(self._count)]
        say("one more member", await self._created(more))
        await self._pod(name, make, "after that")
        leave = partial(change_all, self._world.api.delete, reversed(more))
        say("one less", await self._steps.longest(self._world, leave))
        await self._pod(name, make, "after this")

    async def _pod(self, name: str, make: Make, number: str) -> None:
        made = make(f"{name}-{number.replace(' ', '-')}")
        took = await self._created([made])
        key = f"{made['metadata']['namespace']}/{made['metadata']['name']}"
        say(f"{name}, {number}", took, "" if self._world.api.node_of(key) else "not bound")

    async def _created(self, objects: Iterable[JsonObject]) -> float:
        create = partial(change_all, self._world.api.create, objects)
        return await self._steps.longest(self._world, create)


def change_all(change: Callable[[JsonObject], object], objects: Iterable[JsonObject]) -> None:
    """Change them all at once."""
    for each in objects:
        change(each)


def say(what: str, took: float, remark: str = "") -> None:
    """Print a line."""
    mark = "<<<" if took > MAX_STEP_MS else ""
    click.echo(f"  {what:40} {took:8.1f} {mark:3} {remark}".rstrip())


async def measure(crowd: Crowd, nodes: int, share: float) -> None:
    """One crowd."""
    async with hostile_world(nodes=nodes, gates=crowd.gates) as world:
        for each in crowd.beside(nodes):
            world.api.create(each)
        await world.settle()
        happenings = Happenings(world, crowd, max(1, int(crowd.members * share)))
        await happenings.crowd_comes()
        for name, make in crowd.pods.items():
            await happenings.pods_come(name, make)
    gc.unfreeze()


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("--crowd", "names", multiple=True, metavar="NAME", help="Which.  [default: all]")
@click.option("--nodes", default=5_000, help="How many nodes there are.")
@click.option("--share", default=1.0, help="Of the number of hostile objects.")
def main(names: tuple[str, ...], nodes: int, share: float) -> None:
    """Print the longest step in ms of what happens beside each crowd."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    collect_seldom()
    for name in names or CROWDS:
        click.echo(name)
        asyncio.run(measure(CROWDS[name], nodes, share))


if __name__ == "__main__":
    main()
