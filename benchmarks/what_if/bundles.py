"""`python -m benchmarks.what_if.bundles`: the slices in which a bundle is written.

The cluster is that of `benchmarks.what_if`. A task that does nothing runs in every iteration of the
event loop, and notes how much CPU time passed since its last turn: that is what the other tasks
used without a pause. Printed is the longest such slice, at rest and while a bundle is read.
"""

from __future__ import annotations

import asyncio
import http.client
import ssl
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from urllib.parse import urlsplit

import click

from benchmarks.what_if.__main__ import LIMIT, known, running
from benchmarks.what_if.cluster import cluster_options, served

REST_SECONDS = 3.0


@dataclass(slots=True)
class Longest:
    """The longest slices since the start, seconds."""

    wall: float = 0.0
    cpu: float = 0.0

    async def watch(self) -> None:
        """Measure until cancelled."""
        wall, cpu = time.perf_counter(), time.thread_time()
        while True:
            await asyncio.sleep(0)
            now, used = time.perf_counter(), time.thread_time()
            self.wall, self.cpu = max(self.wall, now - wall), max(self.cpu, used - cpu)
            wall, cpu = now, used

    def __str__(self) -> str:
        return f"{self.wall * 1000:.1f} ms by the wall, {self.cpu * 1000:.1f} ms of CPU time"


async def measured(work: asyncio.Future[int]) -> tuple[int, Longest]:
    """Wait for the work; return its result and the longest slices meanwhile."""
    longest = Longest()
    watching = asyncio.create_task(longest.watch())
    result = await work
    watching.cancel()
    return result, longest


def read(server: str, token: str) -> int:
    """Read a bundle and return its size; in a thread, so that the reader's work is not counted."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    connection = http.client.HTTPSConnection(urlsplit(server).netloc, timeout=120, context=context)
    connection.request("GET", "/debug/bundle", headers={"Authorization": f"Bearer {token}"})
    response = connection.getresponse()
    if response.status != 200:
        raise RuntimeError(f"/debug/bundle: {response.status} {response.read(400)!r}")
    size = 0
    while chunk := response.read(1 << 16):
        size += len(chunk)
    connection.close()
    return size


async def bench(orders: Connection, nodes: int, pods: int, rounds: int) -> bool:
    """Measure; return whether no slice used more CPU time than the limit."""
    url = await asyncio.to_thread(orders.recv)
    async with running(url) as (session, options):
        _, server, *_, token = options
        await known(session, nodes + pods)
        resting = asyncio.ensure_future(asyncio.sleep(REST_SECONDS, 0))
        _, rest = await measured(resting)
        click.echo(f"{nodes} nodes, {pods} pods")
        click.echo(f"at rest:  {rest}")
        worst = 0.0
        for _ in range(rounds):
            reading = asyncio.ensure_future(asyncio.to_thread(read, server, token))
            size, longest = await measured(reading)
            click.echo(f"bundle:   {longest}; {size / (1 << 20):.1f} MiB")
            worst = max(worst, longest.cpu)
    return worst <= LIMIT


@click.command()
@cluster_options
@click.option("--rounds", default=3, show_default=True, help="Bundles that are read.")
def main(nodes: int, pods: int, rounds: int) -> None:
    """Measure slices. Exits with 1 if one took more than 10 ms of CPU time."""
    with served(nodes, pods) as orders:
        good = asyncio.run(bench(orders, nodes, pods, rounds))
    if not good:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
