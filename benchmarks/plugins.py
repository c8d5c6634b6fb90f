"""`python -m benchmarks.plugins`: what a plugin costs beyond its own work, alone and isolated.

Cycles with a plugin alternate with cycles without; the time that its own methods take is measured
inside of them. What is left is the overhead of the framework. Cycles are measured in CPU time, and
the median of many pairs counts, so that other work of the machine hardly shows. The few
microseconds within a method are wall time: reading the CPU time takes 2 of them.

Without reuse rules somebody has to look at all results for each pod: to count the nodes that are
rejected, and to compare the scores with the last ones, or where all change to check their range,
add them up and search for the highest. That is array time of the plugin as well: it is measured
beside the cycles, on arrays of the same length.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click
import numpy as np
import uvloop

from benchmarks.engine_world import EngineWorld
from benchmarks.measured_plugins import (
    Changing,
    Columnar,
    MeasuredPlugin,
    Reusing,
    Scalar,
    timer,
)
from scheduler.framework import NoArgs
from scheduler.isolation.isolated_plugin import IsolatedPlugin
from scheduler.isolation.process.evaluator import ProcessEvaluator, ProcessSettings
from scheduler.isolation.thread import ThreadEvaluator

COLUMNAR_MICROSECONDS: Final = 10.0
"""A cycle."""
SCALAR_MICROSECONDS: Final = 2.0
"""A node, Filter and Score each."""
IMPORT_SECONDS: Final = 0.3
FEW_NODES, MANY_NODES = 100, 5000
WARM_UP: Final = 20
ISOLATED_TIMEOUT: Final = 60.0

KINDS: Final[tuple[tuple[type[MeasuredPlugin], str], ...]] = (
    (Reusing, "with reuse rules"),
    (Columnar, "without reuse rules"),
    (Changing, "whose scores all change"),
)


@dataclass(frozen=True, slots=True)
class Overhead:
    """Microseconds of a cycle, medians."""

    #: Beyond the plugin's own work.
    overhead: float
    #: The plugin's own work.
    own: float
    #: Calls of the plugin.
    calls: float


def overhead(plugin: type[MeasuredPlugin], nodes: int, pairs: int) -> Overhead:
    """Measure cycles with and without a plugin, alternately."""
    plain, extended = EngineWorld(nodes), EngineWorld(nodes, plugin=plugin)
    differences, own, calls = [], [], []
    look = _WITHOUT_REUSE.get(plugin)
    unavoidable: Callable[[], float] = float if look is None else look(nodes)
    for number in range(pairs + WARM_UP):
        without = _seconds(plain)
        plugin.spent, plugin.calls = 0.0, 0
        with_plugin = _seconds(extended)
        plugin.spent += unavoidable()
        if number >= WARM_UP:
            differences.append(with_plugin - without - plugin.spent)
            own.append(plugin.spent)
            calls.append(plugin.calls)
    micro = 1e6
    return Overhead(
        statistics.median(differences) * micro,
        statistics.median(own) * micro,
        statistics.median(calls),
    )


def _comparison(nodes: int) -> Callable[[], float]:
    """Return a function that counts codes and compares scores, and returns its seconds."""
    rows = np.arange(nodes)
    known = rows & 31

    def compare() -> float:
        codes, scores = (rows < 0).astype(np.int32), rows & 31
        began = timer()
        rejected = np.count_nonzero(codes)
        places = (scores != known).nonzero()[0]
        seconds = timer() - began
        assert rejected == len(places) == 0
        return seconds

    return compare


def _evaluation(nodes: int) -> Callable[[], float]:
    """Return a function that evaluates new results of all nodes, and returns its seconds."""
    rows = np.arange(nodes)
    others = rows % 100 + 100

    def evaluate() -> float:
        codes, scores = (rows < 0).astype(np.int32), rows & 31
        began = timer()
        rejected = np.count_nonzero(codes)
        lowest, highest = scores.item(scores.argmin()), scores.item(scores.argmax())
        totals = others + scores
        ties = (totals == totals.item(totals.argmax())).nonzero()[0]
        seconds = timer() - began
        assert rejected == 0
        assert lowest < highest < highest + len(ties)
        return seconds

    return evaluate


_WITHOUT_REUSE: Final[dict[type[MeasuredPlugin], Callable[[int], Callable[[], float]]]] = {
    Columnar: _comparison,
    Changing: _evaluation,
}


def _seconds(world: EngineWorld) -> float:
    pod = world.pod()
    began = time.thread_time()
    attempt = world.attempt(pod)
    seconds = time.thread_time() - began
    assert attempt.result is not None
    world.forget(attempt)
    return seconds


@dataclass(frozen=True, slots=True)
class Price:
    """Microseconds of CPU time of a whole cycle with an isolated plugin, means."""

    #: Of the scheduler, beyond a cycle without the plugin.
    scheduler: float
    #: Of the plugin's process, the plugin's own work included; 0 for a thread.
    process: float


def price(plugin: type[MeasuredPlugin], nodes: int, pairs: int, *, in_process: bool) -> Price:
    """Measure cycles with an isolated plugin, and cycles without, alternately.

    Pods stay placed, so that the process has to learn of each.
    """
    return uvloop.run(_price(plugin, nodes, pairs, in_process=in_process))


async def _price(
    plugin: type[MeasuredPlugin], nodes: int, pairs: int, *, in_process: bool
) -> Price:
    evaluator: Any
    if in_process:
        settings = ProcessSettings("kubestow", {}, ISOLATED_TIMEOUT, 2 << 30)
        evaluator = ProcessEvaluator(plugin, NoArgs(), settings, lambda *_: None)
    else:
        evaluator = ThreadEvaluator(plugin(None, None), ISOLATED_TIMEOUT)

    def stand_in(each: type[Any]) -> IsolatedPlugin:
        return IsolatedPlugin(each, evaluator, ISOLATED_TIMEOUT, lambda *_: None)

    plain, isolated = EngineWorld(nodes), EngineWorld(nodes, plugin=plugin, stand_in=stand_in)
    try:
        differences = []
        before = 0.0
        for number in range(pairs + WARM_UP):
            if number == WARM_UP:
                before = _process_seconds(evaluator)
            pod = plain.pod()
            began = time.process_time()
            plain.attempt(pod)
            without = time.process_time() - began
            differences.append(await _suspended_seconds(isolated) - without)
        return Price(
            statistics.mean(differences[WARM_UP:]) * 1e6,
            (_process_seconds(evaluator) - before) / pairs * 1e6,
        )
    finally:
        await evaluator.closed()


async def _suspended_seconds(world: EngineWorld) -> float:
    pod = world.pod()
    began = time.process_time()
    attempt = await world.suspended_attempt(pod)
    seconds = time.process_time() - began
    assert attempt.result is not None, attempt.failure
    return seconds


def _process_seconds(evaluator: Any) -> float:
    """Return the CPU time of the process of an evaluator so far."""
    pid = getattr(evaluator, "pid", None)
    if pid is None:
        return 0.0
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def seconds_of_import(rounds: int) -> float:
    """Return the least time in which a new interpreter imports what a plugin imports."""
    code = (
        "import time; began = time.process_time(); import kubestow.plugin; "
        "print(time.process_time() - began)"
    )
    command = [sys.executable, "-c", code]
    return min(
        float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        for _ in range(rounds)
    )


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("--pairs", default=400, help="Pairs of cycles of each kind.")
def main(pairs: int) -> None:
    """Measure the overhead of plugins, and exit with 1 if a target is missed."""
    missed = False

    def show(text: str, value: float, unit: str, limit: float | None) -> None:
        nonlocal missed
        missed |= limit is not None and value > limit
        target = "no target" if limit is None else f"target {limit:g}"
        click.echo(f"{text:<62} {value:8.2f} {unit} ({target})")

    for nodes in (FEW_NODES, MANY_NODES):
        for plugin, kind in KINDS:
            found = overhead(plugin, nodes, pairs)
            text = f"columnar, {kind}, {nodes} nodes, own time {found.own:.1f} µs"
            show(text, found.overhead, "µs a cycle", COLUMNAR_MICROSECONDS)
        found = overhead(Scalar, nodes, max(20, pairs // 8))
        text = f"scalar, {nodes} nodes, {found.calls:.0f} calls"
        show(text, found.overhead / (found.calls or 1), "µs a call", SCALAR_MICROSECONDS)
        for plugin, kind in ((Columnar, "columnar"), (Scalar, "scalar")):
            for in_process, where in ((False, "thread"), (True, "process")):
                paid = price(plugin, nodes, max(20, pairs // 8), in_process=in_process)
                text = f"{kind}, isolated in a {where}, {nodes} nodes"
                show(f"{text}, scheduler", paid.scheduler, "µs a cycle", None)
                if in_process:
                    show(f"{text}, process", paid.process, "µs a cycle", None)
    seconds = seconds_of_import(5)
    show("import of the public API", seconds, "s", IMPORT_SECONDS)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
