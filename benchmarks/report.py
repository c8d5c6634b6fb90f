"""Report: medians per workload and scheduler as a table, and the ratios in one last line."""

from __future__ import annotations

import math
import platform
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Final

import msgspec
from rich.table import Table

from benchmarks.measure import Run
from benchmarks.schedulers import OURS

Column = tuple[str, Callable[[Run], float], str]


def busy_cores(run: Run) -> float:
    """Return the cores that scheduler, API server, etcd and generator used inside the window."""
    own = run.scheduler_cpu_per_pod * run.pods
    return (own + run.apiserver_cpu + run.etcd_cpu + run.generator_cpu) / run.window


def own_share(run: Run) -> float:
    """The scheduler's part of that CPU, 0 to 1."""
    return run.scheduler_cpu_per_pod * run.pods / (busy_cores(run) * run.window)


def all_cpu(run: Run) -> float:
    """Return the CPU seconds of all processes for a pod, until the last Event is written.

    Scheduler, API server, etcd and generator share the cores. How many a run gets differs on a
    shared machine; what a pod costs all of them does not, and full cores would bind so many.
    """
    return run.drained_cpu_per_pod + (run.drained_server_cpu + run.generator_cpu) / run.pods


_COLUMNS: tuple[Column, ...] = (
    ("pods/s", lambda run: run.pods_per_second, ".0f"),
    ("to last Event", lambda run: run.pods_per_second_with_events, ".0f"),
    ("created/s", lambda run: run.creations_per_second, ".0f"),
    ("sampled", lambda run: run.sampled.average if run.sampled else math.nan, ".0f"),
    ("p50 s", lambda run: run.latency_p50, ".2f"),
    ("p99 s", lambda run: run.latency_p99, ".2f"),
    ("CPU ms/pod", lambda run: run.scheduler_cpu_per_pod * 1000, ".2f"),
    ("with events", lambda run: run.drained_cpu_per_pod * 1000, ".2f"),
    ("of all", lambda run: all_cpu(run) * 1000, ".2f"),
    ("attempts", lambda run: sum(run.attempts.values()), ".0f"),
    ("MiB", lambda run: run.peak_memory_mib, ".0f"),
    ("apiserver s", lambda run: run.apiserver_cpu, ".1f"),
    ("etcd s", lambda run: run.etcd_cpu, ".1f"),
    ("generator s", lambda run: run.generator_cpu, ".1f"),
    ("window s", lambda run: run.window, ".1f"),
    # What limits a run: how busy all of them kept the cores, and the scheduler's part of it.
    ("cores busy", busy_cores, ".2f"),
    ("its %", lambda run: 100 * own_share(run), ".0f"),
)

_WITH_EVENTS: Final[Callable[[Run], float]] = _COLUMNS[1][1]
_NARROW: Final = ("pods/s", "p99 s", "with events", "MiB")
_WIDE: Final = 150


class Ratio(msgspec.Struct, frozen=True, kw_only=True):
    """kubestow divided by the fastest line of kube-scheduler, for one workload."""

    workload: str
    rival: str
    pods_per_second: float
    #: Until the last Event is written, beside the line that is the fastest by that measure.
    with_events: float
    #: CPU of all processes for a pod, that of the line that needs least divided by kubestow's.
    by_all_cpu: float
    cpu_per_pod: float
    memory: float
    latency_p99: float


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a plot or a later comparison needs."""

    date: str
    machine: str
    versions: dict[str, str]
    runs: list[Run]
    ratios: list[Ratio]
    #: Workloads without a ratio, and why.
    refused: dict[str, str]
    summary: str


def report(runs: Sequence[Run], versions: dict[str, str], failed: dict[str, str]) -> Report:
    """Compare runs; a workload in which a run failed or must not be compared gets no ratio."""
    ratios, refused = compare(runs)
    ratios = [ratio for ratio in ratios if ratio.workload not in failed]
    refused |= failed
    return Report(
        date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        machine=machine(),
        versions=versions,
        runs=list(runs),
        ratios=ratios,
        refused=refused,
        summary=summary(ratios, refused),
    )


def compare(runs: Sequence[Run]) -> tuple[list[Ratio], dict[str, str]]:
    """Ratios by workload, and why others have none."""
    groups = grouped(runs)
    ratios: list[Ratio] = []
    refused: dict[str, str] = {}
    for workload in dict.fromkeys(run.workload for run in runs):
        mine = groups.get((workload, OURS), [])
        others = {
            label: group
            for (name, label), group in groups.items()
            if name == workload and label != OURS
        }
        if reason := _refusal(mine, others):
            refused[workload] = reason
            continue
        rival = max(others, key=lambda label: _middle(others[label], _COLUMNS[0][1]))
        ratios.append(_ratio(workload, rival, mine, others))
    return ratios, refused


def _refusal(mine: list[Run], others: dict[str, list[Run]]) -> str:
    if not mine or not others:
        return f"no run of {'kubestow' if not mine else 'kube-scheduler'}"
    every = [*mine, *(run for group in others.values() for run in group)]
    for run in every:
        if run.problems:
            return f"{run.contender}: {'; '.join(run.problems)}"
    if len({_work(run) for run in every}) > 1:
        return "different work: " + "; ".join(
            sorted({f"{run.contender} {_work(run)}" for run in every})
        )
    return ""


def _work(run: Run) -> str:
    created = ", ".join(f"{count} {kind}" for kind, count in sorted(run.created.items()))
    mode = ", backlog" if run.backlog else ""
    return f"{run.pods} pods, size {run.size}{mode}, created {created}"


def _ratio(workload: str, rival: str, mine: list[Run], others: dict[str, list[Run]]) -> Ratio:
    theirs = others[rival]

    def of(value: Callable[[Run], float]) -> float:
        return _middle(mine, value) / _middle(theirs, value)

    return Ratio(
        workload=workload,
        rival=rival,
        pods_per_second=of(lambda run: run.pods_per_second),
        with_events=_middle(mine, _WITH_EVENTS)
        / max(_middle(group, _WITH_EVENTS) for group in others.values()),
        by_all_cpu=min(_middle(group, all_cpu) for group in others.values())
        / _middle(mine, all_cpu),
        cpu_per_pod=of(lambda run: run.drained_cpu_per_pod),
        memory=of(lambda run: run.peak_memory_mib),
        latency_p99=of(lambda run: run.latency_p99),
    )


def summary(ratios: Sequence[Ratio], refused: dict[str, str]) -> str:
    """The last line."""
    tail = f" (no ratio for {', '.join(refused)})" if refused else ""
    if not ratios:
        return f"ratio pods/s: nothing to compare{tail}"
    lowest = min(ratios, key=lambda ratio: ratio.pods_per_second)
    return (
        f"ratio pods/s: geometric mean {_geometric(r.pods_per_second for r in ratios):.2f}, "
        f"lowest {lowest.pods_per_second:.2f} ({lowest.workload}); "
        f"CPU per pod: {_geometric(r.cpu_per_pod for r in ratios):.2f}; "
        f"memory: {_geometric(r.memory for r in ratios):.2f}{tail}"
    )


def other_measures(ratios: Sequence[Ratio]) -> list[str]:
    """The lines before the last; empty when there is nothing to compare."""
    measures: tuple[tuple[str, Callable[[Ratio], float]], ...] = (
        ("until the last Event is written as well", lambda ratio: ratio.with_events),
        ("by the CPU of all processes for a pod", lambda ratio: ratio.by_all_cpu),
    )
    return [_measured(name, ratios, of) for name, of in measures if ratios]


def _measured(name: str, ratios: Sequence[Ratio], of: Callable[[Ratio], float]) -> str:
    lowest = min(ratios, key=of)
    return (
        f"{name}: geometric mean {_geometric(map(of, ratios)):.2f}, "
        f"lowest {of(lowest):.2f} ({lowest.workload})"
    )


def worse(ratios: Sequence[Ratio]) -> list[str]:
    """Return a sentence for each measure but CPU in which kubestow is worse; empty for none."""
    found = []
    values: tuple[tuple[str, Callable[[Ratio], float]], ...] = (
        ("pods/s lower", lambda ratio: 1 / ratio.pods_per_second),
        ("p99 latency higher", lambda ratio: ratio.latency_p99),
        ("peak memory higher", lambda ratio: ratio.memory),
    )
    for name, value in values:
        where = [f"{each.workload} ({value(each):.2f})" for each in ratios if value(each) > 1]
        if where:
            found.append(f"{name}: {', '.join(where)}")
    return found


def table(report: Report, width: int) -> Table:
    """Medians, one row for each workload and scheduler, with the ratio beside ours.

    On a terminal of less than 150 characters only what matters most; JSON has everything.
    """
    columns = [each for each in _COLUMNS if width >= _WIDE or each[0] in _NARROW]
    view = Table(title=f"{report.date}, {report.machine}; medians of the runs of each row")
    view.add_column("workload", overflow="fold", min_width=20)
    view.add_column("scheduler", overflow="fold")
    for heading, _, _ in columns:
        view.add_column(heading, justify="right", no_wrap=True)
    view.add_column("ratio", justify="right")
    view.add_column("by CPU of all", justify="right")
    ratios = {ratio.workload: ratio for ratio in report.ratios}
    previous = ""
    for (workload, label), group in grouped(report.runs).items():
        if previous and workload != previous:
            view.add_section()
        figures = [format(_middle(group, value), form) for _, value, form in columns]
        ratio = ratios.get(workload) if label == OURS else None
        view.add_row(
            workload if workload != previous else "",
            label,
            *figures,
            f"{ratio.pods_per_second:.2f}" if ratio else "",
            f"{ratio.by_all_cpu:.2f}" if ratio else "",
        )
        previous = workload
    return view


def line(run: Run) -> str:
    """Return one run as a line to print while others follow."""
    wrong = f"  NOT COMPARED: {'; '.join(run.problems)}" if run.problems else ""
    return (
        f"{run.workload} {run.size}, {run.contender}: {run.pods_per_second:.0f} pods/s, "
        f"p99 {run.latency_p99:.2f} s, {run.drained_cpu_per_pod * 1000:.2f} ms CPU/pod, "
        f"{run.peak_memory_mib:.0f} MiB{wrong}"
    )


def grouped(runs: Iterable[Run]) -> dict[tuple[str, str], list[Run]]:
    """Runs by workload and scheduler, in order of first appearance of the workload."""
    groups: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.workload, run.contender), []).append(run)
    order = list(dict.fromkeys(name for name, _ in groups))
    return dict(sorted(groups.items(), key=lambda each: (order.index(each[0][0]), each[0][1])))


def machine() -> str:
    """Processor and number of cores."""
    name = platform.processor() or platform.machine()
    cores = 0
    for text in Path("/proc/cpuinfo").read_text().splitlines():
        key, _, value = text.partition(":")
        if key.strip() == "model name":
            name, cores = value.strip(), cores + 1
    return f"{name}, {cores} cores"


def _middle(group: Sequence[Run], value: Callable[[Run], float]) -> float:
    return median(value(run) for run in group)


def _geometric(values: Iterable[float]) -> float:
    logarithms = [math.log(value) for value in values]
    return math.exp(sum(logarithms) / len(logarithms))
