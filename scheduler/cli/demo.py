"""`kubestow demo`: the scheduler at work, with nothing else installed.

Commands, flags, the log and the exit code; the stories are in `simulator.demos`. Without the name
of a story the command shows the morning of a small cluster.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

import click
from click.core import ParameterSource

from scheduler.cli.modes import ModalCommand
from scheduler.cli.reporting import EXIT_INTERRUPTED

if TYPE_CHECKING:
    from simulator.controllers.autoscaler_groups import Flavor
    from simulator.demos.story import Story

_LOG_TAIL: Final = 12
_MAX_ERRORS: Final = 8

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
if it was interrupted. With --config, which pods are bound is up to your plugins; no node may be
over its capacity all the same.

\b
Examples:
  kubestow demo                  the show, about 15 seconds
  kubestow demo --serve          then ask and change it yourself
  kubestow demo --fast | tail -1
  kubestow demo --serve --config profile.yaml --plugin-dir .
  kubestow demo zone-stockout    a story of its own; each has a --help
"""
_ZONE_STOCKOUT_HELP: Final = """\
A zone is sold out; strict spreading gives way, and only then.

Deployment checkout wants 8 replicas spread over two zones, maxSkew 1, DoNotSchedule. Zone
eu-1b has room for two of them, and its node group cannot grow: the cloud has nothing left
there. An ordinary scheduler leaves three replicas Pending although eu-1a has room. Here the pods
carry an annotation that says when the constraint may soften: when node provisioning failed.

\b
What the timeline shows, in minutes of the cluster's clock:
  story       what you would do with kubectl
  kubestow    placements, and pods that wait
  autoscaler  the events of cluster-autoscaler or Karpenter: their real texts, and their silence
  bridge      the pod condition that kubestow makes of these events

The API server is a stock one that knows nothing of the feature. The manifest is in
examples/zone-stockout and works on a real cluster unchanged. The exit code is 0 if everything
happened in this order, 1 if not.

\b
Examples:
  kubestow demo zone-stockout              about 10 seconds
  kubestow demo zone-stockout --speed 30   quicker
  kubestow demo zone-stockout --serve      then look around with kubectl
  kubestow demo zone-stockout --autoscaler karpenter
"""
_GPU_QUEUE_HELP: Final = """\
Ten GPU jobs, eight GPUs of quota.

10 jobs of one GPU each are queued in namespace gpu-queue, whose quota is 8 GPUs. A
stock quota would refuse the last two, or charge those that only wait. Here all of them are admitted
with a scheduling gate and charge nothing. A small Kueue lets them go, two at a time. Eight are
placed; two are held by quota, with a condition that no autoscaler takes for a reason to buy nodes,
and placed as soon as a job ends. The nodes would have room for all ten.

\b
What the table shows, for each job:
  gated      admitted over the limit, not charged
  let go     the gate is gone
  held       by quota: PodScheduled=False, reason ResourceQuotaValidated
  running    placed and charged
  done       finished; what it used is free

Every change of a pod is audited: more than 8 GPUs bound at any moment, or a held pod that
says Unschedulable, ends the demo with exit code 1. The API server is a stock one that knows nothing
of the feature. The manifests are in examples/gpu-queue and work on a real cluster unchanged.

\b
Examples:
  kubestow demo gpu-queue            about 12 seconds
  kubestow demo gpu-queue --serve    then look around with kubectl
"""
_GANG_HELP: Final = """\
Gangs: pods that start together, or not at all.

Four nodes of four CPUs in two racks, and PodGroups of scheduling.x-k8s.io. Two gangs of ten pods
come at once, and each would half fit: one starts whole, the other waits and holds nothing. A gang
of eight needs one rack. The last one, of higher priority, needs the room of six batch pods: they
are evicted when it is known that all of it fits then.

The last line says `kubestow demo: <n> bound, <m> waiting`; the exit code is 0 if everything
happened in this order, 1 if not.

\b
Examples:
  kubestow demo gang            about 12 seconds
  kubestow demo gang --serve    then look around with kubectl
"""

_serve_option = click.option(
    "--serve",
    is_flag=True,
    help="Keep cluster and scheduler running afterwards, for kubectl and `kubestow explain`.",
)
_port_option = click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    metavar="PORT",
    help="Port of the embedded API server on 127.0.0.1.  [default: a free one]",
)
_log_file_option = click.option(
    "--log-file",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Where to keep the scheduler's log. Without it, its warnings are shown if the demo fails.",
)


class StoryGroup(ModalCommand, click.Group):
    """The stories, in the order of their definition."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the stories' names."""
        return [*self.commands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:
        """Return a story's command."""
        if cmd_name not in self.commands:
            ctx.fail(f"no story {cmd_name!r}; there are: {', '.join(self.commands)}")
        return self.commands[cmd_name]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the stories."""
        with formatter.section("Stories"):
            formatter.write_dl(
                [(name, story.get_short_help_str()) for name, story in self.commands.items()]
            )


@click.group(
    "demo",
    cls=StoryGroup,
    help=_HELP,
    invoke_without_command=True,
    subcommand_metavar="[STORY [OPTIONS]]",
)
@_serve_option
@click.option(
    "--duration",
    type=click.FloatRange(1, 600),
    default=14.0,
    show_default=True,
    metavar="SECONDS",
    help="How long the story takes.",
)
@click.option("--fast", is_flag=True, help="No pauses: everything as soon as it can happen.")
@click.option(
    "--seed", type=int, default=1, show_default=True, help="Another seed, another morning."
)
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False),
    help="Configuration of the scheduler; its profile must be called kubestow.",
)
@click.option(
    "--plugin-dir",
    "plugin_dirs",
    multiple=True,
    metavar="DIR",
    help="Folder with plugins that the configuration names. A file that is saved is loaded anew.",
)
@_port_option
@_log_file_option
@click.pass_context
def command(  # noqa: PLR0913 - an argument for each option
    ctx: click.Context,
    *,
    serve: bool,
    duration: float,
    fast: bool,
    seed: int,
    config: str | None,
    plugin_dirs: tuple[str, ...],
    port: int,
    log_file: Path | None,
) -> None:
    """Run the demo and exit with its status."""
    if ctx.invoked_subcommand is not None:
        _refuse_options_before(ctx)
        return
    from simulator.demos.morning.story import Morning

    if plugin_dirs and not config:
        ctx.fail("--plugin-dir needs --config, which says which of the plugins are enabled")

    def make() -> Morning:
        story = Morning(seed=seed, duration=0.0 if fast else duration, port=port)
        story.config_file, story.plugin_dirs = config or "", plugin_dirs
        return story

    _run(make, log_file, serve=serve)


@command.command(
    "zone-stockout",
    help=_ZONE_STOCKOUT_HELP,
    short_help="A zone is sold out; strict spreading gives way.",
)
@click.option(
    "--speed",
    type=click.FloatRange(1, 60),
    default=5.0,
    show_default=True,
    metavar="FACTOR",
    help="Seconds of the cluster's clock in a real one.",
)
@click.option(
    "--autoscaler",
    "flavor",
    type=click.Choice(("cluster-autoscaler", "karpenter")),
    default="cluster-autoscaler",
    show_default=True,
    help="The autoscaler to imitate.",
)
@_serve_option
@_port_option
@_log_file_option
def zone_stockout(
    *, speed: float, flavor: Flavor, serve: bool, port: int, log_file: Path | None
) -> None:
    """Run the story and exit with its status."""
    from simulator.demos.zone_stockout.story import ZoneStockout

    _run(lambda: ZoneStockout(speed=speed, flavor=flavor, port=port), log_file, serve=serve)


@command.command(
    "gpu-queue",
    help=_GPU_QUEUE_HELP,
    short_help="Ten GPU jobs, eight GPUs of quota: two wait.",
)
@_serve_option
@_port_option
@_log_file_option
def gpu_queue(*, serve: bool, port: int, log_file: Path | None) -> None:
    """Run the story and exit with its status."""
    from simulator.demos.gpu_queue.story import GpuQueue

    _run(lambda: GpuQueue(port=port), log_file, serve=serve)


@command.command(
    "gang",
    help=_GANG_HELP,
    short_help="Pods that start together, or not at all.",
)
@_serve_option
@_port_option
@_log_file_option
def gang(*, serve: bool, port: int, log_file: Path | None) -> None:
    """Run the story and exit with its status."""
    from simulator.demos.gang.story import Gangs

    _run(lambda: Gangs(port=port), log_file, serve=serve)


def _refuse_options_before(ctx: click.Context) -> None:
    """Reject options that stand before a story: they would have no effect."""
    for name in ctx.params:
        if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            flag = f"--{name.replace('_', '-')}"
            ctx.fail(f"{flag} stands before {ctx.invoked_subcommand}: write options behind it")


def _run(make: Callable[[], Story], log_file: Path | None, *, serve: bool) -> NoReturn:
    """Run a story in a temporary folder and exit with its status.

    The scheduler's log goes to a file, because only the story may write to the terminal.

    Raises:
        click.ClickException: the story failed; the message has the last lines of the log.
    """
    import uvloop
    from rich.console import Console

    from scheduler.framework import ConfigurationError
    from scheduler.process import logs
    from simulator.demos.runner import run
    from simulator.demos.scheduling import DemoError

    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kubestow-demo-")))
        log = log_file or folder / "scheduler.log"
        try:
            stream = stack.enter_context(log.open("w", encoding="utf-8"))
        except OSError as error:
            raise click.ClickException(f"--log-file {log}: {error.strerror}") from error
        logs.configure("text", stream=stream)
        errors: list[str] = []
        ended = False
        try:
            ended = uvloop.run(run(make(), Console(), folder, serve=serve))
        except* (DemoError, ConfigurationError) as failures:
            errors = [str(failure) for failure in _leaves(failures)]
        if errors:
            stream.flush()
            raise click.ClickException(_failure(errors, log))
    sys.exit(0 if ended else EXIT_INTERRUPTED)


def _failure(errors: list[str], log: Path) -> str:
    """Return the errors, shortened, and the last warnings and errors of the log."""
    lines = [line for error in errors for line in error.splitlines()]
    if len(lines) > _MAX_ERRORS:
        lines[_MAX_ERRORS:] = [f"… and {len(lines) - _MAX_ERRORS} more"]
    logged = log.read_text(encoding="utf-8").splitlines()
    tail = [line for line in logged if "[info " not in line][-_LOG_TAIL:]
    if tail:
        lines += ["the scheduler logged:", *tail]
    return "\n  ".join(["the demo failed:", *lines])


def _leaves(group: BaseExceptionGroup[Exception]) -> list[Exception]:
    found: list[Exception] = []
    for error in group.exceptions:
        found += _leaves(error) if isinstance(error, BaseExceptionGroup) else [error]
    return found
