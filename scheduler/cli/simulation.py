"""The runs of `kubestow simulate`: what is asked, how they advance, and how they are printed."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import os
import shlex
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from scheduler.cli.exit_codes import CommandError
from scheduler.cli.pod_format import first_sentence, one_line
from scheduler.cli.tables import FOLDED, NUMBER, listing, put, say, wide_console
from scheduler.cli.waiting_pods import show_waiting
from scheduler.explain.records.wording import span
from scheduler.files import read_file

if TYPE_CHECKING:
    from rich.console import Console

    from simulator.offline import Result
    from simulator.offline.assertions import Assertion, Check
    from simulator.offline.comparison import Comparison
    from simulator.offline.experiment import Scenario, SimulatedRun, Simulation
    from simulator.offline.sampling import Sample

MAX_SEEDS: Final = 1000
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


def scenario(dumps: tuple[str, ...], asked: Mapping[str, Any]) -> Scenario:
    """Build the scenario of the options. Raises WorldError or click.BadParameter."""
    from scheduler.cli.whatif import node_of
    from simulator.offline.experiment import Scenario
    from simulator.offline.workload_files import read_templates, read_workload

    workload = None
    if asked["workload"]:
        workload = read_workload(asked["workload"], read_templates(asked["templates"]))
    return Scenario(
        dumps,
        plugin_dirs=tuple(asked["plugin_dirs"]),
        adopt=_adopts(dumps, asked),
        add_nodes=tuple(node_of(each) for each in asked["add_node"]),
        drop_nodes=tuple(asked["drop_node"]),
        cordon=tuple(asked["cordon"]),
        workload=workload,
        until=None if asked["until"] is None else _time(asked["until"], "--until"),
        needs_nodes=asked["nodes_needed"] is None,
        plugin_timeout=_time(asked["plugin_timeout"], "--plugin-timeout", least=0.1),
    )


def _adopts(dumps: tuple[str, ...], asked: Mapping[str, Any]) -> bool:
    """Whether every pod counts as one of the first profile: by default if no profile is known."""
    from scheduler.bundle.reading import is_bundle

    if asked["adopt"] is not None:
        return bool(asked["adopt"])
    return asked["config"] is None and not any(map(is_bundle, dumps))


def _time(text: str, option: str, *, least: float = 0.0) -> float:
    from simulator.offline.rows import seconds

    try:
        if (found := seconds(text)) < least:
            raise ValueError(f"give at least {least:g} s")
    except ValueError as error:
        raise click.BadParameter(f"{text!r}: {error}", param_hint=f"'{option}'") from error
    return found


def seeds_of(asked: Mapping[str, Any]) -> range:
    """Return the seeds of --seed or --seeds. Raises click.BadParameter."""
    from simulator.offline import experiment

    if asked["seeds"] is None:
        return range(asked["seed"], asked["seed"] + 1)
    try:
        found = experiment.seeds_of(asked["seeds"])
        if len(found) > MAX_SEEDS:
            raise ValueError(
                f"{asked['seeds']!r}: at most {MAX_SEEDS} seeds; more are a matter of --sweep"
            )
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="'--seeds'") from error
    return found


def parsed(texts: Sequence[str], *, pairs: bool = True) -> list[Assertion]:
    """Parse the assertions; figures that no run can have are refused. Raises click.BadParameter.

    Without `pairs` also those that compare two runs.
    """
    from simulator.offline.assertions import Assertion, AssertionSyntaxError
    from simulator.offline.figures import FIXED, may_exist

    try:
        found = [Assertion.parse(each) for each in texts]
        for each in found:
            if not pairs and any("." in name for name in each.names):
                raise AssertionSyntaxError(f"{each.text!r}: base. and compared. need --compare")
            plain = [name.removeprefix("base.").removeprefix("compared.") for name in each.names]
            each.check([*FIXED, *(name for name, own in zip(each.names, plain, strict=True)
                                  if may_exist(own))])  # fmt: skip
        return found
    except AssertionSyntaxError as error:
        raise click.BadParameter(str(error), param_hint="'--assert'") from error


# -- the runs ------------------------------------------------------------------------------------


def simulate(simulation: Simulation, asked: Mapping[str, Any]) -> Answer:
    """Run everything that is asked for.

    Raises:
        WorldError, ConfigurationError, BundleError: the input is bad.
        click.BadParameter: an assertion names a figure that does not exist.
    """
    from simulator.offline.comparison import compare

    assertions, seeds = parsed(asked["assertions"]), seeds_of(asked)
    configs = named((asked["config"], *asked["compare"]))
    runs: list[SimulatedRun] = []
    comparisons: list[Comparison] = []
    checks: list[Check] = []
    total = len(configs) * len(seeds)
    if len(configs) > 1:
        _check(simulation, configs.values())
    with _progress(total) as watch:
        for seed in seeds:
            own = [
                simulation.run(name, config, seed, on_sample=watch(name, seed))
                for name, config in configs.items()
            ]
            # A run that a plugin ended says nothing about the pods that it did not reach.
            pairs = [compare(own[0], each) for each in own[1:] if not (own[0].error or each.error)]
            checks += checked(assertions, own)
            runs += own
            comparisons += pairs
    return Answer(tuple(runs), tuple(comparisons), tuple(checks))


def _check(simulation: Simulation, configs: Iterable[str | None]) -> None:
    """Refuse malformed configurations before the first run. Raises ConfigurationError."""
    from scheduler.framework.status import ConfigurationError

    faults: list[str] = []
    for config in filter(None, configs):
        try:
            simulation.check(config)
        except ConfigurationError as error:
            faults += (f"{config}: {line}" for line in str(error).splitlines())
    if faults:
        raise ConfigurationError(faults)


def named(configs: Sequence[str | None]) -> dict[str, str | None]:
    """Return the configurations by a name of each: the file's, or the path where names repeat."""
    found: dict[str, str | None] = {}
    for each in configs:
        if each in found.values():
            raise click.UsageError(f"{each} is compared with itself; give another configuration")
        name = "default" if each is None else Path(each).stem
        found[str(each) if name in found else name] = each
    return found


def checked(assertions: Sequence[Assertion], runs: Sequence[SimulatedRun]) -> Iterator[Check]:
    """Yield the outcome of each assertion: for each run, or once where it compares runs."""
    from simulator.offline.assertions import AssertionSyntaxError, Check

    whole = [each for each in runs if not each.error]
    pair = (
        {f"base.{name}": value for name, value in runs[0].figures.items()}
        | {f"compared.{name}": value for name, value in runs[1].figures.items()}
        if len(runs) == 2 and len(whole) == 2
        else {}
    )
    for assertion in assertions:
        joint = any("." in name for name in assertion.names)
        if joint and len(runs) != 2:
            raise click.BadParameter(
                f"{assertion.text!r}: base. and compared. need one --compare",
                param_hint="'--assert'",
            )
        try:
            if joint:
                held = bool(pair) and assertion.holds({**runs[0].figures, **pair})
                yield Check(assertion.text, runs[1].name, runs[1].seed, held)
                continue
            for each in runs:
                held = not each.error and assertion.holds(each.figures)
                yield Check(assertion.text, each.name, each.seed, held)
        except AssertionSyntaxError as error:
            raise click.BadParameter(str(error), param_hint="'--assert'") from error


Watch = Callable[[str, int], "Callable[[Sample], None] | None"]


@contextmanager
def _progress(total: int) -> Iterator[Watch]:
    """Show a line about the run that is under way; nothing where nobody looks."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _name, _seed: None
        return
    done = 0
    with console.status("reading") as status:

        def watch(name: str, seed: int) -> Callable[[Sample], None]:
            nonlocal done
            done += 1
            head, began = f"run {done} of {total}, {one_line(name)}, seed {seed}", time.monotonic()

            def show(sample: Sample) -> None:
                passed = max(time.monotonic() - began, 1e-3)
                status.update(
                    f"{head}: virtual time {span(sample['time'])}, "
                    f"{sample['time'] / passed:.0f} times as fast as the clock, "
                    f"{sample['waiting']:.0f} waiting"
                )

            status.update(head)
            return show

        yield watch


# -- output --------------------------------------------------------------------------------------


def echo(answer: Answer, output: str) -> None:
    """Print everything: `table`, `json`, `jsonl` or `csv`."""
    from simulator.offline.documents import document

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
    from simulator.offline.documents import API_VERSION, plain

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
    from simulator.offline.experiment import fates

    runs = answer.runs
    for run in runs if len(runs) == 1 else ():
        show_result(run.result, console)
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
    rows = [
        (each.pod, each.change, each.before or "-", each.after or "-", first_sentence(each.cause))
        for each in found
    ]
    if rows:
        headings = ("POD", "CHANGE", "BEFORE", "AFTER", "CAUSE")
        _table(console, headings, rows, MAX_DIFFERENCES)


def _show_figures(runs: Sequence[SimulatedRun], console: Console) -> None:
    from simulator.offline.experiment import figures_by_name

    by_name = figures_by_name(runs)
    if all(len(each.samples) <= 1 for each in runs):
        # No time has passed, over which there could be a mean.
        by_name = {
            name: {figure: of[figure] for figure in of if not figure.endswith("n_mean")}
            for name, of in by_name.items()
        }
    show_figures(by_name, console)


def show_figures(by_name: Mapping[str, Mapping[str, Sequence[float]]], console: Console) -> None:
    """Print a row for each figure, a column for each configuration, of the values of its runs."""
    from simulator.offline.figures import in_order, spread

    columns: dict[str, Any] = {"FIGURE": FOLDED}
    columns |= {one_line(name).upper(): NUMBER for name in by_name}
    figures = in_order({figure for of in by_name.values() for figure in of})
    rows = [(each, *(spread(of.get(each, ())) for of in by_name.values())) for each in figures]
    if rows:
        put(console, listing(columns, rows))


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
    from simulator.offline.report import ReportInput, report

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
    from simulator.offline.junit import junit

    write_whole(path, junit(runs, checks))


def write_whole(path: str, text: str) -> None:
    """Write a file as a whole, or not at all. Raises CommandError."""
    target = Path(path)
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(target)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise CommandError(f"{path}: {error.strerror}") from error


def refuse_report_without_plots() -> None:
    """Refuse --report before anything runs if matplotlib is missing. Raises CommandError."""
    if importlib.util.find_spec("matplotlib") is None:
        raise CommandError("--report draws with matplotlib: pip install matplotlib")


def echo_notes(answer: Answer) -> None:
    """Print what was left out, once, beside the answer."""
    for text in dict.fromkeys(each for run in answer.runs for each in run.notes):
        click.echo(one_line(text), err=True)
