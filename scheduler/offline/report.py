"""The report of a simulation: one HTML file that needs nothing else, and no scripts.

Plots are drawn by matplotlib (`kubestow[report]`) as SVG inside of the file. Every text that comes
from objects or files is escaped. Equal runs make equal bytes.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scheduler.build_info import build_info
from scheduler.explain.records.wording import counted
from scheduler.offline.comparison import Comparison, by_cause
from scheduler.offline.experiment import SimulatedRun, fates, figures_by_name
from scheduler.offline.figures import in_order, meanings, title, written
from scheduler.offline.verdict import Contrast, contrasts, foremost, verdict
from scheduler.sanitizing.html import folded, page, table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

EXAMPLES: Final = 3
"""Pods named for a cause."""
POINTS: Final = 200
"""Times of a curve."""
MAX_CONFIGURATION: Final = 100_000
"""Characters of a configuration that are shown."""

COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")
"""Okabe and Ito's, which people with any colour vision can tell apart."""
DASHES: Final = ("-", "--", "-.", ":")
MARKERS: Final = ("o", "s", "^", "D", "v")

Curve = NDArray[np.float64]


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
        *_contrasts(given),
        _verdict(given),
        *_plots(given.runs),
        _summary(given),
        *_differences(given.comparisons),
        _waiting(given.runs),
        _configurations(given.configurations),
        "<h2>How to repeat it</h2>",
        f"<pre>{escape(given.command)}</pre>",
        f"<p>kubestow {escape(build_info().version)}: equal input gives equal results.</p>",
    ]
    return page("Simulation", parts)


# -- tables --------------------------------------------------------------------------------------


def _verdict(given: ReportInput) -> str:
    """Return the answer in words: whether all is well, what is not, and a line for each policy."""
    ended = [each for each in given.runs if each.error]
    failing = Counter(text for text, _, held in given.assertions if not held)
    waiting = sum(bool(each.figures.get("waiting")) for each in given.runs)
    reasons = [f"{len(ended)} of {counted(len(given.runs), 'run')} ended early"] if ended else []
    if given.assertions:
        reasons += [
            f"{text} fails in {count} of {sum(each[0] == text for each in given.assertions)} checks"
            for text, count in failing.items()
        ]
        good = "Every assertion holds."
    else:
        runs = counted(len(given.runs), "run")
        reasons += [f"pods wait at the end of {waiting} of {runs}"] if waiting else []
        good = "Every pod has a node."
    text = f"{'; '.join(reasons)}." if reasons else good
    text = f"No: {text}" if reasons and given.assertions else text[0].upper() + text[1:]
    parts = [f'<p class="verdict">{escape(text)}</p>']
    parts += [
        f'<p class="bad">Run {escape(run.name)}, seed {run.seed}, ended: {escape(run.error)}</p>'
        for run in ended
    ]
    whole = _by_name(each for each in given.runs if not each.error)
    lines = (f"{name}: {fates(own)}" for name, own in whole.items())
    parts.append("<ul>" + "".join(f"<li>{escape(each)}</li>" for each in lines) + "</ul>")
    return "\n".join(parts)


def _contrasts(given: ReportInput) -> Iterator[str]:
    """Yield for each further policy whether it is better, and the figures that differ most."""
    values = figures_by_name(given.runs)
    for base, other, found in contrasts(values) if len(values) > 1 else ():
        yield f'<p class="verdict">{escape(verdict(base, other, found))}</p>'
        if cards := "".join(_card(base, other, each) for each in foremost(found)):
            yield f'<p>What differs most:</p><ul class="cards">{cards}</ul>'


def _card(base: str, other: str, each: Contrast) -> str:
    """Return a figure of two policies to be seen at a glance."""
    kind = {True: "better", False: "worse", None: ""}[each.better]
    notes = [each.change, kind, "the seeds overlap: it may be chance" if each.by_chance else ""]
    before, after = (written(each.figure, of) for of in (each.before, each.after))
    return (
        f'<li class="card {kind}">{escape(title(each.figure))}<b>{escape(after)}</b>'
        f"with {escape(other)}, {escape(before)} with {escape(base)}"
        f"<br>{escape('; '.join(filter(None, notes)))}</li>"
    )


def _summary(given: ReportInput) -> str:
    seeds = sorted({each.seed for each in given.runs})
    values = figures_by_name(given.runs)
    figures = in_order({figure for of in values.values() for figure in of})
    said = meanings(figures)
    rows = [
        [figure, *(written(figure, of.get(figure, ())) for of in values.values()), said[figure]]
        for figure in figures
    ]
    which = (
        f"seed {seeds[0]}" if len(seeds) == 1 else f"{len(seeds)} seeds, {seeds[0]} to {seeds[-1]}"
    )
    kind = "" if len(seeds) == 1 else "; mean ± standard deviation where the seeds differ"
    numbers = range(1, len(values) + 1)
    headings = ["figure", *values, "meaning"]
    parts = ["<h2>Figures</h2>"]
    telling = [each for each in rows if not _says_nothing(each[1:-1])]
    if telling:
        parts.append(table(f"Figures of {which}{kind}", headings, telling, numbers))
    if rest := [each for each in rows if _says_nothing(each[1:-1])]:
        what = "equal for all" if len(values) > 1 else "0"
        parts.append(
            folded(f"{counted(len(rest), 'figure')}: {what}", table("", headings, rest, numbers))
        )
    if given.assertions:
        parts.append(table("Assertions", ["expression", "outcome", "fails for"], _checks(given)))
    return "\n".join(parts)


def _says_nothing(cells: Sequence[str]) -> bool:
    """Whether the values of a figure are equal for several policies, or 0 for the only one."""
    return len(set(cells)) == 1 if len(cells) > 1 else cells[0] in {"0", "0s", "0 %", "-"}


def _checks(given: ReportInput) -> list[list[str]]:
    """Return a row for each expression."""
    where: dict[str, list[str]] = {}
    for text, run, held in given.assertions:
        where.setdefault(text, []).extend([] if held else [run])
    return [
        [text, "fails" if runs else "holds", "; ".join(runs) or "-"] for text, runs in where.items()
    ]


def _differences(comparisons: Sequence[Comparison]) -> Iterator[str]:
    """Yield the pods that fare otherwise, grouped by cause, for each policy over all seeds."""
    policies: dict[tuple[str, str], list[Comparison]] = {}
    for comparison in comparisons:
        if comparison.differences:
            pair = (comparison.compared, comparison.base)
            policies.setdefault(pair, []).append(comparison)
    for (compared, base), own in policies.items():
        yield _difference(f"{compared} compared to {base}", own)


def _difference(title: str, comparisons: Sequence[Comparison]) -> str:
    found = [(each, of.seed) for of in comparisons for each in of.differences]
    counts = Counter(each.change for each, _ in found)
    caption = ", ".join(f"{count} {change}" for change, count in sorted(counts.items()))
    if len(comparisons) > 1:
        caption += f", in {len(comparisons)} seeds together"
    grouped = [
        [str(len(pods)), change, cause, _examples(pods)]
        for change, cause, pods in by_cause(each for each, _ in found)
    ]
    # Sorting keeps the order by name among equals.
    rows = [
        [each.pod, str(seed), each.change, each.before or "-", each.after or "-", each.cause]
        for each, seed in sorted(found, key=lambda each: each[0].change == "moved")
    ]
    headings = ["pod", "seed", "change", "before", "after", "cause"]
    return (
        f"<h2>{escape(title)}</h2>\n"
        + table(caption, ["pods", "change", "cause", "for example"], grouped)
        + folded("Pod by pod", table("", headings, rows))
    )


def _examples(pods: Iterable[str]) -> str:
    return ", ".join(list(dict.fromkeys(pods))[:EXAMPLES])


def _waiting(runs: Sequence[SimulatedRun]) -> str:
    rows = [
        [each.pod, run.name, str(run.seed), each.state, each.reason]
        for run in runs
        for each in run.result.waiting
    ]
    if not rows:
        return ""
    headings = ["pod", "run", "seed", "state", "reason"]
    # Most pods that wait do so in every run.
    where: dict[tuple[str, str], dict[str, None]] = {}
    for pod, run, _, _, reason in rows:
        where.setdefault((pod, reason), {})[run] = None
    groups: dict[tuple[str, str], list[str]] = {}
    for (pod, reason), names in where.items():
        groups.setdefault((", ".join(names), reason), []).append(pod)
    grouped = [
        [str(len(pods)), names, reason, _examples(pods)]
        for (names, reason), pods in sorted(groups.items(), key=lambda each: -len(each[1]))
    ]
    caption = counted(len({pod for pod, _ in where}), "pod")
    return (
        "<h2>Who waits at the end</h2>\n"
        + table(caption, ["pods", "runs", "reason", "for example"], grouped)
        + folded("Pod by pod", table("", headings, rows))
    )


def _configurations(texts: Mapping[str, str]) -> str:
    parts = ["<h2>Configuration</h2>"]
    for name, text in texts.items():
        shown = text[:MAX_CONFIGURATION] or "The default configuration."
        parts.append(f"<h3>{escape(name)}</h3>\n<pre>{escape(shown)}</pre>")
    return "\n".join(parts)


# -- plots ---------------------------------------------------------------------------------------


def _plots(runs: Sequence[SimulatedRun]) -> list[str]:
    """Return the plots: measures over time if there are samples, and how long pods waited."""
    good = [each for each in runs if not each.error]
    found = ["<h2>Plots</h2>"]
    timed = [each for each in good if len(each.samples) > 1]
    if timed:
        unit, second = _unit(max(each.samples[-1]["time"] for each in timed))
        below = f"virtual time ({unit})"
        names = [each for each in timed[0].samples[0] if each.endswith("_allocation")]
        names += [each.replace("_allocation", "_fragmentation") for each in names]
        found += [
            _plot(name, f"{title(name)} (%)", below, _over_time(timed, name, second))
            for name in names
            if name in timed[0].samples[0]
        ]
        queue = _over_time(timed, "waiting", second)
        found.append(_plot("waiting", "pods that wait", below, queue))
    longest = [each.waited for run in good for each in run.result.placed]
    if any(longest):
        unit, second = _unit(max(longest))
        waits = _waits(good, second)
        found.append(
            _plot("waits", "pods placed (%), by their wait", f"wait at most ({unit})", waits)
        )
    return [found[0], '<div class="plots">', *found[1:], "</div>"] if len(found) > 1 else []


def _by_name(runs: Iterable[SimulatedRun]) -> dict[str, list[SimulatedRun]]:
    found: dict[str, list[SimulatedRun]] = {}
    for each in runs:
        found.setdefault(each.name, []).append(each)
    return found


class _Curve(NamedTuple):
    label: str
    across: Curve
    up: Curve
    low: Curve | None = None
    """With `high`, the range of the seeds."""
    high: Curve | None = None


def _over_time(runs: Sequence[SimulatedRun], name: str, second: float) -> list[_Curve]:
    """Return a measure: the mean over the seeds, and the range from the lowest to the highest."""
    times = np.linspace(0.0, max(each.samples[-1]["time"] for each in runs), POINTS)
    found = []
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
        band = (curves.min(axis=0), curves.max(axis=0)) if len(own) > 1 else ()
        found.append(_Curve(label, times / second, curves.mean(axis=0), *band))
    return found


def _waits(runs: Sequence[SimulatedRun], second: float) -> list[_Curve]:
    """Return which part of the placed pods waited at most how long."""
    parts = np.linspace(0.0, 100.0, POINTS)
    found = []
    for label, own in _by_name(runs).items():
        waits = [each.waited for run in own for each in run.result.placed]
        if waits:
            found.append(_Curve(label, np.percentile(waits, parts) / second, parts))
    return found


def _merged(curves: Iterable[_Curve]) -> list[_Curve]:
    """Return each curve once; equal ones have all their names, so that none hides another."""
    found: dict[tuple[bytes, ...], _Curve] = {}
    for each in curves:
        key = tuple(b"" if array is None else array.tobytes() for array in each[1:])
        known = found.get(key)
        label = each.label if known is None else f"{known.label} = {each.label}"
        found[key] = each._replace(label=label)
    return list(found.values())


def _draw(axes: Axes, curves: Iterable[_Curve]) -> None:
    """Draw curves that differ in colour, dashes and marker: one of these is enough."""
    for index, curve in enumerate(_merged(curves)):
        colour = COLOURS[index % len(COLOURS)]
        axes.plot(
            curve.across,
            curve.up,
            label=_label(curve.label),
            color=colour,
            linestyle=DASHES[index % len(DASHES)],
            marker=MARKERS[index % len(MARKERS)],
            markevery=(index * 7 % 25, 25),
            markersize=5,
        )
        if curve.low is not None and curve.high is not None:
            axes.fill_between(
                curve.across, curve.low, curve.high, color=colour, alpha=0.15, linewidth=0
            )


def _unit(seconds: float) -> tuple[str, float]:
    """Return the unit of an axis that is so long, and the seconds that it has.

    >>> _unit(90.0), _unit(5400.0), _unit(1e6)
    (('s', 1.0), ('min', 60.0), ('d', 86400.0))
    """
    units = (("d", 86400.0), ("h", 3600.0), ("min", 60.0))
    return next((each for each in units if seconds >= 3 * each[1]), ("s", 1.0))


def _label(name: str) -> str:
    """Return a name for a legend: `$` begins formulas there, `_` hides the entry."""
    return name.replace("$", r"\$").lstrip("_")[:60] or "-"


def _plot(name: str, above: str, below: str, curves: Iterable[_Curve]) -> str:
    """Return a figure with one plot, whose bytes depend on what is drawn only."""
    import matplotlib as mpl  # noqa: PLC0415 - optional, see `kubestow[report]`
    from matplotlib.figure import Figure  # noqa: PLC0415 - as above

    with mpl.rc_context({"svg.hashsalt": name, "svg.fonttype": "none"}):
        figure = Figure(figsize=(6.4, 3.0), layout="constrained")
        axes = figure.add_subplot()
        _draw(axes, curves)
        axes.set_title(above, loc="left", fontsize="medium", fontweight="bold")
        axes.set(xlabel=below)
        axes.set_ylim(bottom=0)
        axes.grid(visible=True, alpha=0.3)
        axes.legend()
        stream = io.StringIO()
        figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    svg = stream.getvalue()
    svg = svg[svg.index("<svg") :]
    # Ids such as `axes_1` are those of every plot; nothing refers to them.
    svg = re.sub(r'<g id="[a-zA-Z]\w*_\d+">', "<g>", svg)
    return f'<figure role="img" aria-label="{escape(above)}">{svg}</figure>'
