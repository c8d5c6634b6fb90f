"""The runner of demos: embedded API server, real scheduler over real HTTP, story and audience.

All on one event loop. The order of stopping matters: the story ends first, then the scheduler (it
finishes its binds), then the API server, so that nothing is cut off that an audit would call lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from simulator.demos.audience import audience, write
from simulator.demos.scheduling import DemoError, scheduling
from simulator.demos.story import Story

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


async def run(story: Story, console: Console, folder: Path, *, serve: bool) -> bool:
    """Run a story; `folder` takes the kubeconfig.

    Returns:
        Whether it came to its end; false when a signal interrupted it.

    Raises:
        DemoError: it did not end as promised, or could not begin.
    """
    interruption = Interruption()
    async with opened(story, folder, serve=serve) as kubeconfig:
        async with audience(story, console, playing=True):
            ended = await interruption.until(story.play())
        if ended:
            _raise_if_any(story.violations() if story.config_file else story.problems())
            if story.summary():
                write(console, story.summary())
        if ended and serve:
            write(console, story.guide(kubeconfig))
            async with audience(story, console, playing=False):
                await interruption.until(asyncio.Event().wait())
            _raise_if_any(story.violations())
        last_line = str(story)
    write(console, last_line)
    return ended


@contextlib.asynccontextmanager
async def opened(story: Story, folder: Path, *, serve: bool = False) -> AsyncIterator[Path]:
    """Yield the kubeconfig of the story's cluster, with the scheduler at work on it.

    With `serve` the scheduler answers `kubestow explain` and the like.

    Raises:
        DemoError: the port is taken, or the scheduler ended by itself.
    """
    async with contextlib.AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(story.cluster)
        except OSError as error:
            msg = f"the API server cannot listen on port {story.port}: {error.strerror}"
            raise DemoError(msg) from error
        story.prepare()
        kubeconfig = story.cluster.write_kubeconfig(folder / "kubeconfig")
        await stack.enter_async_context(scheduling(kubeconfig, story, serve=serve))
        yield kubeconfig


class Interruption:
    """SIGINT and SIGTERM: the first ends the story in good order, a second one at once.

    Construct it on the event loop that the story runs on.
    """

    def __init__(self) -> None:
        self._received = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._interrupt)

    def _interrupt(self) -> None:
        self._received.set()
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.remove_signal_handler(number)

    async def until(self, work: Coroutine[Any, Any, object]) -> bool:
        """Run `work` until it is done or a signal arrives; whether it was done first."""
        async with asyncio.TaskGroup() as tasks:
            working = tasks.create_task(work, name="story")
            waiting = tasks.create_task(self._received.wait(), name="signal")
            await asyncio.wait((working, waiting), return_when=asyncio.FIRST_COMPLETED)
            done = working.done()
            working.cancel()
            waiting.cancel()
        return done


def _raise_if_any(problems: list[str]) -> None:
    if problems:
        raise DemoError("\n".join(problems))
