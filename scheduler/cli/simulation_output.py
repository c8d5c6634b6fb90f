"""The answer of `kubestow simulate`: tables for people, records for programs, reports in files."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import os
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from scheduler.cli.exit_codes import CommandError
from scheduler.cli.pod_format import first_sentence, one_line
from scheduler.cli.tables import FOLDED, NUMBER, listing, put, say, wide_console
from scheduler.cli.waiting_pods import show_waiting
from scheduler.files import read_file

if TYPE_CHECKING:
    from rich.console import Console

    from scheduler.offline import Result
    from scheduler.offline.assertions import Check
    from scheduler.offline.comparison import Comparison, Difference
    from scheduler.offline.experiment import SimulatedRun


MAX_SHOWN: Final = 1000
"""Rows of one table; JSON has all."""
MAX_DIFFERENCES: Final = 20
"""Rows of one comparison, those that matter most; JSON has all."""

CSV_COLUMNS: Final = (
    "run", "seed", "event", "pod", "node", "time", "waited", "attempts", "reason"
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Answer:
    """Everything that was simulated."""

    runs: tuple[SimulatedRun, ...]
    comparisons: tuple[Comparison, ...]
    assertions: tuple[Check, ...]

    @property
    def good(self) -> bool:
        """Whether no run ended early, and every assertion holds; without any, all were placed."""
        if any(each.error for each in self.runs):
            return False
        if self.assertions:
            return all(each.holds for each in self.assertions)
        return not any(each.result.waiting for each in self.runs)


# -- what is asked -------------------------------------------------------------------------------


def echo(answer: Answer, output: str) -> None:
    """Print everything: `table`, `json`, `jsonl` or `csv`."""
    from scheduler.offline.documents import document

    if output == "json":
        click.echo(document("Simulation", answer))
    elif output == "jsonl":
        for record in records(answer):
            click.echo(json.dumps(record))
    elif output == "csv":
        _echo_csv(answer)
    else:
        _show(answer, wide_console())


def records(answer: Answer) -> Iterator[dict[str, Any]]:
    """Yield one flat record for each thing that happened, after one with the version."""
    from scheduler.offline.documents import API_VERSION, plain

    yield {"type": "simulation", "apiVersion": API_VERSION}
    for run in answer.runs:
        about = {"run": run.name, "seed": run.seed}
        if run.error:
            yield {"type": "error", **about, "error": run.error}
        result = run.result
        for kind, found in (
            ("placed", result.placed), ("waiting", result.waiting), ("evicted", result.evicted)
        ):  # fmt: skip
            for each in found:
                yield {"type": kind, **about, **plain(each)}
        for sample in run.samples:
            yield {"type": "sample", **about, **sample}
        yield {"type": "figures", **about, **run.figures}
    for comparison in answer.comparisons:
        about = {"run": comparison.compared, "base": comparison.base, "seed": comparison.seed}
        for difference in comparison.differences:
            yield {"type": "difference", **about, **plain(difference)}
    for check in answer.assertions:
        yield {"type": "assertion", **plain(check)}


def _echo_csv(answer: Answer) -> None:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for run in answer.runs:
        result, end = run.result, run.result.ended
        rows: list[tuple[object, ...]] = [
            ("placed", each.pod, each.node, each.time, each.waited, each.attempts, "")
            for each in result.placed
        ]
        rows += [("evicted", each.pod, each.node, each.time, "", "", "") for each in result.evicted]
        rows += [
            (each.state, each.pod, each.nominated, end, each.waited, each.attempts, each.reason)
            for each in result.waiting
        ]
        for row in rows:
            writer.writerow([_cell(each) for each in (run.name, run.seed, *row)])
    click.echo(stream.getvalue(), nl=False)


def _cell(value: object) -> object:
    """Return what a spreadsheet takes for data: no control character, no formula."""
    if not isinstance(value, str):
        return value
    text = one_line(value)
    return f"'{text}" if text[:1] in ("=", "+", "-", "@") else text


def _show(answer: Answer, console: Console) -> None:
    from scheduler.offline.experiment import fates

    runs = answer.runs
    for run in runs if len(runs) == 1 else ():
        show_result(run.result, console)
    _show_verdicts(runs, console)
    if len(runs) > 1 or len(runs[0].samples) > 1 or answer.assertions:
        _show_figures(runs, console)
    for comparison in answer.comparisons:
        if comparison.seed == runs[0].seed:
            _show_comparison(comparison, console)
    for run in runs:
        if run.error:
            head = f"run {one_line(run.name)}, seed {run.seed}, ended: "
            say(console, head + one_line(run.error), "red")
    show_assertions(answer.assertions, console, named=len(answer.runs) > 1)
    for name in dict.fromkeys(each.name for each in runs):
        own = [each for each in runs if each.name == name and not each.error]
        if own:
            head = f"{one_line(name)}: " if len(runs) > 1 else ""
            say(console, head + fates(own))


def show_result(result: Result, console: Console) -> None:
    """Print where pods went, which were evicted, and which wait."""
    if result.placed:
        _table(console, ("POD", "NODE"), [(each.pod, each.node) for each in result.placed])
    if result.evicted:
        say(console, "evicted to make room:", "bold")
        _table(console, ("POD", "NODE"), [(each.pod, each.node) for each in result.evicted])
    if result.waiting:
        show_waiting(((each.pod, each.state, each.reason) for each in result.waiting), console)


def _show_comparison(comparison: Comparison, console: Console) -> None:
    names = f"{one_line(comparison.compared)} compared to {one_line(comparison.base)}"
    counts = Counter(each.change for each in comparison.differences)
    changes = ", ".join(f"{count} {change}" for change, count in sorted(counts.items()))
    text = f"{names}, seed {comparison.seed}: {changes or 'no pod fares otherwise'}"
    say(console, text, "bold")
    # Sorting keeps the order by name among equals.
    found = sorted(comparison.differences, key=lambda each: each.change == "moved")
    many = len(found) > MAX_DIFFERENCES
    rows = [
        (each.pod, each.change, each.before or "-", each.after or "-", first_sentence(each.cause))
        for each in found
        if not (many and each.change == "moved")
    ]
    if rows:
        headings = ("POD", "CHANGE", "BEFORE", "AFTER", "CAUSE")
        _table(console, headings, rows, MAX_DIFFERENCES)
    if many:
        _show_causes([each for each in found if each.change == "moved"], console)


def _show_causes(moved: Sequence[Difference], console: Console) -> None:
    """Print why many pods moved, in groups; -o json has each."""
    from scheduler.offline.comparison import by_cause

    groups = [(str(len(pods)), cause, pods[0]) for _, cause, pods in by_cause(moved)]
    if groups:
        _table(console, ("MOVED", "CAUSE", "FOR EXAMPLE"), groups, MAX_DIFFERENCES)


def _show_verdicts(runs: Sequence[SimulatedRun], console: Console) -> None:
    """Print of each further configuration whether it is better, and at what."""
    from scheduler.offline.experiment import figures_by_name
    from scheduler.offline.verdict import contrasts, verdict

    values = {one_line(name): of for name, of in figures_by_name(runs).items()}
    for base, other, found in contrasts(values) if len(values) > 1 else ():
        say(console, verdict(base, other, found), "bold")


def _show_figures(runs: Sequence[SimulatedRun], console: Console) -> None:
    from scheduler.offline.experiment import figures_by_name

    by_name = figures_by_name(runs)
    if all(len(each.samples) <= 1 for each in runs):
        # No time has passed, over which there could be a mean.
        by_name = {
            name: {figure: of[figure] for figure in of if not figure.endswith("n_mean")}
            for name, of in by_name.items()
        }
    show_figures(by_name, console)


def show_figures(by_name: Mapping[str, Mapping[str, Sequence[float]]], console: Console) -> None:
    """Print a row for each figure, a column for each configuration, of the values of its runs.

    Figures that are equal for several configurations follow in a line.
    """
    from scheduler.offline.figures import in_order, spread

    columns: dict[str, Any] = {"FIGURE": FOLDED}
    columns |= {one_line(name).upper(): NUMBER for name in by_name}
    figures = in_order({figure for of in by_name.values() for figure in of})
    rows = [(each, *(spread(of.get(each, ())) for of in by_name.values())) for each in figures]
    equal = [each for each in rows if len(by_name) > 1 and len(set(each[1:])) == 1]
    if rows := [each for each in rows if each not in equal]:
        put(console, listing(columns, rows))
    if equal:
        say(console, f"equal: {', '.join(f'{name} {value}' for name, value, *_ in equal)}")


def show_assertions(checks: Iterable[Check], console: Console, *, named: bool) -> None:
    """Print the outcome of assertions; `named`: with the run of each."""
    for check in checks:
        where = f" ({one_line(check.run)}, seed {check.seed})" if named else ""
        text = f"{'holds' if check.holds else 'fails'}: {one_line(check.text)}{where}"
        say(console, text, "" if check.holds else "red")


def _table(
    console: Console, headings: tuple[str, ...], rows: list[Any], limit: int = MAX_SHOWN
) -> None:
    put(console, listing(dict.fromkeys(headings, FOLDED), rows[:limit]))
    if len(rows) > limit:
        say(console, f"and {len(rows) - limit} more; -o json has all")


def write_report(
    path: str, answer: Answer, configs: Mapping[str, str | None], command: Sequence[str]
) -> None:
    """Write the report; `configs` are files by name.

    Raises:
        CommandError: the file cannot be written.
    """
    from scheduler.offline.report import ReportInput, report

    texts = {
        name: "" if file is None else read_file(file).decode(errors="replace")
        for name, file in configs.items()
    }
    checks = [
        (each.text, f"{each.run}, seed {each.seed}", each.holds) for each in answer.assertions
    ]
    given = ReportInput(answer.runs, answer.comparisons, checks, texts, shlex.join(command))
    write_whole(path, report(given))


def write_junit(path: str, runs: Sequence[SimulatedRun], checks: Sequence[Check]) -> None:
    """Write what CI systems show. Raises CommandError if the file cannot be written."""
    from scheduler.offline.junit import junit

    write_whole(path, junit(runs, checks))


def write_whole(path: str, text: str) -> None:
    """Write a file as a whole, or not at all. Raises CommandError."""
    beside = _beside(path)
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise CommandError(f"{path}: {error.strerror}") from error


def check_writable(path: str, option: str) -> None:
    """Refuse a file that cannot be written, before anything runs. Raises click.BadParameter."""
    beside = _beside(path)
    try:
        beside.touch()
        beside.unlink()
    except OSError as error:
        raise click.BadParameter(f"{path}: {error.strerror}", param_hint=f"'{option}'") from error


def _beside(path: str) -> Path:
    target = Path(path)
    return target.with_name(f".{target.name}.{os.getpid()}")


def refuse_report_without_plots() -> None:
    """Refuse --report before anything runs if matplotlib is missing. Raises CommandError."""
    if importlib.util.find_spec("matplotlib") is None:
        raise CommandError("--report draws with matplotlib: pip install matplotlib")


def echo_notes(answer: Answer) -> None:
    """Print what was left out, once, beside the answer."""
    for text in dict.fromkeys(each for run in answer.runs for each in run.notes):
        click.echo(one_line(text), err=True)
