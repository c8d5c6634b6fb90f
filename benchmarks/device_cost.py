"""`python -m benchmarks.device_cost`: the cost of DynamicResources for pods without claims.

Times vary by more than this cost, so instructions are counted, by Valgrind. Each count is the
difference between two runs that differ only in the number of pods, which leaves start-up out. The
engine attempts equal pods, with all default plugins and without DynamicResources. No garbage is
collected meanwhile: whether one more full collection falls into a run would decide the result.
"""

from __future__ import annotations

import gc
import subprocess
import sys
from typing import Final

import click

from benchmarks.engine_world import EngineWorld
from benchmarks.remembering import VALGRIND, environment, instructions
from scheduler.framework import plugin_names

BAR: Final = 0.01
_FEW: Final = 100
"""Pods of the shorter run of each pair."""


def attempt_pods(nodes: int, count: int, *, devices: bool) -> EngineWorld:
    """Attempt `count` equal pods, with the plugin or without."""
    world = EngineWorld(nodes, without="" if devices else plugin_names.DYNAMIC_RESOURCES)
    for pod in [world.pod() for _ in range(count)]:
        world.attempt(pod)
    return world


def _counted(nodes: int, count: int, *, devices: bool) -> int:
    command = [*VALGRIND, sys.executable, "-m", "benchmarks.device_cost"]
    command += ["--run", "with" if devices else "without"]
    command += ["--nodes", str(nodes), "--pods", str(count)]
    variables = environment()
    done = subprocess.run(command, capture_output=True, text=True, env=variables, check=False)
    return instructions(done.stderr)


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("--nodes", default=100, help="Nodes of the cluster.")
@click.option("--pods", default=1100, help="Pods of the longer run of each pair.")
@click.option("--run", type=click.Choice(["with", "without"]), hidden=True)
def main(nodes: int, pods: int, run: str | None) -> None:
    """Count the instructions of an attempt at a pod without claims, with the plugin and without.

    Needs Valgrind, and some minutes. Exits with 1 if the plugin takes more than 1 %.
    """
    if run is not None:
        gc.disable()
        attempt_pods(nodes, pods, devices=run == "with")
        return
    if pods <= _FEW:
        raise click.BadParameter(f"must be more than {_FEW}", param_hint="--pods")
    counts = [
        (_counted(nodes, pods, devices=each) - _counted(nodes, _FEW, devices=each)) / (pods - _FEW)
        for each in (True, False)
    ]
    share = counts[0] / counts[1] - 1
    click.echo(f"instructions of an attempt with DynamicResources:    {counts[0]:,.0f}")
    click.echo(f"instructions of an attempt without DynamicResources: {counts[1]:,.0f}")
    click.echo(f"cost of the plugin for a pod without claims: {share:.2%}")
    if share > BAR:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
