"""`kubestow simulate --sweep`: many runs, and a table of their figures for each workload."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from scheduler.cli.exit_codes import BAD_INPUT, OTHER_ERROR, CommandError
from scheduler.cli.pod_format import one_line
from scheduler.cli.simulation import show_figures
from scheduler.cli.tables import say, wide_console
from scheduler.pages.wording import counted

if TYPE_CHECKING:
    from rich.console import Console

    from simulator.sweeps import Outcome

MAX_ERRORS: Final = 10
"""Failed runs that are listed; the folder has all."""


def run(file: str, asked: Mapping[str, Any], *, as_json: bool) -> bool:
    """Run a sweep file, and print its figures; return whether every run finished."""
    from rich.console import Console

    from simulator import sweeps
    from simulator.offline.documents import document
    from simulator.sweeps.plan import read_plan, simulated

    try:
        plan = read_plan(file)
    except sweeps.SweepError as error:
        raise CommandError(_lines(error), BAD_INPUT) from error
    try:
        summary = sweeps.sweep(
            simulated,
            plan.runs,
            asked["results"],
            processes=asked["processes"],
            dask=asked["dask"],
            version=plan.version,
            console=Console(stderr=True),
        )
        outcomes = list(sweeps.read(asked["results"]))
    except sweeps.SweepError as error:
        raise CommandError(_lines(error), OTHER_ERROR) from error
    if as_json:
        for each in outcomes:
            line = {"name": each.run.name, "parameters": each.run.parameters}
            end = {"error": each.error} if each.error else {"result": each.result}
            click.echo(document("SweepRun", line | end))
    else:
        show(outcomes, wide_console())
        click.echo(f"{counted(summary.total, 'run')}, {summary.reused} of them from "
                   f"{one_line(asked['results'])}")  # fmt: skip
    return not summary.failed


def _lines(error: Exception) -> str:
    return "\n".join(one_line(line) for line in str(error).splitlines())


def show(outcomes: Iterable[Outcome], console: Console) -> None:
    """Print the figures of the policies, a table for each workload, and the runs that failed."""
    tables: dict[str, dict[str, dict[str, list[float]]]] = {}
    failed: list[Outcome] = []
    for each in outcomes:
        if each.error:
            failed.append(each)
            continue
        given = each.run.parameters
        table = tables.setdefault(str(given["workload"]), {})
        own = table.setdefault(str(given["policy"]), {})
        for figure, value in each.result.items():
            own.setdefault(figure, []).append(float(value))
    for workload, by_policy in tables.items():
        if workload:
            say(console, f"workload {one_line(workload)}:", "bold")
        show_figures(by_policy, console)
    for each in failed[:MAX_ERRORS]:
        say(console, f"{each.run.name} failed: {one_line(each.error)}", "red")
    if len(failed) > MAX_ERRORS:
        say(console, f"and {len(failed) - MAX_ERRORS} more")
