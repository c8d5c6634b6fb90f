"""`python -m benchmarks`: run workloads for several schedulers in turn and compare them."""

from __future__ import annotations

import platform
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import click
import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from benchmarks.measure import Run, run
from benchmarks.report import Report, line, other_measures, report, table, worse
from benchmarks.schedulers import OURS, SCHEDULERS
from benchmarks.workloads import QUICK, SIZES, WORKLOADS, Operations
from devtools.control_plane.binaries import Binaries, BinariesMissingError
from scheduler.cli.version import version_text

ROOT: Final = Path(__file__).parents[1]


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option(
    "--workload", "names", multiple=True, metavar="NAME", help="Which to run.  [default: all]"
)
@click.option("--quick", is_flag=True, help="The workloads and sizes of `make bench-quick`.")
@click.option(
    "--contender",
    "labels",
    multiple=True,
    type=click.Choice(sorted(SCHEDULERS)),
    default=("kubestow", "kube-scheduler"),
    help="Which schedulers to run, alternating.",
)
@click.option("--size", type=click.Choice(SIZES), help="Which size.  [default: machine]")
@click.option(
    "--set", "changes", multiple=True, metavar="NAME=N", help="Other value of a size's parameter."
)
@click.option("--rounds", default=1, help="How often to run each.")
@click.option(
    "--backlog", is_flag=True, help="Stop the scheduler while the measured pods are created."
)
@click.option("--json", "output", type=click.Path(path_type=Path), help="Write everything here.")
@click.option("--list", "listing", is_flag=True, help="List the workloads and their sizes.")
def main(  # noqa: PLR0913, PLR0917 - options
    names: tuple[str, ...],
    quick: bool,
    labels: tuple[str, ...],
    size: str | None,
    changes: tuple[str, ...],
    rounds: int,
    backlog: bool,
    output: Path | None,
    listing: bool,
) -> None:
    """Measure schedulers side by side on a real etcd and kube-apiserver.

    Needs the binaries of `make envtest-build`. Each run has a fresh control plane, the scheduler as
    a process of its own and a load generator in another. Ratios are against the fastest line of
    kube-scheduler, and refused where a run lost a pod, bound one twice or overfilled a node.

    \b
    Examples:
      python -m benchmarks --workload SchedulingBasic --rounds 3
      python -m benchmarks --quick --json quick.json
      python -m benchmarks --workload TopologySpreading --set nodes=2000 --set pods=500 --backlog
    """  # noqa: D301 - click wants the character itself
    # Output into a file or a pipe has no width of its own: take one that fits the whole table.
    console = Console(width=None if sys.stdout.isatty() else 240)
    if listing:
        console.print(_listing())
        return
    size = size or ("quick" if quick else "machine")
    wanted = _wanted(names or (QUICK if quick else tuple(WORKLOADS)), backlog=backlog)
    parameters = _changes(changes)
    plans = {name: _plan(name, size, parameters) for name in wanted}
    _check_binaries(labels)
    planned = list(_planned(wanted, labels, rounds))
    runs: list[Run] = []
    failed: dict[str, str] = {}
    versions = _versions()
    with _progress(console) as progress:
        task = progress.add_task("", total=len(planned))
        for name, label in planned:
            progress.update(task, description=f"{name}: {label}")
            try:
                measured = run(
                    name,
                    size,
                    plans[name],
                    SCHEDULERS[label],
                    WORKLOADS[name],
                    backlog=backlog,
                )
                runs.append(measured)
                outcome = line(runs[-1])
            # One run of hundreds: keep the others; this workload gets no ratio.
            except Exception as error:  # noqa: BLE001 - of whatever kind
                failed[name] = f"a run of {label} failed: {error}"
                outcome = f"{name} {size}, {label}: {error}"
            progress.advance(task)
            progress.console.print(outcome, highlight=False, soft_wrap=True)
            _save(output, report(runs, versions, failed))
    _print_summary(console, report(runs, versions, failed))


def _planned(
    workloads: Sequence[str], labels: tuple[str, ...], rounds: int
) -> Iterator[tuple[str, str]]:
    """Yield workload and scheduler of each run.

    The first scheduler changes from one workload to the next, because the speed of machines drifts.
    """
    for number in range(rounds):
        for index, name in enumerate(workloads):
            first = (number + index) % len(labels)
            for label in labels[first:] + labels[:first]:
                yield name, label


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )


def _print_summary(console: Console, found: Report) -> None:
    console.print(table(found, console.width))
    for text in other_measures(found.ratios):
        console.print(text, highlight=False, soft_wrap=True)
    for text in worse(found.ratios):
        console.print(text, style="yellow", highlight=False, soft_wrap=True)
    for workload, reason in found.refused.items():
        console.print(f"no ratio for {workload}: {reason}", style="bold red", highlight=False)
    console.print(found.summary, highlight=False, soft_wrap=True)


def _save(output: Path | None, found: Report) -> None:
    """Write the results so far: all runs together take hours."""
    if output is not None:
        output.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n")


def _wanted(names: tuple[str, ...], *, backlog: bool) -> list[str]:
    unknown = [name for name in names if name not in WORKLOADS]
    if unknown:
        raise click.UsageError(f"no workload {unknown[0]!r}; `--list` shows all")
    return [name for name in names if WORKLOADS[name].backlog or not backlog]


def _check_binaries(labels: Sequence[str]) -> None:
    """Refuse missing programs before the first run."""
    try:
        found = Binaries.find()
        for program in {SCHEDULERS[label].program for label in labels} - {OURS}:
            found.require(program)
    except BinariesMissingError as error:
        raise click.ClickException(str(error)) from None


def _changes(texts: tuple[str, ...]) -> dict[str, int]:
    found = {}
    for text in texts:
        name, _, value = text.partition("=")
        if not name or not value.isdecimal():
            raise click.UsageError(f"--set {text}: write NAME=N, e.g. nodes=1000")
        found[name] = int(value)
    return found


def _plan(name: str, size: str, changes: dict[str, int]) -> Operations:
    try:
        return WORKLOADS[name].plan(size, changes)
    except KeyError as error:
        known = ", ".join(WORKLOADS[name].sizes[size])
        raise click.UsageError(f"--set: {name} has no {error}; it has {known}") from None


def _listing() -> Table:
    view = Table("workload", "exercises", *SIZES, title="workloads of upstream's scheduler_perf")
    for name, workload in WORKLOADS.items():
        sizes = [
            ", ".join(f"{key} {value}" for key, value in workload.sizes[size].items())
            for size in SIZES
        ]
        view.add_row(name, workload.exercises, *sizes)
    return view


def _versions() -> dict[str, str]:
    found = {"kubestow": version_text("kubestow"), "python": platform.python_version()}
    found["commit"] = _output_of("git", "-C", str(ROOT), "describe", "--always", "--dirty")
    found["kube-scheduler"] = _output_of(str(Binaries.find().kube_scheduler), "--version")
    return found


def _output_of(*command: str) -> str:
    """Return the output of a command; empty when it fails."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


if __name__ == "__main__":
    main()
