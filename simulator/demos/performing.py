"""What every story of `kubestow demo` needs around it: a log, signals, exit codes, last words.

A story is a coroutine that gets a folder of its own and returns an exit code. The scheduler's log
goes to a file, because nothing but the story may write to the terminal; its warnings are shown when
the story fails.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import tempfile
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, NoReturn

import click
import uvloop
from rich.console import Console

from simulator.demos.runner import DemoError
from scheduler.framework import ConfigurationError
from scheduler.service import logs

_LOG_TAIL: Final = 12
_MAX_ERRORS: Final = 8

log_file_option = click.option(
    "--log-file",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Where to keep the scheduler's log. Without it, its warnings are shown if the demo fails.",
)
port_option = click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    metavar="PORT",
    help="Port of the embedded API server on 127.0.0.1.  [default: a free one]",
)


def perform(story: Callable[[Path], Coroutine[Any, Any, int]], log_file: Path | None) -> NoReturn:
    """Run a story in a folder of its own and leave with its exit code.

    Raises:
        click.ClickException: what went wrong, with the last lines of the log.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kubestow-demo-")))
        log = log_file or folder / "scheduler.log"
        try:
            stream = stack.enter_context(log.open("w", encoding="utf-8"))
        except OSError as error:
            raise click.ClickException(f"--log-file {log}: {error.strerror}") from error
        # Nothing but the view may write to the terminal while it is live.
        logs.configure("text", stream=stream)
        problems: list[str] = []
        code = 1
        try:
            code = uvloop.run(story(folder))
        except* (DemoError, ConfigurationError) as failures:
            problems = [str(failure) for failure in _leaves(failures)]
        if problems:
            stream.flush()
            raise click.ClickException(_failure(problems, log))
    sys.exit(code)


class Interruption:
    """SIGINT and SIGTERM: the first ends the story in good order, a second one at once.

    Make it on the event loop that the story runs on.
    """

    def __init__(self) -> None:
        self._came = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._interrupt)

    def _interrupt(self) -> None:
        self._came.set()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)

    async def until(self, work: Coroutine[Any, Any, None]) -> bool:
        """Whether the work was done before a signal came."""
        async with asyncio.TaskGroup() as tasks:
            working = tasks.create_task(work, name="story")
            waiting = tasks.create_task(self._came.wait(), name="signal")
            await asyncio.wait((working, waiting), return_when=asyncio.FIRST_COMPLETED)
            done = working.done()
            working.cancel()
            waiting.cancel()
        return done


def say(console: Console, text: str) -> None:
    """Write text as it is: no markup, no wrapping."""
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def can_draw(console: Console) -> bool:
    """Whether the output can move its cursor and show bars."""
    drawable = console.is_terminal and not console.is_dumb_terminal
    return drawable and console.encoding.lower().startswith("utf")


def _failure(problems: list[str], log: Path) -> str:
    """What went wrong, and the last warnings and errors of the log."""
    lines = [line for problem in problems for line in problem.splitlines()]
    if len(lines) > _MAX_ERRORS:
        lines[_MAX_ERRORS:] = [f"… and {len(lines) - _MAX_ERRORS} more"]
    logged = log.read_text(encoding="utf-8").splitlines()
    tail = [line for line in logged if "[info " not in line][-_LOG_TAIL:]
    if tail:
        lines += ["the scheduler logged:", *tail]
    return "\n  ".join(["the demo failed:", *lines])


def _leaves(group: BaseExceptionGroup[Exception]) -> list[Exception]:
    found: list[Exception] = []
    for problem in group.exceptions:
        found += _leaves(problem) if isinstance(problem, BaseExceptionGroup) else [problem]
    return found
