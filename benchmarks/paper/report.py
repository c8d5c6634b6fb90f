"""The tables and plots of `make paper`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from benchmarks.paper.traces import Published
from scheduler.explain.records.wording import counted

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
FROM: Final = {"allocation": 70, "fragmentation": 0, "ratio": 0}
"""Where the plots begin: below, every policy places every pod."""
PANELS: Final = 3
"""Traces beside each other in a plot."""
LEGEND_ENTRY: Final = 1.7
"""Inches that an entry of the legend needs."""


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
        _largest(found.curves[name], points) for name, points in expected.items() if points
    ]
    return max(differences, default=None)


def of_means(group: Sequence[Found], published: Published, curve: str) -> float | None:
    """Return the largest difference of the means over the seeds; None without published curves."""
    pairs = [
        (each.curves[curve], points)
        for each in group
        if (points := published.get((each.trace, each.policy, each.seed), {}).get(curve))
    ]
    if not pairs:
        return None
    ours, theirs = zip(*pairs, strict=True)
    return _largest(_line(ours), _line(theirs))


def _largest(ours: Sequence[float], theirs: Sequence[float]) -> float:
    if len(ours) < len(theirs):
        # A curve that ends early differs by all of the first point that it lacks.
        return 100.0
    differences = np.abs(np.array(ours[: len(theirs)]) - np.array(theirs))
    known = differences[np.isfinite(differences)]
    return float(known.max()) if len(known) else 0.0


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
    ends = [end for each in runs if each.policy == policy and (end := _end(each)) is not None]
    return f"{np.mean(ends):.2f}" if ends else "-"


def _end(found: Found) -> float | None:
    """Return the allocation at 130 %, or at the last point before it; None if there is none."""
    points = found.curves["allocation"][: SHOWN[-1] + 1]
    return next((each for each in reversed(points) if math.isfinite(each)), None)


def compared(runs: Sequence[Found], published: Published) -> list[str]:
    """Say which runs were compared with published curves, and which were not."""
    known = [each for each in runs if difference(each, published) is not None]
    if not known:
        curves = "published curves of none of these runs" if published else "no published curves"
        return [f"Nothing was compared: the folder has {curves}."]
    exact = counted(sum(each.policy in EXACT for each in known), "run")
    lines = [f"Compared with published curves: {len(known)} of {counted(len(runs), 'run')}."]
    lines[0] += f" The last line has the largest difference of {exact} of {', '.join(EXACT)}."
    for (trace, policy), group in grouped([each for each in runs if each not in known]).items():
        seeds = ", ".join(str(each.seed) for each in group)
        lines.append(f"Not compared, since nothing is published: {trace}, {policy}, seed {seeds}.")
    return lines


def table(runs: Sequence[Found], published: Published) -> list[str]:
    """Return a Markdown table: a line for each trace and policy, beside what was published.

    Without anything published about these runs it has no columns for it. If fewer GPUs arrive in a
    run than the last column tells of, another one has the end of each curve.
    """
    beside = any((each.trace, each.policy, each.seed) in published for each in runs)
    early = any(len(each.curves["allocation"]) <= SHOWN[-1] for each in runs)
    heads = ["trace", "policy", "seeds"]
    for point in SHOWN:
        heads += [f"@{point}", f"@{point} published"] if beside else [f"@{point}"]
    if early:
        heads.append("end")
    if beside:
        heads += ["largest difference", *(f"{curve}, means" for curve in AXES)]
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    for (trace, policy), group in grouped(runs).items():
        cells = [trace, policy, str(len(group))]
        for point in SHOWN:
            cells += _cells(group, published if beside else None, point)
        if early:
            cells.append(_spread([end for each in group if (end := _end(each)) is not None]))
        if beside:
            known = [each for one in group if (each := difference(one, published)) is not None]
            of_each = (of_means(group, published, curve) for curve in AXES)
            cells += map(_number, (max(known, default=None), *of_each))
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _cells(group: Sequence[Found], published: Published | None, point: int) -> Iterator[str]:
    """Yield the mean of a point, and unless None that of the published curves of the same seeds."""
    yield _mean([each.curves["allocation"] for each in group], point)
    if published is not None:
        known = (published.get((each.trace, each.policy, each.seed), {}) for each in group)
        yield _mean([each["allocation"] for each in known if "allocation" in each], point)


def _mean(curves: Iterable[Sequence[float]], point: int) -> str:
    return _spread([each[point] for each in curves if len(each) > point])


def _spread(values: Iterable[float]) -> str:
    """Return mean and standard deviation of those that are known."""
    values = [each for each in values if math.isfinite(each)]
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
    """Draw a plot for each kind of curve, a panel for each trace; return the files.

    Each is an SVG to enlarge, and a WebP, small enough for documents. Curves that end before the
    plots begin are not drawn; without any other there are no plots.
    """
    files: list[Path] = []
    runs = [each for each in runs if len(each.curves["allocation"]) > FROM["allocation"]]
    if not runs:
        return files
    with mpl.rc_context({"svg.hashsalt": "kubestow", "svg.fonttype": "none", "font.size": 11}):
        for curve, label in AXES.items():
            figure = _figure(runs, published, curve, label)
            path = folder / f"paper-{curve}.svg"
            figure.savefig(path, metadata={"Date": None})
            small = {"quality": 80, "method": 6}
            figure.savefig(path.with_suffix(".webp"), dpi=80, pil_kwargs=small)
            files.append(path)
    return files


def _figure(runs: Sequence[Found], published: Published, curve: str, label: str) -> Figure:
    traces = list(dict.fromkeys(each.trace for each in runs))
    columns = min(len(traces), PANELS)
    rows = -(-len(traces) // columns)
    width = max(4.0 * columns, 6.0)
    figure = Figure(figsize=(width, 3.0 * rows + 0.7), layout="constrained")
    panels = figure.subplots(rows, columns, sharey=True, squeeze=False).ravel().tolist()
    lines: dict[str, Line2D] = {}
    for axes, trace in zip(panels, traces, strict=False):
        own = [each for each in runs if each.trace == trace]
        lines |= _draw(axes, own, published, curve)
        axes.set(title=trace, xlabel="GPUs requested by arrivals (%)", xlim=(FROM[curve], None))
        axes.label_outer()
        axes.tick_params(labelbottom=True)
    for axes in panels[len(traces) :]:
        axes.set_visible(False)
    figure.supylabel(label, fontsize="medium")
    entries = min(len(lines), int(width / LEGEND_ENTRY))
    figure.legend(lines.values(), lines, loc="outside upper center", ncols=entries, frameon=False)
    return figure


def _draw(axes: Axes, runs: Sequence[Found], published: Published, curve: str) -> dict[str, Line2D]:
    """Draw the curves of one trace; what was published is a wide pale line below ours."""
    lines = {}
    for (_, policy), group in grouped(runs).items():
        ours = _shown([each.curves[curve] for each in group], curve)
        (lines[policy],) = axes.plot(*ours, color=COLOURS.get(policy), linewidth=1.4)
        keys = ((each.trace, each.policy, each.seed) for each in group)
        theirs = [points for key in keys if (points := published.get(key, {}).get(curve))]
        if theirs:
            colour = lines[policy].get_color()
            axes.plot(*_shown(theirs, curve), color=colour, linewidth=3.5, alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.3)
    return lines


def _shown(curves: Sequence[Sequence[float]], curve: str) -> tuple[list[int], list[float]]:
    """Return the part of the mean curve that the plot shows, without points that nobody knows."""
    points = enumerate(_line(curves))
    known = [each for each in points if each[0] >= FROM[curve] and math.isfinite(each[1])]
    return [point for point, _ in known], [value for _, value in known]


def _line(curves: Sequence[Sequence[float]]) -> list[float]:
    length = min(map(len, curves))
    values = np.array([each[:length] for each in curves])
    known = np.isfinite(values)
    # In a small cluster a single GPU is several per cent, so that seeds have different points.
    sums, counts = np.where(known, values, 0.0).sum(axis=0), known.sum(axis=0)
    means: list[float] = np.where(counts, sums / np.maximum(counts, 1), math.nan).tolist()
    return means
