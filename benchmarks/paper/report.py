"""The tables and plots of `make paper`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from benchmarks.paper.traces import Published

EXACT: Final = ("BestFit", "DotProd", "GpuPacking", "GpuClustering")
"""Policies that draw nothing at random, and whose scores do not depend on how sums are rounded."""
SHOWN: Final = (80, 100, 130)
"""Points of the tables, in % of GPU capacity that has arrived."""
COLOURS: Final = {
    "Random": "#9a9a9a",
    "DotProd": "#c77d0a",
    "GpuClustering": "#7b52ab",
    "GpuPacking": "#3a923a",
    "BestFit": "#1b6ca8",
    "FGD": "#c0392b",
    "FGD+BestFit": "#000000",
}
AXES: Final = {
    "allocation": "GPUs allocated (%)",
    "fragmentation": "GPUs fragmented (% of all)",
    "ratio": "idle GPUs fragmented (%)",
}


@dataclass(frozen=True, slots=True)
class Found:
    """The curves of one run."""

    trace: str
    policy: str
    seed: int
    curves: Mapping[str, Sequence[float]]


def difference(found: Found, published: Published) -> float | None:
    """Return the largest difference from the published curves; None if there are none."""
    expected = published.get((found.trace, found.policy, found.seed), {})
    differences = [
        float(np.nanmax(np.abs(np.array(found.curves[name][: len(points)]) - points)))
        for name, points in expected.items()
        if len(points) <= len(found.curves[name])
    ]
    short = any(len(points) > len(found.curves[name]) for name, points in expected.items())
    # A curve that ends early differs by all of the first point that it lacks.
    return 100.0 if short else max(differences, default=None)


def summary(runs: Sequence[Found], published: Published) -> str:
    """Return the last line of `make paper`."""
    exact = [difference(each, published) for each in runs if each.policy in EXACT]
    known = [each for each in exact if each is not None]
    largest = f"{max(known):.2f}" if known else "-"
    return (
        f"paper: largest difference {largest} percentage points over {len(runs)} runs; "
        f"FGD mean {_last(runs, 'FGD')}; Random mean {_last(runs, 'Random')}"
    )


def _last(runs: Sequence[Found], policy: str) -> str:
    ends = [each.curves["allocation"][-1] for each in runs if each.policy == policy]
    return f"{np.mean(ends):.2f}" if ends else "-"


def table(runs: Sequence[Found], published: Published) -> list[str]:
    """Return a Markdown table: a line for each trace and policy, beside what was published."""
    heads = [f"@{each}, published" for each in SHOWN]
    lines = [
        f"| trace | policy | seeds | {' | '.join(heads)} | largest difference |",
        f"|---|---|---|{'---|' * len(heads)}---|",
    ]
    for (trace, policy), group in grouped(runs).items():
        cells = [_cell(group, published, point) for point in SHOWN]
        known = [each for one in group if (each := difference(one, published)) is not None]
        largest = f"{max(known):.2f}" if known else "-"
        lines.append(f"| {trace} | {policy} | {len(group)} | {' | '.join(cells)} | {largest} |")
    return lines


def _cell(group: Sequence[Found], published: Published, point: int) -> str:
    ours = [each.curves["allocation"] for each in group]
    theirs = [
        expected["allocation"]
        for each in group
        if (expected := published.get((each.trace, each.policy, each.seed)))
    ]
    return f"{_mean(ours, point)}, {_mean(theirs, point)}"


def _mean(curves: Iterable[Sequence[float]], point: int) -> str:
    values = [each[point] for each in curves if len(each) > point]
    if not values:
        return "-"
    spread = f" ± {np.std(values, ddof=1):.2f}" if len(values) > 1 else ""
    return f"{np.mean(values):.2f}{spread}"


def grouped(runs: Sequence[Found]) -> dict[tuple[str, str], list[Found]]:
    """Return the runs by trace and policy, in the order of the first ones."""
    found: dict[tuple[str, str], list[Found]] = {}
    for each in runs:
        found.setdefault((each.trace, each.policy), []).append(each)
    return found


def plot(runs: Sequence[Found], published: Published, folder: Path) -> list[Path]:
    """Draw a plot for each kind of curve, a panel for each trace; return the files."""
    mpl.rcParams["svg.hashsalt"] = "kubestow"
    mpl.rcParams["svg.fonttype"] = "none"
    files = []
    for curve, label in AXES.items():
        path = folder / f"paper-{curve}.svg"
        _figure(runs, published, curve, label).savefig(path, metadata={"Date": None})
        files.append(path)
    return files


def _figure(runs: Sequence[Found], published: Published, curve: str, label: str) -> Figure:
    traces = list(dict.fromkeys(each.trace for each in runs))
    figure = Figure(figsize=(4.2 * len(traces), 3.6), layout="constrained")
    panels = figure.subplots(1, len(traces), sharey=True, squeeze=False)[0]
    for axes, trace in zip(panels, traces, strict=True):
        for (name, policy), group in grouped(runs).items():
            if name != trace:
                continue
            colour = COLOURS.get(policy)
            ours = [each.curves[curve] for each in group]
            (line,) = axes.plot(_line(ours), label=policy, color=colour, linewidth=1.4)
            keys = ((each.trace, each.policy, each.seed) for each in group)
            theirs = [found[curve] for key in keys if curve in (found := published.get(key, {}))]
            if theirs:
                axes.plot(_line(theirs), color=line.get_color(), linewidth=3.5, alpha=0.25)
        axes.set_title(trace)
        axes.set_xlabel("GPUs requested by arrivals (%)")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.3)
        if curve == "allocation":
            axes.set_xlim(70, None)
            axes.set_ylim(65, 100)
    panels[0].set_ylabel(label)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels))
    return figure


def _line(curves: Sequence[Sequence[float]]) -> list[float]:
    length = min(map(len, curves))
    means: list[float] = np.mean([each[:length] for each in curves], axis=0).tolist()
    return means
