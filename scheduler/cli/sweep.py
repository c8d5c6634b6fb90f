"""`kubestow simulate --sweep`: many runs, and a table of their figures for each workload."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from scheduler.cli.exit_codes import BAD_INPUT, OTHER_ERROR, CommandError
from scheduler.cli.pod_format import one_line
from scheduler.cli.simulation_output import show_figures
from scheduler.cli.tables import say, wide_console
from scheduler.explain.records.wording import counted

if TYPE_CHECKING:
    from rich.console import Console

    from scheduler.offline.assertions import Check
    from scheduler.offline.experiment import SimulatedRun
    from simulator.sweeps import SweepOutcome

MAX_ERRORS: Final = 10
"""Failed runs that are listed; the folder has all."""


def run(file: str, asked: Mapping[str, Any], command: Sequence[str], *, as_json: bool) -> bool:
    """Run a sweep file, and print its figures; `command` repeats it.

    Returns whether every run finished and every assertion holds.
    """
    from rich.console import Console

    from scheduler.cli import simulation, simulation_output
    from simulator import sweeps
    from simulator.sweeps.plan import read_plan, simulated

    if asked["report"]:
        simulation_output.refuse_report_without_plots()
    assertions = simulation.parsed(asked["assertions"], pairs=False)
    try:
        plan = read_plan(file, asked["seeds"] and simulation.seeds_of(asked))
    except sweeps.SweepError as error:
        raise CommandError(_lines(error), BAD_INPUT) from error
    for text in plan.notes:
        click.echo(one_line(text), err=True)
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
    runs = [_simulated(each) for each in outcomes]
    checks = [tuple(simulation.checked(assertions, [each])) for each in runs]
    every = tuple(check for of_run in checks for check in of_run)
    if asked["report"]:
        answer = simulation_output.Answer(tuple(runs), (), every)
        simulation_output.write_report(asked["report"], answer, _configs(outcomes), command)
    if asked["junit"]:
        simulation_output.write_junit(asked["junit"], runs, every)
    if as_json:
        for outcome, of_run in zip(outcomes, checks, strict=True):
            _echo_json(outcome, of_run)
    else:
        console = wide_console()
        show(outcomes, console)
        simulation_output.show_assertions(every, console, named=True)
        click.echo(f"{counted(summary.total, 'run')}, {summary.reused} of them from "
                   f"{one_line(asked['results'])}")  # fmt: skip
    return not summary.failed and all(each.holds for each in every)


def _simulated(outcome: SweepOutcome) -> SimulatedRun:
    """Return a run with its figures; who went where is not kept in the results of a sweep."""
    from scheduler.offline.experiment import SimulatedRun
    from scheduler.offline.records import Result

    given = outcome.run.parameters
    name = ", ".join(filter(None, (str(given["policy"]), str(given["workload"]))))
    figures = {} if outcome.error else outcome.result
    nothing = Result(0.0, 0.0, (), ())
    return SimulatedRun(name, int(given["seed"]), figures, nothing, error=outcome.error)


def _configs(outcomes: Iterable[SweepOutcome]) -> dict[str, str | None]:
    given = [each.run.parameters for each in outcomes]
    return {str(each["policy"]): each["config"] for each in given}


def _echo_json(outcome: SweepOutcome, checks: Iterable[Check]) -> None:
    from scheduler.offline.documents import document

    line: dict[str, Any] = {"name": outcome.run.name, "parameters": outcome.run.parameters}
    line |= {"error": outcome.error} if outcome.error else {"result": outcome.result}
    line["assertions"] = [{"text": each.text, "holds": each.holds} for each in checks]
    click.echo(document("SweepRun", line))


def _lines(error: Exception) -> str:
    return "\n".join(one_line(line) for line in str(error).splitlines())


def show(outcomes: Iterable[SweepOutcome], console: Console) -> None:
    """Print the figures of the policies, a table for each workload, and the runs that failed."""
    tables: dict[str, dict[str, dict[str, list[float]]]] = {}
    failed: list[SweepOutcome] = []
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
