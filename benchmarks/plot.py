"""`python -m benchmarks.plot RESULT.json PLOT.svg`: throughput and CPU per pod of workloads."""

from __future__ import annotations

from pathlib import Path
from statistics import median

import click
import matplotlib as mpl
import msgspec
from matplotlib.figure import Figure

from benchmarks.report import Report, grouped
from benchmarks.schedulers import OURS

_COLOURS = {OURS: "#1b6ca8"}
_GREYS = ("#9a9a9a", "#c4c4c4", "#dddddd")


def draw(found: Report) -> Figure:
    """Bars, one group for each workload: pods a second on the left, CPU a pod on the right."""
    groups = grouped(found.runs)
    workloads = list(dict.fromkeys(name for name, _ in groups))
    labels = sorted({label for _, label in groups}, key=lambda label: (label != OURS, label))
    colours = _COLOURS | dict(zip(labels[1:], _GREYS, strict=False))
    figure = Figure(figsize=(12, 1.5 + 0.22 * len(labels) * len(workloads)), layout="constrained")
    rate, cpu = figure.subplots(1, 2, sharey=True)
    height = 0.8 / len(labels)
    for position, label in enumerate(labels):
        rows, rates, costs = [], [], []
        for index, workload in enumerate(workloads):
            if runs := groups.get((workload, label)):
                rows.append(index + (position - (len(labels) - 1) / 2) * height)
                rates.append(median(run.pods_per_second for run in runs))
                costs.append(median(run.drained_cpu_per_pod for run in runs) * 1000)
        rate.barh(rows, rates, height, label=label, color=colours[label])
        cpu.barh(rows, costs, height, color=colours[label])
    rate.set_yticks(range(len(workloads)), workloads)
    rate.margins(y=0.01)
    rate.invert_yaxis()
    rate.set_xlabel("pods a second (more is better)")
    cpu.set_xlabel("milliseconds of CPU a pod (less is better)")
    for axes in (rate, cpu):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="x", alpha=0.3)
    figure.legend(loc="outside upper center", ncols=len(labels))
    figure.supxlabel(f"{found.date}, {found.machine}", fontsize="small")
    return figure


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("result", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("plot", type=click.Path(dir_okay=False, path_type=Path))
def main(result: Path, plot: Path) -> None:
    """Draw PLOT (.svg or .png) from the JSON that `python -m benchmarks --json` wrote."""
    # The same file from the same figures: no date and no random identifiers inside.
    mpl.rcParams["svg.hashsalt"] = "kubestow"
    found = msgspec.json.decode(result.read_bytes(), type=Report)
    metadata = {"Date": None} if plot.suffix == ".svg" else {}
    draw(found).savefig(plot, metadata=metadata)


if __name__ == "__main__":
    main()
