"""The audience of a demo: a live picture on a terminal, lines everywhere else.

Audiences only read the board, and write everything they have not written before they leave.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final

from rich.console import Console, RenderableType
from rich.live import Live

from simulator.demos.story import Story

_FRAME_SECONDS: Final = 0.1
_PROGRESS_SECONDS: Final = 2.0


@contextlib.asynccontextmanager
async def audience(story: Story, console: Console, *, playing: bool) -> AsyncIterator[None]:
    """Show the story while the context lasts; `playing` is false while the cluster is served."""
    picture = story.picture if playing or story.picture_while_serving else None
    if picture is not None and _can_draw(console):
        watch = _draw(story, picture, console)
    else:
        watch = _write_lines(story, console, progress=playing)
    async with asyncio.TaskGroup() as tasks:
        watching = tasks.create_task(watch, name="audience")
        try:
            yield
        finally:
            watching.cancel()


def write(console: Console, text: str) -> None:
    """Write text as it is: no markup, no wrapping."""
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def _can_draw(console: Console) -> bool:
    """Whether the output can move its cursor and show bars."""
    drawable = console.is_terminal and not console.is_dumb_terminal
    return drawable and console.encoding.lower().startswith("utf")


async def _draw(story: Story, picture: RenderableType, console: Console) -> None:
    try:
        with Live(picture, console=console, auto_refresh=False, vertical_overflow="crop") as live:
            # Leaving draws once more.
            while True:
                live.refresh()
                await asyncio.sleep(_FRAME_SECONDS)
    finally:
        # Keep the escape sequence that shows the cursor again off the line that follows.
        console.print()
        for _ in story.board.unread(everything=True):
            pass  # shown in the picture


async def _write_lines(story: Story, console: Console, *, progress: bool) -> None:
    board = story.board
    due = 0.0
    try:
        while True:
            if progress and board.elapsed() >= due:
                due = board.elapsed() + _PROGRESS_SECONDS
                _add_progress(story)
            _write_unread(story, console)
            await asyncio.sleep(_FRAME_SECONDS)
    finally:
        if progress:
            _add_progress(story)
        _write_unread(story, console, everything=True)


def _add_progress(story: Story) -> None:
    text = story.progress()
    if text:
        story.board.add("progress", text)


def _write_unread(story: Story, console: Console, *, everything: bool = False) -> None:
    for news in story.board.unread(everything=everything):
        console.print(story.line(news), soft_wrap=True)
