"""`kubestow shadow`: decide beside the scheduler in force, send nothing, and compare."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from scheduler.cli import exit_codes
from scheduler.cli.cluster import Cluster, cluster_options
from scheduler.cli.exit_codes import CommandError
from scheduler.cli.modes import ModalCommand

if TYPE_CHECKING:
    from scheduler.explain.records.shadow import ShadowSummary
    from scheduler.offline.assertions import Assertion
    from scheduler.offline.happenings import Happenings
    from scheduler.shadow.wiring import ShadowWiring

HELP: Final = """\
Decide the pods of the scheduler in force beside it, send nothing, and compare.

It follows the cluster as a scheduler does and decides the same pods at the same moments, with
queue, backoff, preemption and all. It needs the rights to get, list and watch alone
(`kubestow config rbac --shadow`); nothing that writes is built. Each pod that the other scheduler
binds is judged: the same node, an equal total, another node and the plugin to which that is due, a
node that does not fit here, or a pod that would have waited. Pods that wait are compared by their
reasons.

Without --config the default profile decides. A profile named as one of --of serves for its pods,
and the only profile of a file for all. Ctrl-C ends it early, with the summary; a second Ctrl-C ends
it at once.

\b
Exit codes: 0 compared; 1 another error; 2 wrong options or configuration;
3 an assertion does not hold; 5 the API server cannot be reached; 6 rights are missing;
10 no pod has the scheduler name; 11 nothing happened that could be compared;
130 stopped by a second signal.

\b
Examples:
  kubestow shadow --for 10m
  kubestow shadow --config new-profile.yaml --for 1h -o json > compared.json
  kubestow shadow --of kubestow --config canary.yaml --for 30m --assert 'agreement >= 99'
"""

_UNITS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
LIVE_SECONDS: Final = 1.0
ROWS: Final = 20
REPORT_ROWS: Final = 500
MAX_NAMES: Final = 5
EXIT_FORCED: Final = 130


def _checked(read: Callable[[str], object]) -> Callable[..., str | None]:
    """Return a callback that refuses what `read` does; the text stays, for the report."""

    def check(_: click.Context, __: click.Parameter, text: str | None) -> str | None:
        if text is not None:
            read(text)
        return text

    return check


def _seconds(text: str) -> float:
    """Read a duration. Raises click.BadParameter."""
    matched = re.fullmatch(r"(\d{1,7})([smhd]?)", text)
    seconds = int(matched[1]) * _UNITS[matched[2]] if matched else 0
    if not seconds:
        raise click.BadParameter(f"{text!r}: write 30s, 10m, 2h or 1d")
    return float(seconds)


def _address(text: str) -> tuple[str, int]:
    """Read an address. Raises click.BadParameter."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or not 0 <= int(port) < 1 << 16:
        raise click.BadParameter(f"{text!r}: write 127.0.0.1:8080, or :8080 for all addresses")
    return host.strip("[]") or "0.0.0.0", int(port)  # noqa: S104 - as asked


@dataclass(frozen=True, slots=True)
class Asked:
    """The options."""

    config: str
    plugin_dirs: tuple[str, ...]
    feature_gates: tuple[str, ...]
    names: tuple[str, ...]
    duration: str | None
    output: str
    assertions: tuple[Assertion, ...]
    counterfactual: bool
    listen: str | None
    cluster: Cluster

    @property
    def seconds(self) -> float | None:
        """Seconds to follow; None: until it is stopped."""
        return None if self.duration is None else _seconds(self.duration)

    @property
    def address(self) -> tuple[str, int] | None:
        """The address to serve at."""
        return None if self.listen is None else _address(self.listen)


@click.command(
    "shadow",
    cls=ModalCommand,
    help=HELP,
    short_help="Compare with the scheduler in force, read-only.",
)
@click.option("--config", metavar="FILE", default="", help="The configuration that decides.")
@click.option(
    "--plugin-dir",
    "plugin_dirs",
    multiple=True,
    metavar="DIR",
    help="Folder with plugins the file names as module:Class. May be repeated.",
)
@click.option(
    "--feature-gates", multiple=True, metavar="NAME=BOOL,...", help="As for `kubestow run`."
)
@click.option(
    "--of",
    "names",
    multiple=True,
    metavar="NAME",
    default=("default-scheduler",),
    show_default=True,
    help="Scheduler name of the pods to follow. May be repeated.",
)
@click.option(
    "--for",
    "duration",
    callback=_checked(_seconds),
    metavar="DURATION",
    help="How long to follow, such as 30s, 10m or 1h. Default: until Ctrl-C.",
)
@click.option(
    "--output",
    "-o",
    type=click.Choice(["table", "json", "jsonl"]),
    default="table",
    show_default=True,
    help="How to print; jsonl has each judgement as it is made, and the summary last.",
)
@click.option(
    "--counterfactual",
    is_flag=True,
    help="Simulate at the end what would have become of the pods, with the same arrivals, run "
    "times and nodes.",
)
@click.option(
    "--report",
    "report_file",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Write an HTML page, too, that begins with the answer.",
)
@click.option(
    "--listen",
    callback=_checked(_address),
    metavar="ADDRESS:PORT",
    help="Serve /metrics and /healthz by HTTP there, and /debug/shadow to this machine alone.",
)
@click.option(
    "--assert",
    "assertions",
    multiple=True,
    metavar="EXPRESSION",
    help="What must hold at the end, such as 'agreement >= 99.5 and would_not_fit == 0'. May be "
    "repeated.",
)
@cluster_options
@click.pass_context
def command(ctx: click.Context, /, *, cluster: Cluster, **values: Any) -> None:
    """Follow the cluster, then report."""
    import uvloop

    from scheduler.cli.simulation_output import check_writable
    from scheduler.explain.records.shadow_wording import figures
    from scheduler.service.garbage_collection import collect_seldom

    collect_seldom()
    report_file, texts = values.pop("report_file"), values.pop("assertions")
    if report_file:
        check_writable(report_file, "--report")
    asked = Asked(**values, assertions=_parsed(texts), cluster=cluster)
    end = uvloop.run(_follow(asked))
    _print(end.summary, asked.output)
    known = figures(end.summary)
    failed = [each.text for each in asked.assertions if not each.holds(known)]
    if report_file:
        _write_report(report_file, end.whole, asked, ctx, failed)
    for text in failed:
        click.echo(f"does not hold: {text}", err=True)
    if failed:
        sys.exit(exit_codes.DOES_NOT_FIT)
    _check_compared(end.summary, end.others)


def _print(summary: ShadowSummary, output: str) -> None:
    from scheduler.cli.shadow_report import report

    if output == "table":
        for line in report(summary):
            click.echo(line)
    else:
        click.echo(_json(summary))


def _write_report(
    path: str, summary: ShadowSummary, asked: Asked, ctx: click.Context, failed: list[str]
) -> None:
    """Write the page. Raises CommandError."""
    import shlex

    from scheduler.cli.simulate import given
    from scheduler.cli.simulation_output import write_whole
    from scheduler.files import read_file
    from scheduler.shadow.report import report

    text = read_file(asked.config).decode(errors="replace") if asked.config else ""
    write_whole(
        path, report(summary, text, shlex.join(["kubestow", "shadow", *given(ctx)]), failed)
    )


def _check_compared(summary: ShadowSummary, others: Sequence[str]) -> None:
    """Raise CommandError if there was nothing to compare."""
    waiting = summary.waiting_both + summary.waiting_there + summary.waiting_here
    if summary.judged or summary.gone or waiting:
        return
    names = " or ".join(summary.names)
    if not summary.pods:
        raise CommandError(
            f"no pod has schedulerName {names}{_others(others)}", exit_codes.NO_SUCH_SCHEDULER
        )
    raise CommandError(
        f"nothing happened that could be compared: no pod of {names} was placed, and none waits",
        exit_codes.NOTHING_HAPPENED,
    )


def _others(names: Sequence[str]) -> str:
    return f"; pods have {', '.join(names)}" if names else ""


def _parsed(texts: Sequence[str]) -> tuple[Assertion, ...]:
    """Read assertions. Raises click.BadParameter."""
    if not texts:
        return ()
    from scheduler.explain.records.shadow import ShadowSummary
    from scheduler.explain.records.shadow_wording import figures
    from scheduler.offline.assertions import Assertion, AssertionSyntaxError

    known = figures(ShadowSummary(began=0.0, now=0.0, names=(), judged=0, verdicts={}))
    try:
        found = tuple(map(Assertion.parse, texts))
        for each in found:
            each.check(known)
    except AssertionSyntaxError as error:
        raise click.BadParameter(str(error), param_hint="'--assert'") from error
    return found


# -- following -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class End:
    """The outcome at the end."""

    summary: ShadowSummary
    #: The same with more rows.
    whole: ShadowSummary
    #: Other scheduler names that pods have.
    others: list[str]


class _Stop:
    """SIGINT and SIGTERM: the first ends the comparison, another one the process."""

    def __init__(self) -> None:
        self.event = asyncio.Event()
        #: Set once there is something to report at the end.
        self.following = False
        self._task = asyncio.current_task()
        for number in (signal.SIGINT, signal.SIGTERM):
            with suppress(NotImplementedError):
                asyncio.get_running_loop().add_signal_handler(number, self)

    def __call__(self) -> None:
        if self.event.is_set():
            # A replay runs in a thread, which the interpreter would wait for.
            os._exit(EXIT_FORCED)
        self.event.set()
        if not self.following and self._task is not None:
            self._task.cancel()


async def _follow(asked: Asked) -> End:
    """Follow the cluster until the end."""
    from scheduler.client.configuration import load_configuration
    from scheduler.client.errors import ConfigurationError as ClientConfigurationError
    from scheduler.client.read_only import ReadOnlyTransport
    from scheduler.framework.status import ConfigurationError
    from scheduler.service.garbage_collection import keep_what_exists
    from scheduler.service.serving.certificates import ServingError
    from scheduler.shadow.running import NotPermittedError, UnreachableError, following
    from scheduler.shadow.serving import served

    stop = _Stop()
    try:
        configuration, registry = _configuration(asked)
        kubeconfig = asked.cluster.kubeconfig
        named = configuration.effective.client_connection.kubeconfig
        found = await load_configuration(
            kubeconfig=kubeconfig or named or None, context=asked.cluster.context or None
        )
        async with ReadOnlyTransport(found) as transport:
            wiring = _wired(configuration, registry, transport)
            async with served(asked.address, wiring), following(wiring):
                stop.following = True
                keep_what_exists()
                happenings = _kept(wiring) if asked.counterfactual else None
                await _watch(asked, wiring, stop.event)
                wiring.follower.doubts.settle()
                end = End(wiring.summary(ROWS), wiring.summary(REPORT_ROWS), _other_names(wiring))
        return await _replayed(end, happenings, configuration, registry)
    except asyncio.CancelledError:
        if not stop.event.is_set():
            raise
        raise CommandError(
            "stopped before the first lists had arrived: nothing was compared",
            exit_codes.NOTHING_HAPPENED,
        ) from None
    except ConfigurationError as error:
        raise CommandError(str(error), exit_codes.BAD_INPUT) from error
    except ClientConfigurationError as error:
        raise CommandError(str(error), exit_codes.UNREACHABLE) from error
    except UnreachableError as error:
        raise CommandError(str(error), exit_codes.UNREACHABLE) from error
    except ServingError as error:
        raise CommandError(f"--listen: {error}") from error
    except NotPermittedError as error:
        raise CommandError(
            f"{error}\n`kubestow config rbac --shadow` prints all rules", exit_codes.NOT_PERMITTED
        ) from error


def _kept(wiring: ShadowWiring) -> Happenings:
    """Keep what happens from now on."""
    from scheduler.offline.happenings import Happenings

    happenings = Happenings(wiring.tally.names)
    wiring.keep(happenings)
    return happenings


async def _replayed(
    end: End, happenings: Happenings | None, configuration: Any, registry: Any
) -> End:
    """Return the outcome with that of a replay, if there is something to replay."""
    if happenings is None:
        return end
    from dataclasses import replace

    import msgspec

    from scheduler.offline.counterfactual import replay

    click.echo("simulating what would have become of the pods", err=True)
    now = end.summary.now
    # In a thread, since a world has an event loop of its own.
    found = await asyncio.to_thread(replay, happenings, configuration, registry, now)
    return replace(
        end,
        summary=msgspec.structs.replace(end.summary, counterfactual=found),
        whole=msgspec.structs.replace(end.whole, counterfactual=found),
    )


def _configuration(asked: Asked) -> tuple[Any, Any]:
    """Read the configuration. Raises ConfigurationError."""
    from config import FeatureGates
    from scheduler.cli.run import split_feature_gates
    from scheduler.service import logs
    from scheduler.service.options import RunOptions, available_plugins, read_configuration
    from scheduler.shadow.profiles import following

    logs.configure(verbosity=logs.WARNINGS)
    registry = available_plugins()
    gates, foreign = split_feature_gates(asked.feature_gates)
    for name in foreign:
        click.echo(f"warning: feature gate {name} has no effect on scheduling", err=True)
    options = RunOptions(
        config_file=asked.config,
        replace_default_scheduler=True,
        plugin_dirs=asked.plugin_dirs,
        feature_gates=FeatureGates.parse(gates),
    )
    return following(read_configuration(options, registry), asked.names), registry


def _wired(configuration: Any, registry: Any, transport: Any) -> ShadowWiring:
    from scheduler.metrics import SchedulerMetrics
    from scheduler.shadow.wiring import wire

    return wire(configuration, registry, transport, metrics=SchedulerMetrics())


def _other_names(wiring: ShadowWiring) -> list[str]:
    """Return the most frequent scheduler names of pods that are not followed."""
    from collections import Counter

    pods = wiring.state.listers.stores["pods"].list()
    counts = Counter(each.spec.scheduler_name[:80] for each in pods)
    followed = wiring.tally.names
    found = (name for name, _ in counts.most_common(MAX_NAMES + len(followed)))
    return [name for name in found if name not in followed][:MAX_NAMES]


async def _watch(asked: Asked, wiring: ShadowWiring, stop: asyncio.Event) -> None:
    """Follow until the end, and show what happens meanwhile."""
    from scheduler.shadow.running import until

    if asked.output == "jsonl":
        wiring.tally.listeners.append(lambda judged: click.echo(_json(judged)))
    click.echo(_begin(wiring), err=True)
    with ExitStack() as stack:
        show = None
        if asked.output == "table" and sys.stdout.isatty():
            show = stack.enter_context(_screen())

        async def look() -> None:
            if show is not None:
                show(wiring.summary(ROWS))

        await look()
        await until(stop, asked.seconds, LIVE_SECONDS, look)


def _begin(wiring: ShadowWiring) -> str:
    """Return a line about what is followed."""
    from scheduler.explain.records.wording import counted

    names, pods = " and ".join(wiring.tally.names), sum(1 for _ in wiring.pods())
    size = f"{counted(wiring.state.cache.table.node_count, 'node')}, {counted(pods, 'pod')}"
    if pods:
        return f"following {names}: {size}"
    return f"following {names}, which no pod has yet{_others(_other_names(wiring))}"


def _screen() -> Any:
    from contextlib import contextmanager

    from rich.console import Console, Group
    from rich.live import Live

    from scheduler.cli.shadow_report import draw

    @contextmanager
    def opened() -> Iterator[Any]:
        console = Console(highlight=False)
        with Live(console=console, screen=True, auto_refresh=False) as live:

            def show(summary: ShadowSummary) -> None:
                size = console.size
                live.update(Group(*draw(summary, size.width)[: size.height]), refresh=True)

            yield show

    return opened()


def _json(record: Any) -> str:
    """Return a record on one line."""
    import msgspec

    from scheduler.sanitizing.escaping import escaped_json

    return escaped_json(msgspec.json.encode(record)).decode()
