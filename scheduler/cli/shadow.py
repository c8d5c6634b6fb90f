"""`kubestow shadow`: decide beside the scheduler in force, send nothing, and compare."""

from __future__ import annotations

import errno
import re
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from scheduler.cli import exit_codes
from scheduler.cli.cluster import SelectedCluster, cluster_options
from scheduler.cli.exit_codes import CommandError
from scheduler.cli.modes import ModalCommand
from scheduler.cli.stopping import Stop

if TYPE_CHECKING:
    from scheduler.cli.shadow_following import Asked, End
    from scheduler.explain.records.shadow import ShadowSummary
    from scheduler.offline.assertions import Assertion

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
3 an assertion does not hold; 5 the API server cannot be reached, or was silent at the end;
6 rights are missing;
10 no pod has the scheduler name; 11 nothing happened that could be compared;
130 stopped by a second signal.

\b
Examples:
  kubestow shadow --for 10m
  kubestow shadow --config new-profile.yaml --for 1h -o json > compared.json
  kubestow shadow --of kubestow --config canary.yaml --for 30m --assert 'agreement >= 99'
"""

_UNITS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


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
def command(ctx: click.Context, /, *, cluster: SelectedCluster, **values: Any) -> None:
    """Follow the cluster, then report."""
    import uvloop

    from scheduler.cli.shadow_following import Asked, follow
    from scheduler.cli.simulation_output import check_writable
    from scheduler.explain.records.shadow_wording import figures
    from scheduler.process.garbage_collection import collect_seldom

    collect_seldom()
    report_file, texts = values.pop("report_file"), values.pop("assertions")
    if report_file:
        check_writable(report_file, "--report")
    duration, address = values.pop("duration"), values.pop("listen")
    asked = Asked(
        **values,
        seconds=None if duration is None else _seconds(duration),
        address=None if address is None else _address(address),
        assertions=_parsed(texts),
        cluster=cluster,
    )
    with Stop() as stop:
        end = uvloop.run(follow(asked, stop))
        known = figures(end.summary)
        failed = [each.text for each in asked.assertions if not each.holds(known)]
        # Before anything is printed: a reader such as `head` may have had enough.
        if report_file:
            _write_report(report_file, end.whole, asked, ctx, failed)
        _answer(end, asked.output)
    for text in failed:
        click.echo(f"does not hold: {text}", err=True)
    if failed:
        sys.exit(exit_codes.DOES_NOT_FIT)
    check_compared(end)


def _answer(end: End, output: str) -> None:
    """Print the summary. Raises BrokenPipeError if nobody reads it, CommandError if it fails."""
    try:
        _print(end.summary, output)
        if end.unprinted is not None:
            raise end.unprinted
    except OSError as error:
        if error.errno == errno.EPIPE:
            raise
        raise CommandError(f"standard output: {error.strerror}") from error


def _print(summary: ShadowSummary, output: str) -> None:
    from scheduler.cli.shadow_following import as_line
    from scheduler.cli.shadow_report import report
    from scheduler.cli.tables import say, wide_console

    if output == "table":
        console = wide_console()
        for line in report(summary):
            text = line.lstrip()
            say(console, text, indent=len(line) - len(text))
    else:
        click.echo(as_line(summary))


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


def check_compared(end: End) -> None:
    """Raise CommandError if nothing was compared, or not until the end."""
    from scheduler.cli.shadow_following import named, not_permitted
    from scheduler.explain.records.shadow_wording import silence

    summary = end.summary
    if end.missing is not None:
        raise not_permitted(end.missing)
    if summary.silent:
        why = f": {summary.silent_error}" if summary.silent_error else ""
        raise CommandError(f"{silence(summary)}{why}", exit_codes.UNREACHABLE)
    waiting = summary.waiting_both + summary.waiting_there + summary.waiting_here
    if summary.judged or summary.gone or waiting:
        return
    names = " or ".join(summary.names)
    if not summary.pods:
        raise CommandError(
            f"no pod has schedulerName {names}{named(end.others)}", exit_codes.NO_SUCH_SCHEDULER
        )
    raise CommandError(
        f"nothing happened that could be compared: no pod of {names} was placed, and none waits",
        exit_codes.NOTHING_HAPPENED,
    )


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
