"""The runs of `kubestow simulate`: what is asked, and how they advance."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from scheduler.cli.pod_format import one_line
from scheduler.cli.simulation_output import Answer
from scheduler.explain.records.wording import span

if TYPE_CHECKING:
    from scheduler.offline.assertions import Assertion, Check
    from scheduler.offline.comparison import Comparison
    from scheduler.offline.experiment import Scenario, SimulatedRun, Simulation
    from scheduler.offline.sampling import Sample

MAX_SEEDS: Final = 1000


def scenario(dumps: tuple[str, ...], asked: Mapping[str, Any]) -> Scenario:
    """Build the scenario of the options. Raises WorldError or click.BadParameter."""
    from scheduler.cli.whatif import node_of
    from scheduler.offline.experiment import Scenario
    from scheduler.offline.workload_files import read_templates, read_workload

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
    from scheduler.recording.reading import is_bundle

    if asked["adopt"] is not None:
        return bool(asked["adopt"])
    return asked["config"] is None and not any(map(is_bundle, dumps))


def _time(text: str, option: str, *, least: float = 0.0) -> float:
    from scheduler.offline.rows import seconds

    try:
        if (found := seconds(text)) < least:
            raise ValueError(f"give at least {least:g} s")
    except ValueError as error:
        raise click.BadParameter(f"{text!r}: {error}", param_hint=f"'{option}'") from error
    return found


def seeds_of(asked: Mapping[str, Any]) -> range:
    """Return the seeds of --seed or --seeds. Raises click.BadParameter."""
    from scheduler.offline import experiment

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
    from scheduler.offline.assertions import Assertion, AssertionSyntaxError
    from scheduler.offline.figures import FIXED, may_exist

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
    from scheduler.offline.comparison import compare

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
    from scheduler.offline.assertions import AssertionSyntaxError, Check

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
