"""`python -m benchmarks.gang_cost`: the cost of GangScheduling for pods without groups.

Times vary by more than this cost, so instructions are counted, by Valgrind. Each count is the
difference between two runs that differ only in the number of pods, which leaves start-up out. No
garbage is collected meanwhile: whether one more full collection falls into a run would decide the
result. Equal pods are scheduled twice over, with the plugin and without:

- *attempts* of the engine alone;
- *pods* in a cluster in virtual time: watch events, queue, attempts and bindings of the service,
  without HTTP. A pod takes more with an API server, so the share of the plugin is less there.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Final

import click

from benchmarks.engine_world import EngineWorld
from benchmarks.remembering import VALGRIND, environment, instructions
from plugins import GangScheduling
from scheduler import offline

BAR: Final = 0.01
KINDS: Final = ("attempt", "pod")
_FEW: Final = 100
"""Pods of the shorter run of each pair."""


def attempt_pods(nodes: int, count: int, *, gangs: bool) -> EngineWorld:
    """Attempt `count` equal pods, with the plugin or without."""
    world = EngineWorld(nodes, plugin=GangScheduling if gangs else None)
    for pod in [world.pod() for _ in range(count)]:
        world.attempt(pod)
    return world


def schedule_pods(nodes: int, count: int, *, gangs: bool) -> int:
    """Schedule `count` equal pods in virtual time; return how many have a node."""
    enabled = [{"name": GangScheduling.name}] if gangs else []
    configuration = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": {"multiPoint": {"enabled": enabled}}}],
    }
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        json.dump(configuration, file)
        file.flush()
        world = offline.World(config=file.name)
    with world:
        world.add_nodes(offline.node(cpu=64, pods=250), count=nodes)
        world.add_pods(offline.pod("p", cpu=0.1), count)
        return len(world.schedule().placed)


def _counted(kind: str, nodes: int, count: int, *, gangs: bool) -> int:
    command = [*VALGRIND, sys.executable, "-m", "benchmarks.gang_cost"]
    command += ["--run", kind, *(("--gangs",) if gangs else ())]
    command += ["--nodes", str(nodes), "--pods", str(count)]
    variables = environment()
    done = subprocess.run(command, capture_output=True, text=True, env=variables, check=False)
    return instructions(done.stderr)


def _of_one(kind: str, nodes: int, pods: int, *, gangs: bool) -> float:
    more, few = (_counted(kind, nodes, count, gangs=gangs) for count in (pods, _FEW))
    return (more - few) / (pods - _FEW)


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("--nodes", default=100, help="Nodes of the cluster.")
@click.option("--pods", default=1100, help="Pods of the longer run of each pair.")
@click.option("--kind", "kinds", type=click.Choice(KINDS), multiple=True, default=KINDS)
@click.option("--run", type=click.Choice(KINDS), hidden=True)
@click.option("--gangs", is_flag=True, hidden=True)
def main(nodes: int, pods: int, kinds: Sequence[str], run: str | None, gangs: bool) -> None:
    """Count the instructions of a pod without a group, with the plugin and without.

    Needs Valgrind, and some minutes. Exits with 1 if the plugin takes more than 1 %.
    """
    if run is not None:
        gc.disable()
        scheduled = attempt_pods if run == "attempt" else schedule_pods
        scheduled(nodes, pods, gangs=gangs)
        return
    if pods <= _FEW:
        raise click.BadParameter(f"must be more than {_FEW}", param_hint="--pods")
    missed = False
    for kind in kinds:
        without = _of_one(kind, nodes, pods, gangs=False)
        share = _of_one(kind, nodes, pods, gangs=True) / without - 1
        click.echo(f"instructions of one {kind} without GangScheduling: {without:,.0f}")
        click.echo(f"with it: {share:+.2%}")
        missed |= share > BAR
    if missed:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
