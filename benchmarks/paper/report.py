"""The tables and plots of `make paper`."""

from __future__ import annotations

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
    own = (each.curves["allocation"] for each in runs if each.policy == policy)
    ends = [curve[: SHOWN[-1] + 1][-1] for curve in own if curve]
    return f"{np.mean(ends):.2f}" if ends else "-"


def table(runs: Sequence[Found], published: Published) -> list[str]:
    """Return a Markdown table: a line for each trace and policy, beside what was published.

    Without anything published about these runs it has no columns for it.
    """
    compared = any((each.trace, each.policy, each.seed) in published for each in runs)
    heads = ["trace", "policy", "seeds"]
    for point in SHOWN:
        heads += [f"@{point}", f"@{point} published"] if compared else [f"@{point}"]
    if compared:
        heads += ["largest difference", *(f"{curve}, means" for curve in AXES)]
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    for (trace, policy), group in grouped(runs).items():
        cells = [trace, policy, str(len(group))]
        for point in SHOWN:
            cells += _cells(group, published if compared else None, point)
        if compared:
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
    """Draw a plot for each kind of curve, a panel for each trace; return the files.

    Each is an SVG to enlarge, and a WebP, small enough for documents.
    """
    files = []
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
    figure = Figure(figsize=(max(4.0 * columns, 6.0), 3.0 * rows + 0.7), layout="constrained")
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
    figure.legend(
        lines.values(), lines, loc="outside upper center", ncols=len(lines), frameon=False
    )
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
    """Return the part of the mean curve that the plot shows."""
    points = _line(curves)
    first = min(FROM[curve], len(points))
    return list(range(first, len(points))), points[first:]


def _line(curves: Sequence[Sequence[float]]) -> list[float]:
    length = min(map(len, curves))
    means: list[float] = np.mean([each[:length] for each in curves], axis=0).tolist()
    return means
