"""`python -m benchmarks.paper TRACES`: run what is not finished yet; print and draw it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

import click
from rich.console import Console

from benchmarks.paper import experiment, report, traces
from simulator import sweeps
from simulator.offline import WorldError

SOURCES = Path(__file__).parents[2]
FOLDERS = (
    "config",
    "examples/gpu_sharing",
    "benchmarks/paper",
    "plugins",
    "scheduler",
    "simulator",
)
"""What results depend on; those of other versions of these files are not reused."""


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
        published = traces.published(folder)
        runs = list(_runs(folder, seeds, policies, chosen))
        version = sweeps.digest(folder, *(SOURCES / each for each in FOLDERS))
        summary = sweeps.sweep(
            experiment.run, runs, results / "runs", processes=processes, dask=dask,
            version=version, console=Console(stderr=True),
        )  # fmt: skip
    except (WorldError, sweeps.SweepError, OSError) as error:
        raise click.ClickException(str(error)) from error
    wanted = {each.name for each in runs}
    outcomes = [each for each in sweeps.read(results / "runs") if each.run.name in wanted]
    for each in outcomes:
        if each.error:
            click.echo(f"{each.run.name}: {each.error}", err=True)
    found = [_found(each) for each in outcomes if not each.error]
    lines = report.table(found, published)
    (results / "paper.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    click.echo("\n".join(lines))
    if found:
        plots = report.plot(found, published, results)
        click.echo(f"plots: {', '.join(map(str, plots))}")
    click.echo(report.summary(found, published))
    if summary.failed:
        raise click.ClickException(f"failed: {', '.join(summary.failed)}")


def _found(outcome: sweeps.Outcome) -> report.Found:
    given = outcome.run.parameters
    # JSON has null for a point of which no record is near.
    curves = {
        name: [math.nan if each is None else each for each in points]
        for name, points in outcome.result.items()
    }
    return report.Found(given["trace"], given["policy"], given["seed"], curves)


def _runs(folder: Path, seeds: str, policies: str, chosen: str) -> list[sweeps.Run]:
    """Return the runs. Raises WorldError if a trace cannot be read or something is unknown."""
    there = traces.trace_names(folder)
    known = {**experiment.POLICIES, **experiment.OTHERS}
    wanted = _among("policy", policies.split(","), known)
    found = []
    for trace in _among("trace", chosen.split(",") if chosen else there, there):
        orders = [str(each) for each in sorted(traces.read(folder, trace).orders)]
        own = orders if not seeds else _among("seed", seeds.split(","), orders)
        found += [
            sweeps.Run(
                f"{trace}-{policy.replace('/', '-')}-{seed}",
                {
                    "folder": str(folder.resolve()),
                    "trace": trace,
                    "policy": policy,
                    "seed": int(seed),
                },
            )
            for policy in wanted
            for seed in own
        ]
    return found


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
