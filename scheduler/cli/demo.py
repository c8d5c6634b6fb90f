"""`kubestow demo`: the scheduler at work, with nothing else installed.

Without an argument the morning of a small cluster; with one, a story of its own from a module
`demo_<story>`. Here: options and last words of the first; what happens is in `demo_story`, what
runs in `demo_show`, what is drawn in `demo_view`, what all stories share in `demo_performing`.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

import click
from click.core import ParameterSource
from rich.console import Console

from simulator.demos.audience import follow, watch_lines, watch_live
from simulator.demos.morning.audit import audit
from simulator.demos.performing import (
    Interruption,
    can_draw,
    log_file_option,
    perform,
    port_option,
    say,
)
from simulator.demos.runner import DemoError, DemoOptions, Running, opened, play
from simulator.demos.morning.story import SHOW_SECONDS
from scheduler.cli.main import LazyCommand
from scheduler.cli.reporting import EXIT_INTERRUPTED

STORIES: Final = {
    "zone-stockout": LazyCommand(
        "simulator.demos.zone_stockout.story", "A zone is sold out; strict spreading gives way."
    ),
    "gpu-queue": LazyCommand(
        "simulator.demos.gpu_queue.story", "Ten GPU jobs, eight GPUs of quota: two wait."
    ),
}
"""Stories by name, in the order of the help. Each is a click command `command` in its module."""

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
  kubestow demo zone-stockout    a story of its own; each has a --help
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


class StoryGroup(click.Group):
    """Knows the stories by `STORIES` and imports one when it is told."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Those that exist."""
        return [name for name, entry in STORIES.items() if entry.exists]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:
        """Import a story."""
        if cmd_name not in self.list_commands(ctx):
            ctx.fail(f"no story {cmd_name!r}; there are: {', '.join(self.list_commands(ctx))}")
        return STORIES[cmd_name].load()

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the stories without importing them."""
        listed = [(name, STORIES[name].short_help) for name in self.list_commands(ctx)]
        if listed:
            with formatter.section("Stories"):
                formatter.write_dl(listed)


@click.group(
    "demo",
    cls=StoryGroup,
    help=_HELP,
    invoke_without_command=True,
    subcommand_metavar="[STORY [OPTIONS]]",
)
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
@port_option
@log_file_option
@click.pass_context
def command(
    ctx: click.Context,
    *,
    serve: bool,
    duration: float,
    fast: bool,
    seed: int,
    port: int,
    log_file: Path | None,
) -> None:
    """Run the demo; leaves with its exit code."""
    if ctx.invoked_subcommand is not None:
        _refuse_options_before(ctx)
        return
    options = DemoOptions(seed=seed, duration=0.0 if fast else duration, port=port)
    perform(lambda folder: _Demo(options, Console(), folder, serve=serve).run(), log_file)


def _refuse_options_before(ctx: click.Context) -> None:
    """Options that stand before a story would do nothing."""
    for name in ctx.params:
        if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            flag = f"--{name.replace('_', '-')}"
            ctx.fail(f"{flag} stands before {ctx.invoked_subcommand}: write options behind it")


class _Demo:
    """One run of the command."""

    def __init__(
        self, options: DemoOptions, console: Console, folder: Path, *, serve: bool
    ) -> None:
        self._options = options
        self._console = console
        self._folder = folder
        self._serve = serve

    async def run(self) -> int:
        """The show and what follows; returns the exit code."""
        interruption = Interruption()
        code = 0
        async with opened(self._options, self._folder) as running:
            if not await self._show(running, interruption):
                code = EXIT_INTERRUPTED
            elif self._serve:
                say(self._console, _GUIDE.format(kubeconfig=running.kubeconfig))
                say(self._console, str(running.totals))
                await interruption.until(follow(running.board, self._console))
                _check(running)
            totals = running.totals
        say(self._console, str(totals))
        return code

    async def _show(self, running: Running, interruption: Interruption) -> bool:
        """Whether the story came to its end."""
        watch = watch_live if can_draw(self._console) else watch_lines
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(watch(running, self._console), name="audience")
            try:
                return await interruption.until(play(running, self._options.duration))
            finally:
                watching.cancel()


def _check(running: Running) -> None:
    problems = audit(running.board, running.recount())
    if problems:
        raise DemoError("\n".join(problems))
