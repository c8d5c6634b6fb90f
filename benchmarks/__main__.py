"""`python -m benchmarks`: run workloads for several schedulers in turn and compare them."""

from __future__ import annotations

import json
import math
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from benchmarks.measure import CONTENDERS, Run, run
from benchmarks.workloads import WORKLOADS

OURS = "kubestow"


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("--workload", "names", multiple=True, default=tuple(WORKLOADS), help="Which to run.")
@click.option(
    "--contender",
    "labels",
    multiple=True,
    type=click.Choice(sorted(CONTENDERS)),
    default=("kubestow", "kube-scheduler"),
    help="Which schedulers to run, in this order, alternating.",
)
@click.option("--nodes", type=int, help="Other number of nodes.")
@click.option("--init-pods", type=int, help="Other number of pods before the window.")
@click.option("--pods", type=int, help="Other number of measured pods.")
@click.option("--rounds", default=1, help="How often to run each.")
@click.option("--backlog", is_flag=True, help="Create all pods before the scheduler starts.")
@click.option("--json", "output", type=click.Path(path_type=Path), help="Write every run here.")
def main(
    names: tuple[str, ...],
    labels: tuple[str, ...],
    nodes: int | None,
    init_pods: int | None,
    pods: int | None,
    rounds: int,
    backlog: bool,
    output: Path | None,
) -> None:
    """Measure schedulers side by side on a real etcd and kube-apiserver.

    Needs the binaries of `make envtest-build`. Each run has a fresh control plane; ratios are
    against the fastest kube-scheduler line of the same workload.
    """
    console = Console()
    runs: list[Run] = []
    for round_number in range(rounds):
        for name in names:
            workload = WORKLOADS[name].sized(nodes, init_pods, pods)
            # Alternate who goes first: machines drift.
            for label in labels if round_number % 2 == 0 else reversed(labels):
                with console.status(f"{name}, {workload.nodes} nodes: {label}"):
                    runs.append(run(workload, CONTENDERS[label], backlog=backlog))
                console.print(_line(runs[-1]))
    if output is not None:
        output.write_text(json.dumps([each.as_json() for each in runs], indent=2) + "\n")
    console.print(_table(runs))
    console.print(summary(runs))


def _line(each: Run) -> str:
    return (
        f"{each.workload} {each.contender}: {each.pods_per_second:.0f} pods/s, "
        f"{each.scheduler_cpu_per_pod * 1000:.2f} ms CPU/pod, {each.peak_memory_mib:.0f} MiB"
    )


def _table(runs: list[Run]) -> Table:
    table = Table(title="median of runs" if len(runs) > 2 else None)
    for heading in (
        "workload", "scheduler", "pods/s", "created/s", "p50 s", "p99 s", "CPU ms/pod",
        "with events", "events", "MiB", "apiserver s", "etcd s", "generator s",
    ):  # fmt: skip
        left = heading in ("workload", "scheduler")
        table.add_column(heading, justify="left" if left else "right")
    for (workload, label), group in _grouped(runs).items():
        table.add_row(
            workload,
            label,
            f"{_median([r.pods_per_second for r in group]):.0f}",
            f"{_median([r.creations_per_second for r in group]):.0f}",
            f"{_median([r.latency_p50 for r in group]):.2f}",
            f"{_median([r.latency_p99 for r in group]):.2f}",
            f"{_median([r.scheduler_cpu_per_pod for r in group]) * 1000:.2f}",
            f"{_median([r.drained_cpu_per_pod for r in group]) * 1000:.2f}",
            f"{_median([r.events_in_window for r in group]):.0f}/"
            f"{_median([r.events for r in group]):.0f}",
            f"{_median([r.peak_memory_mib for r in group]):.0f}",
            f"{_median([r.apiserver_cpu for r in group]):.1f}",
            f"{_median([r.etcd_cpu for r in group]):.1f}",
            f"{_median([r.generator_cpu for r in group]):.1f}",
        )
    return table


def summary(runs: list[Run]) -> str:
    """The last line: ratios of kubestow to the fastest kube-scheduler line."""
    groups = _grouped(runs)
    rates: dict[str, float] = {}
    cpu: list[float] = []
    memory: list[float] = []
    for workload in {name for name, _ in groups}:
        ours = groups.get((workload, OURS))
        rivals = [
            group for (name, label), group in groups.items() if name == workload and label != OURS
        ]
        if ours is None or not rivals:
            continue
        best = max(rivals, key=lambda group: _median([r.pods_per_second for r in group]))
        rates[workload] = _ratio(ours, best, "pods_per_second")
        cpu.append(_ratio(ours, best, "drained_cpu_per_pod"))
        memory.append(_ratio(ours, best, "peak_memory_mib"))
    if not rates:
        return "ratio pods/s: nothing to compare"
    lowest = min(rates, key=lambda name: rates[name])
    return (
        f"ratio pods/s: geometric mean {_geometric(list(rates.values())):.2f}, "
        f"lowest {rates[lowest]:.2f} ({lowest}); CPU per pod: {_geometric(cpu):.2f}; "
        f"memory: {_geometric(memory):.2f}"
    )


def _grouped(runs: list[Run]) -> dict[tuple[str, str], list[Run]]:
    groups: dict[tuple[str, str], list[Run]] = {}
    for each in runs:
        groups.setdefault((each.workload, each.contender), []).append(each)
    return groups


def _ratio(ours: list[Run], theirs: list[Run], field: str) -> float:
    return _median([getattr(r, field) for r in ours]) / _median([getattr(r, field) for r in theirs])


def _median(values: list[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def _geometric(values: list[float]) -> float:
    return math.exp(sum(math.log(value) for value in values) / len(values))


if __name__ == "__main__":
    main()
