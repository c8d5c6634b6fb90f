"""`python -m benchmarks.paper TRACES`: run what is not finished yet; print and draw it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import click
from rich.console import Console

from benchmarks.paper import experiment, report, traces
from scheduler.offline import WorldError
from simulator import sweeps

SOURCES: Final = Path(__file__).parents[2]
FOLDERS: Final = (
    "config",
    "examples/gpu_sharing",
    "benchmarks/paper",
    "plugins",
    "scheduler",
    "simulator",
)
"""What results depend on beside the trace; those of other versions are not reused."""


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.argument("folder", type=click.Path(path_type=Path), metavar="TRACES")
@click.option("--seeds", default="", help="Such as 42,47. Default: all that have orders.")
@click.option(
    "--policies",
    default=",".join(experiment.POLICIES),
    help=f"Further ones: {', '.join(experiment.OTHERS)}.",
)
@click.option("--traces", "chosen", default="", help="Default: all that have orders.")
@click.option(
    "--results",
    default=Path("build/paper"),
    type=click.Path(path_type=Path),
    help="Folder for results, table and plots; finished runs in it are not repeated.",
)
@click.option("--processes", default=None, type=int, help="Default: one for each core.")
@click.option("--dask", default="", help="Address of a Dask scheduler instead, tcp://HOST:PORT.")
def main(
    folder: Path, seeds: str, policies: str, chosen: str, results: Path,
    processes: int | None, dask: str,
) -> None:  # fmt: skip
    """Repeat the experiments of the FGD paper with the traces in a folder."""
    try:
        faults: list[str] = []
        published = traces.collected(faults, traces.published, folder) or {}
        runs, left_out = _runs(folder, seeds, policies, chosen, faults)
        version = sweeps.digest(*(SOURCES / each for each in FOLDERS))
        summary = sweeps.sweep(
            experiment.run, runs, results / "runs", processes=processes, dask=dask,
            version=version, console=Console(stderr=True),
        )  # fmt: skip
        outcomes = list(sweeps.read(results / "runs"))
    except (WorldError, sweeps.SweepError, OSError) as error:
        raise click.ClickException(str(error)) from error
    for each in outcomes:
        if each.error:
            click.echo(f"{each.run.name}: {each.error}", err=True)
    found = [_found(each) for each in outcomes if not each.error]
    lines = [*report.table(found, published), "", *report.compared(found, published), *left_out]
    lines += [f"Failed: {each}." for each in summary.failed]
    text = "\n".join(lines) + "\n"
    (results / "paper.md").write_text(text, encoding="utf-8")
    click.echo(text)
    plots = report.plot(found, published, results)
    if plots:
        click.echo(f"plots: {', '.join(map(str, plots))}")
    click.echo(report.summary(found, published))
    if summary.failed:
        raise click.ClickException(f"{len(summary.failed)} of {summary.total} runs failed")


def _found(outcome: sweeps.SweepOutcome) -> report.Found:
    given = outcome.run.parameters
    # JSON has null for a point of which no record is near.
    curves = {
        name: [math.nan if each is None else each for each in points]
        for name, points in outcome.result.items()
    }
    return report.Found(given["trace"], given["policy"], given["seed"], curves)


def _runs(
    folder: Path, seeds: str, policies: str, chosen: str, faults: list[str]
) -> tuple[list[sweeps.SweepRun], list[str]]:
    """Return the runs, and a line for each trace or seed that is left out.

    Raises:
        WorldError: something is unknown, or every fault of the files, `faults` among them.
    """
    there, absent = traces.files(folder)
    wanted = _among("policy", policies.split(","), [*experiment.POLICIES, *experiment.OTHERS])
    names = _among("trace", chosen.split(","), there) if chosen else list(there)
    left_out = [f"Left out: {name}, since {why}." for name, why in absent.items() if not chosen]
    read = {name: traces.collected(faults, traces.read, there[name]) for name in names}
    if faults:
        # Those of the node list are there once for each trace.
        raise WorldError("\n".join(dict.fromkeys(faults)))
    orders = {name: trace.orders for name, trace in read.items() if trace is not None}
    known = sorted({seed for each in orders.values() for seed in each})
    own = list(map(int, _among("seed", seeds.split(","), known))) if seeds else known
    found: list[sweeps.SweepRun] = []
    for name, trace in read.items():
        if trace is None or not any(each.gpus for each in trace.pods):
            left_out.append(f"Left out: {name}, since none of its pods requests a GPU.")
            continue
        missing = [str(seed) for seed in own if seed not in trace.orders]
        if missing:
            text = f"Left out: {name} with seed {', '.join(missing)}, of which it has no orders."
            left_out.append(text)
        given = {
            "folder": str(folder.resolve()),
            "trace": name,
            "input": sweeps.digest(there[name].nodes, there[name].pods, there[name].orders),
        }
        found += [
            sweeps.SweepRun(
                f"{name}-{policy.replace('/', '-')}-{seed}",
                {**given, "policy": policy, "seed": seed},
            )
            for policy in wanted
            for seed in own
            if seed in trace.orders
        ]
    if not found:
        raise WorldError("\n".join([f"{folder}: there is nothing to run", *left_out]))
    return found, left_out


def _among(what: str, names: list[str], known: Iterable[object]) -> list[str]:
    texts = [str(each) for each in known]
    for each in names:
        if each.strip() not in texts:
            raise WorldError(
                f"{what} {each.strip()!r:.80} is unknown; known are {', '.join(texts)}"
            )
    return list(dict.fromkeys(each.strip() for each in names))


if __name__ == "__main__":
    main()
