"""Measure how long `kubestow explain` takes: `python -m benchmarks.what_if.explain`.

The command runs as a process of its own, from its start to its end, against a scheduler with 5,000
nodes and 50,000 bound pods. Beside the whole time stand its parts: an interpreter that does
nothing, the help of the command (which imports what every call imports), and the time of the
scheduler for the answer. No API server is between them: `--server` is given.
"""

from __future__ import annotations

import asyncio
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Final

import aiohttp
import click

from benchmarks.what_if.__main__ import known, page, running
from benchmarks.what_if.cluster import cluster_options, served

LIMIT: Final = 1.0
"""Seconds from the start of the process to its end."""
REPEATS: Final = 5
EXPLAIN: Final = ("-m", "scheduler", "explain")
PODS: Final = ("big", "urgent", "spread", "old-000000")
REMEDIES: Final = ("none", "quick", "all")


def timed(arguments: Sequence[str]) -> tuple[float, float]:
    """Run Python with arguments; return the medians of seconds, and of seconds of CPU time."""
    taken, used = [], []
    for _ in range(REPEATS):
        began, before = time.perf_counter(), _children()
        subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
        taken.append(time.perf_counter() - began)
        used.append(_children() - before)
    return sorted(taken)[REPEATS // 2], sorted(used)[REPEATS // 2]


def _children() -> float:
    """Return the CPU time of all processes that ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


async def answered(session: aiohttp.ClientSession, path: str) -> float:
    """Return the median of the seconds that the scheduler takes for a page."""
    taken = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        await page(session, path)
        taken.append(time.perf_counter() - began)
    return sorted(taken)[REPEATS // 2]


async def bench(orders: Connection, nodes: int, pods: int) -> bool:
    """Print the times; return whether every answer with the default options is in time."""
    url = await asyncio.to_thread(orders.recv)
    async with running(url) as (session, options):
        await known(session, nodes + pods)
        click.echo(f"{nodes} nodes, {pods} pods; milliseconds")
        for title, line in (("interpreter", ["-c", "pass"]), ("--help", [*EXPLAIN, "--help"])):
            whole, cpu = await asyncio.to_thread(timed, line)
            click.echo(f"{title:<30} {1000 * whole:5.0f}, CPU {1000 * cpu:4.0f}")
        slowest = 0.0
        for pod in PODS:
            for remedies in REMEDIES:
                line = [*EXPLAIN, f"default/{pod}", "--remedies", remedies]
                whole, cpu = await asyncio.to_thread(timed, [*line, *options])
                query = f"nodes=10&examples=3&remedies={remedies}&limit=3"
                served = await answered(session, f"/debug/explain?pod=default/{pod}&{query}")
                click.echo(
                    f"{pod:<12} --remedies {remedies:<6} {1000 * whole:5.0f}, CPU "
                    f"{1000 * cpu:4.0f}; of which the scheduler {1000 * served:5.0f}"
                )
                slowest = max(slowest, whole if remedies == "quick" else 0.0)
    return slowest <= LIMIT


@click.command()
@cluster_options
def main(nodes: int, pods: int) -> None:
    """Measure the command. Exits with 1 if an answer took more than a second."""
    with served(nodes, pods) as orders:
        good = asyncio.run(bench(orders, nodes, pods))
    if not good:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
