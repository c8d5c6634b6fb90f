"""`python -m benchmarks.what_if`: the lengths of slices while pods are scheduled.

The program runs in this process, on the embedded API server in another one, with 5,000 nodes and
50,000 bound pods. Pods come in at a steady rate, first alone, then while questions and remedies are
asked over HTTPS without a pause. Printed are the longest slice, by the wall and in CPU time, and
how many pods were bound.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import aiohttp
import click

from benchmarks.what_if.cluster import Load, cluster_options, served
from devtools.control_plane.ports import free_port
from devtools.embedded_service import configuration
from scheduler.process.application import Application
from scheduler.service.options import RunOptions, ServingOptions

LIMIT: Final = 0.010
TOKEN: Final = "reader"  # noqa: S105 - of the embedded server
_CPU: Final = "/spec/containers/0/resources/requests/cpu"
QUESTIONS: Final[tuple[dict[str, Any], ...]] = (
    {"pod": "default/big"},
    {"pod": "default/big", "add_nodes": [{"like": "node-00001", "resources": {"cpu": "64"}}]},
    {"pod": "default/urgent"},
    {"pod": "default/spread", "cordon": ["node-00007"], "fields": {_CPU: "1"}},
    {"pod": "default/big", "fields": {_CPU: "1"}, "copies": 50},
    {"pod": "default/big", "drop_nodes": ["node-00003", "node-00004"]},
)


@dataclass(slots=True)
class Asked:
    """Counts of answers."""

    answers: int = 0
    slices: int = 0


@asynccontextmanager
async def running(url: str) -> AsyncIterator[tuple[aiohttp.ClientSession, tuple[str, ...]]]:
    """Run the scheduler; yield a session with its endpoints, and options for commands."""
    with TemporaryDirectory() as folder:
        port = free_port()
        loaded, registry = configuration((), {"leaderElection": {"leaderElect": False}})
        serving = ServingOptions(bind_address="127.0.0.1", secure_port=port, cert_dir=folder)
        application = Application(loaded, registry, RunOptions(master=url, serving=serving))
        async with asyncio.TaskGroup() as group:
            group.create_task(application.serve(handle_signals=False))
            certificate = Path(folder) / "kube-scheduler.crt"
            while not certificate.exists():  # noqa: ASYNC110 - it is written by the same process
                await asyncio.sleep(0.1)
            server = f"https://localhost:{port}"
            options = ("--server", server, "--ca-file", str(certificate), "--token", TOKEN)
            connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=certificate))
            try:
                async with aiohttp.ClientSession(
                    server,
                    connector=connector,
                    headers={"Authorization": f"Bearer {TOKEN}"},
                ) as session:
                    yield session, options
            finally:
                application.stop()


async def page(session: aiohttp.ClientSession, path: str, question: object = None) -> Any:
    """Get a page, or post a question. Raises RuntimeError for any other answer."""
    method = "GET" if question is None else "POST"
    async with session.request(method, path, json=question) as response:
        if response.status != 200:
            raise RuntimeError(f"{path} {question}: {response.status} {await response.text()}")
        return await response.json()


async def ask(session: aiohttp.ClientSession, asked: Asked) -> None:
    """Ask one question after the other until cancelled."""
    while True:
        for question in QUESTIONS:
            found = await page(session, "/debug/whatif", question)
            asked.slices += found["slices"]
            asked.answers += 1
        for name in ("big", "urgent", "spread"):
            found = await page(session, f"/debug/explain?remedies=all&limit=5&pod=default/{name}")
            asked.slices += found["remedies"]["tried"]
            asked.answers += 1


async def load(orders: Connection, order: Load) -> str:
    """Let pods come in; return how many did and were bound."""
    orders.send(order)
    created, bound = await asyncio.to_thread(orders.recv)
    return f"{created / order.seconds:4.0f} pods/s came in, {bound / order.seconds:4.0f} were bound"


async def known(session: aiohttp.ClientSession, objects: int) -> None:
    """Wait until the scheduler knows so many nodes and pods."""
    found = 0
    while found < objects:
        await asyncio.sleep(0.5)
        cache = await page(session, "/debug/cache")
        found = cache["nodes"] + cache["pods"]


async def bench(orders: Connection, nodes: int, pods: int, rate: float, seconds: float) -> bool:
    """Measure both phases; return whether no slice used more CPU time than the limit."""
    url = await asyncio.to_thread(orders.recv)
    asked = Asked()
    async with running(url) as (session, _):
        await known(session, nodes + pods)
        alone = await load(orders, Load("one", rate, seconds))
        asking = asyncio.create_task(ask(session, asked))
        beside = await load(orders, Load("two", rate, seconds))
        if asking.done():
            asking.result()
        asking.cancel()
        questions = (await page(session, "/debug/statistics"))["questions"]
    wall, cpu = questions["longest_slice"] * 1000, questions["longest_slice_cpu"] * 1000
    click.echo(f"{nodes} nodes, {pods} pods")
    click.echo(f"without questions: {alone}")
    click.echo(f"with questions:    {beside}; {asked.answers} answers in {asked.slices} slices")
    click.echo(f"longest slice:     {wall:.1f} ms by the wall, {cpu:.1f} ms of CPU time")
    return asked.answers > 0 and cpu <= LIMIT * 1000


@click.command()
@cluster_options
@click.option("--rate", default=500.0, show_default=True, help="Pods that come in per second.")
@click.option("--seconds", default=15.0, show_default=True, help="Of each phase.")
def main(nodes: int, pods: int, rate: float, seconds: float) -> None:
    """Measure slices. Exits with 1 if one took more than 10 ms of CPU time."""
    with served(nodes, pods) as orders:
        good = asyncio.run(bench(orders, nodes, pods, rate, seconds))
    if not good:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
