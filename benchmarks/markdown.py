"""`python -m benchmarks.markdown RESULT.json`: the table of docs/performance.md."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

import click
import msgspec

from benchmarks.measure import Run
from benchmarks.report import Report, all_cpu, busy_cores, grouped, other_measures, own_share
from benchmarks.schedulers import OURS

_RATE: Callable[[Run], float] = lambda run: run.pods_per_second  # noqa: E731 - one of a list


def rows(found: Report) -> list[list[str]]:
    """Heading and one row for each workload that has a ratio, the largest ratio first.

    Latency, CPU and memory of kube-scheduler are those of its fastest setting.
    """
    groups = grouped(found.runs)
    rivals = sorted({label for _, label in groups} - {OURS})
    heading = ["workload", "nodes", f"{OURS} pods/s", *rivals, "ratio", "to the last Event"]
    heading += ["by CPU of all", "CPU of all ms/pod"]
    heading += ["p99 s", "CPU ms/pod", "MiB"]
    heading += ["cores busy", f"{OURS}'s part"]
    table = [heading]
    for ratio in sorted(found.ratios, key=lambda each: -each.pods_per_second):
        ours, theirs = groups[ratio.workload, OURS], groups[ratio.workload, ratio.rival]
        table.append(
            [
                ratio.workload,
                str(ours[0].created.get("Node", 0)),
                _figure(ours, _RATE, ".0f"),
                *(_figure(groups.get((ratio.workload, each), ()), _RATE, ".0f") for each in rivals),
                f"**{ratio.pods_per_second:.2f}**",
                f"{ratio.with_events:.2f}",
                f"{ratio.by_all_cpu:.2f}",
                _both(ours, theirs, lambda run: all_cpu(run) * 1000, ".2f"),
                _both(ours, theirs, lambda run: run.latency_p99, ".2f"),
                _both(ours, theirs, lambda run: run.drained_cpu_per_pod * 1000, ".2f"),
                _both(ours, theirs, lambda run: run.peak_memory_mib, ".0f"),
                _figure(ours, busy_cores, ".2f"),
                _figure(ours, lambda run: 100 * own_share(run), ".0f") + " %",
            ]
        )
    return table


def _both(ours: Sequence[Run], theirs: Sequence[Run], of: Callable[[Run], float], form: str) -> str:
    return f"{_figure(ours, of, form)}, {_figure(theirs, of, form)}"


def _figure(runs: Sequence[Run], of: Callable[[Run], float], form: str) -> str:
    return format(median(of(run) for run in runs), form) if runs else ""


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("result", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def main(result: Path) -> None:
    """Print the JSON that `python -m benchmarks --json` wrote as a Markdown table."""
    found = msgspec.json.decode(result.read_bytes(), type=Report)
    heading, *body = rows(found)
    for cells in (heading, ["---"] * len(heading), *body):
        click.echo(f"| {' | '.join(cells)} |")
    for text in (*other_measures(found.ratios), found.summary):
        click.echo(f"\n`{text}`")


if __name__ == "__main__":
    main()
