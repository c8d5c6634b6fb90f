"""Live screens on a real pseudo-terminal: their size, the keys that end them, what they leave."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from rich.cells import cell_len

from tests.integration.explain.conftest import Open, Site
from tests.integration.explain.pseudo_terminal import PseudoTerminal

LONG = "nightly-batch-report-generator-with-a-name-that-fills-the-line-7f9c5d8b6-x2k4v"
SCREENS = (("top", "--interval", "0.5"), ("queue", "--watch", "--interval", "0.5"))


async def fill(site: Site) -> None:
    """Let pods with long names wait for more than the one node has."""
    metadata = {"name": "ip-10-0-13-17.eu-central-1.compute.internal", "labels": {"zone": "a"}}
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    site.cluster.create(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": metadata,
            "status": {"allocatable": amounts, "capacity": amounts},
        }
    )
    container = {"name": "c", "resources": {"requests": {"cpu": "64"}}}
    for number in range(40):
        site.cluster.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": f"{LONG}-{number:02}", "namespace": "default"},
                "spec": {"schedulerName": "kubestow", "containers": [container]},
            }
        )

    async def waits() -> bool:
        return "Insufficient cpu" in (await site.query("queue")).out

    async with asyncio.timeout(60):
        while not await waits():
            pass


def play(site: Site, screen: tuple[str, ...], end: str) -> tuple[int, bool]:
    """Watch a screen at three sizes and end it; return the exit code, and if all is restored."""
    options = ("--server", site.server, "--ca-file", site.ca_file, "--token", "reader-token")
    with PseudoTerminal(*screen, *options) as terminal:
        for columns, rows, former in ((80, 24, 60), (60, 15, 40), (132, 50, 80)):
            terminal.resize(columns, rows)
            terminal.wait_for(drawn_for(columns, rows, former))
        terminal.press(end)
        return terminal.ended(), terminal.restored()


def drawn_for(columns: int, rows: int, former: int) -> Callable[[list[str]], bool]:
    """Return whether a frame fits a size, and has lines too long for one of `former` columns."""

    def met(lines: list[str]) -> bool:
        widest = max(map(cell_len, lines), default=0)
        named = any(LONG[-5:] in line for line in lines)
        return named and former < widest <= columns and len(lines) <= rows

    return met


@pytest.mark.slow
@pytest.mark.parametrize("end", ["q", "\x03"], ids=["q", "Ctrl-C"])
@pytest.mark.parametrize("screen", SCREENS, ids=lambda screen: screen[0])
async def test_a_live_screen_follows_the_size_and_leaves_the_terminal_as_it_was(
    scheduling: Open, screen: tuple[str, ...], end: str
) -> None:
    async with scheduling() as site:
        await fill(site)
        code, restored = await asyncio.to_thread(play, site, screen, end)
    assert (code, restored) == (0, True)
