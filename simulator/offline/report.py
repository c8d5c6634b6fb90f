"""The report of a simulation: one HTML file that needs nothing else, and no scripts.

Plots are drawn by matplotlib (`kubestow[report]`) as SVG inside of the file. Every text that comes
from objects or files is escaped. Equal runs make equal bytes.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from statistics import mean, stdev
from typing import TYPE_CHECKING, Final

import numpy as np

from scheduler.metrics.build_info import build_info
from simulator.offline.comparison import Comparison
from simulator.offline.experiment import SimulatedRun
from simulator.offline.figures import meanings

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_ROWS: Final = 500
"""Rows of one table."""
POINTS: Final = 200
"""Times of a curve."""
MAX_CONFIGURATION: Final = 100_000
"""Characters of a configuration that are shown."""

_STYLE: Final = """\
:root{color-scheme:light dark}
body{font:16px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;margin:1rem 0}
caption{text-align:left;font-weight:bold}
th,td{text-align:left;padding:.2rem .8rem .2rem 0;border-bottom:1px solid #8888;vertical-align:top;
overflow-wrap:anywhere}
td.number,th.number{text-align:right;font-variant-numeric:tabular-nums}
pre{overflow:auto;border:1px solid #8888;padding:.8rem}
figure{margin:1rem 0;background:#fff;color:#000}
figure svg{max-width:100%;height:auto}
.bad{color:#b00020;font-weight:bold}
"""
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"


@dataclass(frozen=True, slots=True)
class ReportInput:
    """Everything that a report shows."""

    runs: Sequence[SimulatedRun]
    comparisons: Sequence[Comparison]
    assertions: Sequence[tuple[str, str, bool]]
    """Expression, where it was checked, and whether it holds."""
    configurations: Mapping[str, str]
    """Texts by name; empty: the default."""
    command: str
    """The command line that repeats the runs."""


def report(given: ReportInput) -> str:
    """Return the page.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
    """
    parts = [
        "<h1>Simulation</h1>",
        _summary(given),
        *_plots(given.runs),
        *(_difference(each) for each in given.comparisons if each.differences),
        _waiting(given.runs),
        _configurations(given.configurations),
        "<h2>How to repeat it</h2>",
        f"<pre>{escape(given.command)}</pre>",
        f"<p>kubestow {escape(build_info().version)}: equal input gives equal results.</p>",
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Simulation</title><style>{_STYLE}</style></head><body>\n"
        + "\n".join(each for each in parts if each)
        + "\n</body></html>\n"
    )


# -- tables --------------------------------------------------------------------------------------


def _summary(given: ReportInput) -> str:
    runs = given.runs
    seeds = sorted({each.seed for each in runs})
    values: dict[str, dict[str, list[float]]] = {}
    for run in runs:
        for figure, value in run.figures.items():
            values.setdefault(figure, {}).setdefault(run.name, []).append(value)
    names = list(dict.fromkeys(each.name for each in runs))
    said = meanings(values)
    rows = [
        [figure, *(_spread(of.get(name, ())) for name in names), said[figure]]
        for figure, of in values.items()
    ]
    which = (
        f"seed {seeds[0]}" if len(seeds) == 1 else f"{len(seeds)} seeds, {seeds[0]} to {seeds[-1]}"
    )
    kind = "" if len(seeds) == 1 else "; mean ± standard deviation"
    numbers = range(1, len(names) + 1)
    parts = ["<h2>Summary</h2>"]
    parts += [
        f'<p class="bad">Run {escape(run.name)}, seed {run.seed}, ended: {escape(run.error)}</p>'
        for run in runs
        if run.error
    ]
    parts.append(_table(f"Figures of {which}{kind}", ["figure", *names, "meaning"], rows, numbers))
    if given.assertions:
        checks = [
            [text, where, "holds" if held else "fails"] for text, where, held in given.assertions
        ]
        parts.append(_table("Assertions", ["expression", "run", "outcome"], checks))
    return "\n".join(parts)


def _difference(comparison: Comparison) -> str:
    title = f"{comparison.compared} compared to {comparison.base}, seed {comparison.seed}"
    rows = [
        [each.pod, each.change, each.before or "-", each.after or "-", each.cause]
        for each in comparison.differences
    ]
    return f"<h2>{escape(title)}</h2>\n" + _table(
        f"{len(rows)} pods that fare otherwise", ["pod", "change", "before", "after", "cause"], rows
    )


def _waiting(runs: Sequence[SimulatedRun]) -> str:
    rows = [
        [each.pod, run.name, str(run.seed), each.state, each.reason]
        for run in runs
        for each in run.result.waiting
    ]
    if not rows:
        return ""
    headings = ["pod", "run", "seed", "state", "reason"]
    return "<h2>Who waits at the end</h2>\n" + _table(f"{len(rows)} pods", headings, rows)


def _configurations(texts: Mapping[str, str]) -> str:
    parts = ["<h2>Configuration</h2>"]
    for name, text in texts.items():
        shown = text[:MAX_CONFIGURATION] or "The default configuration."
        parts.append(f"<h3>{escape(name)}</h3>\n<pre>{escape(shown)}</pre>")
    return "\n".join(parts)


def _table(
    caption: str,
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    numbers: Iterable[int] = (),
) -> str:
    right = frozenset(numbers)

    def line(cells: Sequence[str], tag: str) -> str:
        made = (
            f"<{tag}{' class=number' if index in right else ''}>{escape(each)}</{tag}>"
            for index, each in enumerate(cells)
        )
        return f"<tr>{''.join(made)}</tr>"

    more = len(rows) - MAX_ROWS
    rest = f"<p>and {more} more; <code>-o json</code> has all</p>" if more > 0 else ""
    body = "\n".join(line(each, "td") for each in rows[:MAX_ROWS])
    return (
        f"<table><caption>{escape(caption)}</caption>\n<thead>{line(headings, 'th')}</thead>\n"
        f"<tbody>{body}</tbody></table>{rest}"
    )


def _spread(values: Sequence[float]) -> str:
    if not values:
        return "-"
    if len(values) == 1:
        return f"{round(values[0], 2):.12g}"
    return f"{round(mean(values), 2):.12g} ± {round(stdev(values), 2):.12g}"


# -- plots ---------------------------------------------------------------------------------------


def _plots(runs: Sequence[SimulatedRun]) -> list[str]:
    """Return the plots: measures over time if there are samples, and how long pods waited."""
    good = [each for each in runs if not each.error]
    found = ["<h2>Plots</h2>"]
    timed = [each for each in good if len(each.samples) > 1]
    if timed:
        names = [each for each in timed[0].samples[0] if each.endswith("_allocation")]
        for name in [*names, *(each.replace("_allocation", "_fragmentation") for each in names)]:
            if name in timed[0].samples[0]:
                label = name.replace("_", " ") + " (%)"
                found.append(_plot(name, label, "virtual time (s)", _over_time(timed, name)))
        queue = _over_time(timed, "waiting")
        found.append(_plot("waiting", "pods in the queue", "virtual time (s)", queue))
    if any(each.result.placed for each in good):
        found.append(_plot("waits", "placed pods (%)", "waited at most (s)", _waits(good)))
    return found if len(found) > 1 else []


def _by_name(runs: Sequence[SimulatedRun]) -> dict[str, list[SimulatedRun]]:
    found: dict[str, list[SimulatedRun]] = {}
    for each in runs:
        found.setdefault(each.name, []).append(each)
    return found


def _over_time(runs: Sequence[SimulatedRun], name: str) -> Callable[[Axes], None]:
    """Draw a measure: the mean over the seeds, and the range from the lowest to the highest."""
    times = np.linspace(0.0, max(each.samples[-1]["time"] for each in runs), POINTS)

    def draw(axes: Axes) -> None:
        for label, own in _by_name(runs).items():
            curves = np.array(
                [
                    np.interp(
                        times,
                        [sample["time"] for sample in run.samples],
                        [sample.get(name, 0.0) for sample in run.samples],
                    )
                    for run in own
                ]
            )
            (line,) = axes.plot(times, curves.mean(axis=0), label=_label(label))
            if len(own) > 1:
                low, high = curves.min(axis=0), curves.max(axis=0)
                axes.fill_between(times, low, high, color=line.get_color(), alpha=0.2, linewidth=0)

    return draw


def _waits(runs: Sequence[SimulatedRun]) -> Callable[[Axes], None]:
    """Draw which part of the placed pods waited at most how long."""

    def draw(axes: Axes) -> None:
        for label, own in _by_name(runs).items():
            waits = sorted(each.waited for run in own for each in run.result.placed)
            if waits:
                parts = np.linspace(0.0, 100.0, POINTS)
                axes.plot(np.percentile(waits, parts), parts, label=_label(label))

    return draw


def _label(name: str) -> str:
    """Return a name for a legend: `$` begins formulas there, `_` hides the entry."""
    return name.replace("$", r"\$").lstrip("_")[:60] or "-"


def _plot(name: str, title: str, below: str, draw: Callable[[Axes], None]) -> str:
    """Return a figure with one plot, whose bytes depend on what is drawn only."""
    import matplotlib as mpl  # noqa: PLC0415 - optional, see `kubestow[report]`
    from matplotlib.figure import Figure  # noqa: PLC0415 - as above

    with mpl.rc_context({"svg.hashsalt": name, "svg.fonttype": "none"}):
        figure = Figure(figsize=(8, 3.2), layout="constrained")
        axes = figure.add_subplot()
        draw(axes)
        axes.set(xlabel=below, ylabel=title)
        axes.set_ylim(bottom=0)
        axes.grid(visible=True, alpha=0.3)
        axes.legend()
        stream = io.StringIO()
        figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    svg = stream.getvalue()
    svg = svg[svg.index("<svg") :]
    # Ids such as `axes_1` are those of every plot; nothing refers to them.
    svg = re.sub(r'<g id="[a-zA-Z]\w*_\d+">', "<g>", svg)
    return f'<figure role="img" aria-label="{escape(title)}">{svg}</figure>'
