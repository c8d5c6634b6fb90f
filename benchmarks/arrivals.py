"""`python -m benchmarks.arrivals`: the work of an arrival in an offline world, counted.

Times of equal runs differ by more than most changes save, so calls of Python functions are counted,
which are the same in every run, and with `--instructions` the machine instructions (by Valgrind)
that are left when a run without arrivals is subtracted. There are two runs:

- BestFit: pods with shares of GPUs arrive and stay, as in the experiments of `benchmarks.paper`.
  `--traces` reads the first trace and order of such a folder; otherwise they are drawn at random.
- the long run of `benchmarks.offline`: pods of twenty templates arrive and end.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from cProfile import Profile
from dataclasses import replace
from inspect import iscoroutinefunction
from pathlib import Path
from types import CodeType
from typing import Any, Final
from unittest.mock import patch

import click
import yaml

from benchmarks.offline import arrivals
from benchmarks.paper import experiment, traces
from benchmarks.remembering import VALGRIND, environment, instructions
from scheduler import offline
from scheduler.engine import Engine
from scheduler.offline import openb
from scheduler.offline.virtual_time import no_collections

KINDS: Final = ("BestFit", "long run")
NODES: Final = {"BestFit": 1213, "long run": 5000}
FEW: Final = 10
TRACE: Final = "default"
MODELS: Final = ("T4", "A10", "P100")
REQUESTS: Final = ((0, 0), (1, 200), (1, 300), (1, 460), (1, 810), (1, 1000), (2, 1000), (8, 1000))
"""GPUs of a template, and the thousandths of each."""

Play = Callable[[], object]
"""Lets the pods of a run arrive."""


# -- runs ----------------------------------------------------------------------------------------


def drawn_trace(nodes: int, count: int) -> traces.Trace:
    """Return nodes and arrivals like the paper's, drawn at random; a quarter does not fit."""
    source = random.Random(1)
    sizes = [(64_000, 2), (96_000, 8), (128_000, 8), (94_000, 0)]
    found = []
    for number in range(nodes):
        cpu, gpus = source.choice(sizes)
        model = source.choice(MODELS) if gpus else ""
        found.append(openb.TraceNode(f"node-{number}", cpu, 4 * cpu, gpus, model))
    pods = []
    for number in range(20):
        gpus, milli = source.choice(REQUESTS)
        cpu = source.choice([4000, 8000, 11_900, 16_000])
        # One that no node has: the failures of the paper's arrivals.
        spec = "V100" if number % 4 == 0 else source.choice(["", "", "T4", "A10|T4"])
        pods.append(openb.TracePod(f"pod-{number}", cpu, cpu, gpus, milli, spec if gpus else ""))
    order = openb.Order(
        tuple(source.choices(range(len(pods)), k=count)), tuple(source.sample(range(nodes), nodes))
    )
    return traces.Trace(tuple(found), tuple(pods), {1: order})


def best_fit(nodes: int, count: int | None, folder: Path | None = None) -> tuple[Play, int]:
    """Return how BestFit places the pods of a trace, and the number of arrivals."""
    if folder is None:
        trace = drawn_trace(nodes, 2000 if count is None else count)
    else:
        trace = traces.read(traces.files(folder)[0][TRACE])
    seed, order = min(trace.orders.items())
    order = replace(order, arrivals=order.arrivals[:count])
    given = experiment.configuration("BestFit", traces.typical_pods(trace.pods), trace.nodes)
    with tempfile.TemporaryDirectory() as temporary:
        config = Path(temporary) / "config.yaml"
        config.write_text(yaml.safe_dump(given), encoding="utf-8")
        world = offline.World(config=config, plugin_dirs=[experiment.EXAMPLE], seed=seed)

    def play() -> None:
        with world:
            experiment.play(world, trace, order)

    return play, len(order.arrivals)


def long_run(nodes: int, count: int | None) -> tuple[Play, int]:
    """Return how the default plugins place pods that end, and the number of arrivals."""
    number = 20_000 if count is None else count
    workload = list(arrivals(number, seed=1))

    def play() -> None:
        with offline.World(seed=1) as world:
            world.add_nodes(offline.node(cpu=16, memory="64Gi"), count=nodes)
            world.run(workload=workload)

    return play, number


def prepared(kind: str, nodes: int, count: int | None, folder: Path | None) -> tuple[Play, int]:
    """Return one of the runs, which has not begun, and the number of its arrivals."""
    return best_fit(nodes, count, folder) if kind == KINDS[0] else long_run(nodes, count)


# -- calls ---------------------------------------------------------------------------------------


def counted_calls(play: Play, *, attempts: bool) -> int:
    """Return the calls of Python functions while pods arrive, or while they are attempted.

    Without the calls before the first arrival, such as those that add the nodes.
    """
    profile = Profile(builtins=False)

    @contextmanager
    def counting(owner: Any, name: str) -> Iterator[None]:
        function = getattr(owner, name)

        def call(*args: Any, **more: Any) -> Any:
            profile.enable()
            try:
                return function(*args, **more)
            finally:
                profile.disable()

        async def awaited(*args: Any, **more: Any) -> Any:
            profile.enable()
            try:
                return await function(*args, **more)
            finally:
                profile.disable()

        with patch.object(owner, name, awaited if iscoroutinefunction(function) else call):
            yield

    with ExitStack() as stack:
        if attempts:
            stack.enter_context(counting(Engine, "decide"))
            stack.enter_context(counting(Engine, "commit"))
        else:
            stack.enter_context(counting(offline.World, "run"))
        # Finalizers of earlier runs would count as well.
        stack.enter_context(no_collections())
        play()
    return sum(each.callcount for each in profile.getstats() if isinstance(each.code, CodeType))


def calls(
    kind: str, nodes: int, count: int | None = None, folder: Path | None = None
) -> tuple[float, float]:
    """Return the calls of Python functions for each arrival, in all and in its attempts."""
    # What is done once in a process, such as imports, is not counted.
    prepared(kind, FEW, FEW, None)[0]()
    found = []
    for attempts in (False, True):
        play, number = prepared(kind, nodes, count, folder)
        found.append(counted_calls(play, attempts=attempts) / number)
    return found[0], found[1]


# -- instructions --------------------------------------------------------------------------------


def counted_instructions(kind: str, count: int | None, folder: Path | None) -> float:
    """Return the machine instructions for each arrival."""
    _, number = prepared(kind, NODES[kind], count, folder)
    return (_valgrind(kind, count, folder) - _valgrind(kind, 0, folder)) / number


def _valgrind(kind: str, count: int | None, folder: Path | None) -> int:
    command = [*VALGRIND, sys.executable, "-m", "benchmarks.arrivals", "--play", kind]
    command += [] if count is None else ["--count", str(count)]
    command += [] if folder is None else ["--traces", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)
    return instructions(done.stderr)


def _lines(count: int | None, folder: Path | None, *, counts: bool) -> Iterator[str]:
    for kind in KINDS:
        total, attempts = calls(kind, NODES[kind], count, folder)
        text = f"{kind}: {total:.0f} calls for each arrival, {attempts:.0f} of them in attempts"
        if counts:
            text += f"; {counted_instructions(kind, count, folder) / 1000:.0f},000 instructions"
        yield text


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("--count", type=click.IntRange(min=0), help="Arrivals of each run.  [default: all]")
@click.option("--traces", "folder", type=click.Path(path_type=Path), help="As of `make paper`.")
@click.option("--instructions", "counts", is_flag=True, help="Count these too; needs Valgrind.")
@click.option("--play", "kind", type=click.Choice(KINDS), hidden=True)
def main(count: int | None, folder: Path | None, counts: bool, kind: str | None) -> None:
    """Print the calls of Python functions for each arrival of two runs."""
    if kind is not None:
        prepared(kind, NODES[kind], count, folder)[0]()
        return
    for line in _lines(count, folder, counts=counts):
        click.echo(line)


if __name__ == "__main__":
    main()
