"""The report of `kubestow plugin check`, for people."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

import click

from scheduler.cli.tables import printable
from scheduler.explain.records.wording import counted
from scheduler.testing.examination import PluginReport

_POD: Final = re.compile(r"\bpod [\w./-]+(?=: )")


def show_report(report: PluginReport) -> None:
    """Print what was tried, how long it took, and every problem."""
    click.secho(f"{printable(report.name)}: {', '.join(report.points)}", bold=True)
    click.echo(
        f"  {report.clusters} clusters, {report.changes} changes; {report.accepted} times "
        f"accepted, {report.rejected} times rejected, {report.woken} pods woken by events"
    )
    for speed in report.speeds:
        click.echo(f"  {speed.method:<12} {speed.microseconds:8.3f} µs a node")
    for note in report.notes():
        click.secho(f"  note: {note}", fg="yellow")
    for problem in _once(report.problems):
        click.secho(f"  - {printable(problem)}", fg="red")
    if not report.problems:
        click.secho("  no fault was found", fg="green")


def _once(problems: Iterable[str]) -> Iterator[str]:
    """Yield problems; what many pods have in common once."""
    alike = Counter(_POD.sub("pod", each) for each in problems)
    for each in problems:
        others = alike.pop(_POD.sub("pod", each), 0) - 1
        if others >= 0:
            yield each if not others else f"{each} (and {counted(others, 'other pod')})"
