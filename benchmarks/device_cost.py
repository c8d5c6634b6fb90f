"""`python -m benchmarks.device_cost`: the cost of DynamicResources for pods without claims.

Times vary by more than this cost. The bytecodes that the interpreter executes vary by less than
0.1 %, and decide. They are counted in attempts of the engine at equal pods, with all default
plugins and without DynamicResources, after the first pods have filled its caches.

`--instructions` counts those of the machine instead, with Valgrind: the difference between two runs
that differ only in the number of pods, without garbage collection. They include what the memory
allocator does, which depends on all that is in memory, so that few pods are not enough.
"""

from __future__ import annotations

import gc
import subprocess
import sys
from types import FrameType
from typing import Any, Final

import click

from benchmarks.engine_world import EngineWorld
from benchmarks.remembering import VALGRIND, environment, instructions
from scheduler.framework import plugin_names
from scheduler.offline.virtual_time import no_collections

BAR: Final = 0.01
_FIRST: Final = 10
"""Pods that are not counted."""
_FEW: Final = 100
"""Pods of the shorter run, where instructions are counted."""
KINDS: Final = ("with", "without")


class _Bytecodes:
    """Counts bytecodes, as the trace function of the interpreter."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, frame: FrameType, event: str, _argument: Any) -> _Bytecodes:
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        self.count += event == "opcode"
        return self


def _world(nodes: int, kind: str) -> EngineWorld:
    return EngineWorld(nodes, without="" if kind == "with" else plugin_names.DYNAMIC_RESOURCES)


def bytecodes(nodes: int, pods: int, kind: str) -> float:
    """Return the bytecodes of an attempt at a pod, with the plugin or without."""
    world = _world(nodes, kind)
    for pod in [world.pod() for _ in range(_FIRST)]:
        world.attempt(pod)
    counted = [world.pod() for _ in range(pods)]
    bytecodes = _Bytecodes()
    earlier = sys.gettrace()
    # Finalizers of what others left behind would count as well.
    with no_collections():
        sys.settrace(bytecodes)
        try:
            for pod in counted:
                world.attempt(pod)
        finally:
            sys.settrace(earlier)
    return bytecodes.count / pods


def attempt_all(nodes: int, pods: int, kind: str) -> None:
    """Attempt equal pods, for Valgrind."""
    gc.disable()
    world = _world(nodes, kind)
    for pod in [world.pod() for _ in range(pods)]:
        world.attempt(pod)


def instructions_of_one(nodes: int, pods: int, kind: str) -> float:
    """Return the instructions of an attempt at a pod, with the plugin or without."""
    more, few = (
        _instructions(["--run", kind, "--nodes", str(nodes), "--pods", str(count)])
        for count in (pods + _FEW, _FEW)
    )
    return (more - few) / pods


def _instructions(arguments: list[str]) -> int:
    command = [*VALGRIND, sys.executable, "-m", "benchmarks.device_cost", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)
    return instructions(done.stderr)


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("--nodes", default=100, help="Nodes of the cluster.")
@click.option("--pods", default=500, type=click.IntRange(1), help="Pods that are counted.")
@click.option(
    "--instructions",
    "by_valgrind",
    is_flag=True,
    help="Count instructions; needs Valgrind and some minutes. Take 1,000 pods.",
)
@click.option("--run", type=click.Choice(KINDS), hidden=True)
def main(nodes: int, pods: int, by_valgrind: bool, run: str | None) -> None:
    """Count the bytecodes of an attempt at a pod without claims, with the plugin and without.

    Exits with 1 if the plugin takes more than 1 %.
    """
    if run is not None:
        attempt_all(nodes, pods, run)
        return
    unit, count = ("instructions", instructions_of_one) if by_valgrind else ("bytecodes", bytecodes)
    counts = [count(nodes, pods, kind) for kind in KINDS]
    share = counts[0] / counts[1] - 1
    click.echo(f"{unit} of an attempt with DynamicResources:    {counts[0]:,.0f}")
    click.echo(f"{unit} of an attempt without DynamicResources: {counts[1]:,.0f}")
    click.echo(f"cost of the plugin for a pod without claims: {share:.2%}")
    if share > BAR:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
