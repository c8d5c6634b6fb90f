"""`python -m benchmarks.hostile.steps`: the longest step of the loop that an object causes.

The whole scheduler in this process, without an API server. CPU time of the thread: what other
processes do hardly counts, but the speed of the machine does.
"""

from __future__ import annotations

import asyncio
import gc
import time
from asyncio import events
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import click
import structlog

from devtools.hostile.catalogue import CASES, HostileCase, Verdict
from devtools.hostile.world import HostileWorld, hostile_world
from scheduler.process.garbage_collection import collect_seldom

MAX_STEP_MS: Final = 100.0


class Steps:
    """CPU time of each step of the event loop, in milliseconds."""

    def __init__(self) -> None:
        self.taken: list[float] = []

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record every step that begins within."""
        handle: Any = events.Handle
        run = handle._run  # noqa: SLF001 - asyncio offers no other place to measure a step

        def measured(step: Any) -> None:
            started = time.thread_time()
            run(step)
            self.taken.append(1000 * (time.thread_time() - started))

        self.taken = []
        handle._run = measured  # noqa: SLF001 - as above
        try:
            yield
        finally:
            handle._run = run  # noqa: SLF001 - as above

    async def longest(self, world: HostileWorld, change: Callable[[], object]) -> float:
        """Return the longest of the steps that follow a change, in seconds of CPU time."""
        change()
        with self.recording():
            await world.settle()
        return max(self.taken, default=0.0)


async def measure(cases: Iterable[HostileCase], nodes: int, rounds: int) -> None:
    """Create and delete objects of each case at full size."""
    steps = Steps()
    async with hostile_world(nodes=nodes) as world:
        gc.collect()
        gc.freeze()
        for case in cases:
            for each in case.beside(case.small, 0):
                world.api.create(each)
            await world.settle()
            found: list[float] = []
            for serial in range(rounds):
                obj = case.object(case.full, serial)
                found += [
                    await steps.longest(world, partial(change, obj))
                    for change in (world.api.create, world.api.delete)
                ]
            mark = "  <<<" if max(found) > MAX_STEP_MS else ""
            click.echo(f"{case.name:45} {' '.join(f'{each:6.1f}' for each in found)}{mark}")


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("--case", "names", multiple=True, metavar="NAME", help="Which.  [default: all]")
@click.option("--nodes", default=5_000, help="How many nodes there are.")
@click.option("--rounds", default=2, help="How many objects of each case.")
def main(names: tuple[str, ...], nodes: int, rounds: int) -> None:
    """Print the longest step in ms that the creation and the deletion of each object causes."""
    cases = [CASES[name] for name in names] or [
        case for case in CASES.values() if case.grows and case.verdict is Verdict.STORED
    ]
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    collect_seldom()
    asyncio.run(measure(cases, nodes, rounds))


if __name__ == "__main__":
    main()
