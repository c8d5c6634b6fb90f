"""`kubestow demo`: the scheduler at work, with nothing else installed.

The command line's part: options, the log, signals, exit codes and the last words. What happens is
in `demo_story`, what runs in `demo_show`, what is drawn in `demo_view`.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import tempfile
from collections.abc import Coroutine
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import click
import uvloop
from rich.console import Console

from scheduler.cli.demo_audience import follow, watch_lines, watch_live
from scheduler.cli.demo_audit import audit
from scheduler.cli.demo_show import DemoError, DemoOptions, Running, opened, play
from scheduler.cli.demo_story import SHOW_SECONDS
from scheduler.framework import ConfigurationError
from scheduler.service import logs

EXIT_INTERRUPTED: Final = 130
_LOG_TAIL: Final = 12
_MOST_PROBLEMS: Final = 8

_HELP: Final = """\
Watch kubestow schedule a small cluster. Needs no Kubernetes and no container engine.

Starts an embedded API server with 39 nodes in three zones, and the same scheduler that
`kubestow run` starts, which works on it over HTTP like on any cluster. Then a morning happens:
deployments roll out, batch jobs come and go, training pods take GPUs, some pods wait for a
scheduling gate and some fit nowhere. Gates are removed, a node joins, another is uncordoned,
and what waited for that is placed.

\b
What the live view shows:
  the bar           pods bound, of all that the story creates
  nodes by zone     requested cpu, memory and GPUs of each node; struck out: cordoned
  waiting, and why  pods without a node, by what most nodes say
  what happens      ▶ the story   + placements   … pods that begin to wait

When the output is no terminal, lines are written instead. In the end everything is checked: no
node over its capacity, no pod lost, every pod bound that can be. The last line says
`kubestow demo: <n> bound, <m> waiting`; the exit code is 0 if all is well, 1 if not, 130
if it was interrupted.

\b
Examples:
  kubestow demo                  the show, about 15 seconds
  kubestow demo --serve          then play on with kubectl
  kubestow demo --fast | tail -1
"""

_GUIDE: Final = """
The cluster keeps running. In another terminal:

  export KUBECONFIG={kubeconfig}
  kubectl get nodes
  kubectl get pods -A --field-selector=status.phase=Pending
  kubectl describe pod -n batch giant-1          # says why it waits
  kubectl get events -n batch

  # let a gated pod go, and see it placed:
  kubectl patch pod -n research prepare-4 --type=json \\
    -p '[{{"op": "remove", "path": "/spec/schedulingGates"}}]'
  # place a pod of your own:
  kubectl run hello --image=nginx --overrides='{{"spec": {{"schedulerName": "kubestow"}}}}'

Ctrl-C ends it.
"""


@click.command("demo", help=_HELP)
@click.option(
    "--serve",
    is_flag=True,
    help="Keep cluster and scheduler running afterwards, for kubectl.",
)
@click.option(
    "--duration",
    type=click.FloatRange(1, 600),
    default=SHOW_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="How long the story takes.",
)
@click.option("--fast", is_flag=True, help="No pauses: everything as soon as it can happen.")
@click.option(
    "--seed", type=int, default=1, show_default=True, help="Another seed, another morning."
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    metavar="PORT",
    help="Port of the embedded API server on 127.0.0.1.  [default: a free one]",
)
@click.option(
    "--log-file",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Where to keep the scheduler's log. Without it, its warnings are shown if the demo fails.",
)
def command(
    *, serve: bool, duration: float, fast: bool, seed: int, port: int, log_file: Path | None
) -> None:
    """Run the demo; leaves with its exit code."""
    options = DemoOptions(seed=seed, duration=0.0 if fast else duration, port=port)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kubestow-demo-")))
        log = log_file or folder / "scheduler.log"
        try:
            stream = stack.enter_context(log.open("w", encoding="utf-8"))
        except OSError as problem:
            raise click.ClickException(f"--log-file {log}: {problem.strerror}") from problem
        # Nothing but the view may write to the terminal while it is live.
        logs.configure("text", stream=stream)
        problems: list[str] = []
        code = 1
        try:
            code = uvloop.run(_Demo(options, Console(), folder, serve=serve).run())
        except* (DemoError, ConfigurationError) as failures:
            problems = [str(failure) for failure in _leaves(failures)]
        if problems:
            stream.flush()
            raise click.ClickException(_failure(problems, log))
    sys.exit(code)


class _Demo:
    """One run of the command."""

    def __init__(
        self, options: DemoOptions, console: Console, folder: Path, *, serve: bool
    ) -> None:
        self._options = options
        self._console = console
        self._folder = folder
        self._serve = serve
        self._interrupted = asyncio.Event()

    async def run(self) -> int:
        """The show and what follows; returns the exit code."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._interrupt)
        code = 0
        async with opened(self._options, self._folder) as running:
            if not await self._show(running):
                code = EXIT_INTERRUPTED
            elif self._serve:
                self._say(_GUIDE.format(kubeconfig=running.kubeconfig))
                self._say(str(running.totals))
                await self._until_interrupted(follow(running.board, self._console))
                _check(running)
            totals = running.totals
        self._say(str(totals))
        return code

    def _interrupt(self) -> None:
        """The first signal ends the show in good order, a second one at once."""
        self._interrupted.set()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)

    async def _show(self, running: Running) -> bool:
        """Whether the story came to its end."""
        watch = watch_live if _can_draw(self._console) else watch_lines
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(watch(running, self._console), name="audience")
            try:
                return await self._until_interrupted(play(running, self._options.duration))
            finally:
                watching.cancel()

    async def _until_interrupted(self, work: Coroutine[Any, Any, None]) -> bool:
        """Whether the work was done before a signal came."""
        async with asyncio.TaskGroup() as tasks:
            working = tasks.create_task(work, name="story")
            waiting = tasks.create_task(self._interrupted.wait(), name="signal")
            await asyncio.wait((working, waiting), return_when=asyncio.FIRST_COMPLETED)
            done = working.done()
            working.cancel()
            waiting.cancel()
        return done

    def _say(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


def _can_draw(console: Console) -> bool:
    """Whether the output can move its cursor and show bars."""
    drawable = console.is_terminal and not console.is_dumb_terminal
    return drawable and console.encoding.lower().startswith("utf")


def _check(running: Running) -> None:
    problems = audit(running.board, running.recount())
    if problems:
        raise DemoError("\n".join(problems))


def _failure(problems: list[str], log: Path) -> str:
    """What went wrong, and the last warnings and errors of the log."""
    lines = [line for problem in problems for line in problem.splitlines()]
    if len(lines) > _MOST_PROBLEMS:
        lines[_MOST_PROBLEMS:] = [f"… and {len(lines) - _MOST_PROBLEMS} more"]
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
