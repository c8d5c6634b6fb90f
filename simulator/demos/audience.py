"""Who watches the demo: a live view on a terminal, lines everywhere else.

Both only read the board, and both write everything they know before they leave.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from typing import Final

from rich.console import Console
from rich.live import Live

from simulator.demos.morning.cluster import MERGE_SECONDS, Board, News
from simulator.demos.runner import Running
from simulator.demos.morning.view import DemoView

_FRAME_SECONDS: Final = 0.1
_LOOK_SECONDS: Final = 0.25
_PROGRESS_SECONDS: Final = 2.0
_WORDS: Final = {"story": "--", "placed": "placed", "waits": "waits:", "fault": "FAULT"}


async def watch_live(running: Running, console: Console) -> None:
    """Draw the board until cancelled; its last state stays on the screen."""
    view = DemoView(running.board, running.story.pods, running.server)
    try:
        with Live(view, console=console, auto_refresh=False, vertical_overflow="crop") as live:
            # Leaving draws once more.
            while True:
                live.refresh()
                await asyncio.sleep(_FRAME_SECONDS)
    finally:
        # The code that shows the cursor again shall not stand on the line of the last words.
        console.print()


async def watch_lines(running: Running, console: Console) -> None:
    """Write what happens and how far it is, line by line, until cancelled."""
    board = running.board
    news = NewsReader(board)
    due = _PROGRESS_SECONDS
    # Placements are told when they are final, which takes a moment: progress waits for them, so
    # that the times of the lines never go back.
    held: deque[tuple[float, str]] = deque()
    _print(console, _progress(running))
    try:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            _write(console, news.ripe(), held)
            _release(console, held, board.elapsed() - MERGE_SECONDS)
            if board.elapsed() >= due:
                due = board.elapsed() + _PROGRESS_SECONDS
                held.append((board.elapsed(), _progress(running)))
    finally:
        _write(console, news.rest(), held)
        _print(console, _progress(running))


async def follow(board: Board, console: Console) -> None:
    """Write what happens from now on, until cancelled."""
    news = NewsReader(board)
    news.skip()
    while True:
        await asyncio.sleep(_LOOK_SECONDS)
        _write(console, news.ripe())


class NewsReader:
    """Reads the news of a board once each, in order, when their text will not change any more."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._read = 0

    def skip(self) -> None:
        """Pass over everything told so far."""
        for _ in self.rest():
            pass

    def rest(self) -> Iterator[News]:
        """All that is unread."""
        return self._until(float("inf"))

    def ripe(self) -> Iterator[News]:
        """What is unread and final."""
        return self._until(self._board.elapsed() - MERGE_SECONDS)

    def _until(self, time: float) -> Iterator[News]:
        for news in [*self._board.news]:
            if news.number <= self._read:
                continue
            if news.kind == "placed" and news.at > time:
                return
            self._read = news.number
            yield news


def _write(
    console: Console, lines: Iterator[News], held: deque[tuple[float, str]] | None = None
) -> None:
    """Write news, each after the `held` lines that are older."""
    for news in lines:
        if held:
            _release(console, held, news.at)
        _print(console, f"{news.at:5.1f} s  {_WORDS[news.kind]} {news.text}")


def _release(console: Console, held: deque[tuple[float, str]], until: float) -> None:
    while held and held[0][0] <= until:
        _print(console, held.popleft()[1])


def _progress(running: Running) -> str:
    board, totals = running.board, running.totals
    return (
        f"{board.elapsed():5.1f} s  == {totals.bound} of {running.story.pods} pods bound, "
        f"{totals.waiting} waiting"
    )


def _print(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)
